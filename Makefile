# `make help` lists the targets.
GO          ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
FUZZTIME    ?= 20s
BENCHTIME   ?= 1s
PARALLEL    ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN)))) # packages tested at a time: tests also wait
TESTFLAGS   ?= # more flags of go test

.PHONY: help demo doctor telemetry test-telemetry bridge trainer test test-all race lint cross bench fuzz golden mutants soak-silence soak-pause harness-assets report-test fetch clean

help: ## list the targets
	@grep -hE '^[a-z][a-z0-9%-]*:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

demo: ## one whole rollout on this machine: no GPU, no account, no network
	@$(GO) run ./examples/quickstart

trainer: ## a small trainer's rollout loop on a made-up dataset
	@$(GO) run ./examples/trainer -demo 4 -n 2 -parallel 4 -out "$$(mktemp -d)/samples.jsonl"

doctor: ## is all there that a run needs? make doctor ARGS="-checkpoint DIR -sglang URL -rows FILE"
	@$(GO) run ./examples/doctor $(ARGS)

telemetry: ## a few rollouts with metrics for Prometheus at 127.0.0.1:9464; ARGS="-otlp URL" sends traces too
	@cd examples/telemetry && $(GO) run . $(ARGS)

test-telemetry: ## the tests of that example, a module of its own
	cd examples/telemetry && $(GO) test -race ./...

bridge: ## build bin/slimebridge, for slime
	$(GO) build -o bin/slimebridge ./examples/slimebridge

test: ## the tests, with the race detector; some minutes
	$(GO) test -race -short -p $(PARALLEL) $(TESTFLAGS) ./...

test-all: ## the long ones too
	$(GO) test -race -timeout 60m $(TESTFLAGS) ./...

race: test-all ## the same

lint: ## vet, gofmt, staticcheck
	$(GO) vet ./...
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { gofmt -l $$(git ls-files '*.go'); exit 1; }
	$(GO) run $(STATICCHECK) ./...

cross: ## build for every platform that the library supports
	@for os in linux darwin windows; do for arch in amd64 arm64; do \
		echo "build $$os/$$arch"; GOOS=$$os GOARCH=$$arch CGO_ENABLED=0 $(GO) build ./... || exit 1; done; done

bench: ## all benchmarks, in the form that benchstat reads
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

fuzz: ## each fuzz target for FUZZTIME
	@GO="$(GO)" FUZZTIME=$(FUZZTIME) sh testdata/fuzz.sh

golden: ## rewrite our own golden files; read the diff before you commit it
	$(GO) test ./adapter/... -run Golden -update

mutants: ## nine faults of an orchestrator, each with the test that finds it
	@bash testdata/mutants/run.sh

soak: ## 50,000 rollouts with faults, an hour or two: is all flat? as root; make soak ARGS="-n 2000"
	@nice -n 10 $(GO) run ./examples/soak $(ARGS)

show-%: ## rerun every line of a part's figures: show-slice, show-tokens, …
	@bash testdata/show/$*.sh

soak-silence: ## seven minutes of an engine's silence under the real CLIs
	AGENTRL_CLIS=1 AGENTRL_SOAK=1 $(GO) test -count=1 -v -timeout 40m -run '^TestSoakSilence$$' ./adapter

soak-pause: ## a pause of minutes under 16 live Claude Codes
	AGENTRL_CLIS=1 AGENTRL_SOAK=1 $(GO) test -count=1 -v -timeout 40m -run '^TestSoakPause$$' ./adapter

harness-assets: ## bring the real agents from npm and print their hashes
	@bash testdata/fetch/harness.sh

report-test: ## the report of a thousand rollouts, in a headless Chromium
	@bash testdata/report.sh

fetch: ## bring what some tests need into .cache: tokenizers, templates, CLIs
	@for f in testdata/fetch/*.sh; do echo "$$f"; bash "$$f" || exit 1; done

fetch-%: ## bring one of them
	@bash testdata/fetch/$*.sh

clean: ## remove what was built and fetched
	rm -rf bin .cache
