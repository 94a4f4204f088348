#!/usr/bin/env bash
# The figures of what people use: preflight, telemetry, report, record and replay, the slime bridge, documentation.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

export AGENTRL_CHROMIUM=${AGENTRL_CHROMIUM:-chromium}
show_test "preflight: all is well" ./examples/doctor TestAllIsWell
show_test "preflight: each fault is named, and nothing else" ./examples/doctor TestEachFaultIsNamedAndNothingElse
show_cmd "telemetry: spans, metrics, dashboard" sh -c 'cd examples/telemetry && go test -count=1 -v -run "Span|Dashboard" . | grep -o "figure: .*" | sed "s/figure: //" | paste -sd";" | grep spans'
show_cmd "telemetry: a collector decodes what is exported over OTLP" sh -c 'cd examples/telemetry && go test -count=1 -v -run Collector . | sed -n "s/.*figure: //p" | grep .'
show_bench "telemetry: overhead without a provider, a whole rollout" . BenchmarkTelemetryWithoutProvider -benchmem
show_test "run record: whole, versioned, atomic; of failures too" . '^TestRunRecord'
show_test "run record: a disk that refuses is a warning" . '^TestRunDirThatCannotBeWritten$'
show_test "run record: number, size and age are bounded" . '^(TestRunRetention|TestBigRecords.*)$'
show_test "regrade reads the run record" ./examples/regrade '^TestRegradeARun$'
show_test "report: a thousand rollouts in Chromium" ./examples/report 'InChromium$' -timeout 20m
show_test "report: empty, half-written and later records" ./examples/report '^(TestPageOfNothing|TestBrokenRecordsAreNamed|TestSizeIsBounded)$'
show_test "live view" . '^(TestLiveView|TestAdmin).*$'
show_test "replay: byte-identical; another parser's first difference" . 'TestReplay'
show_test "replay: the mini harness in real sandboxes" ./examples/replay '^TestReplayOfMini$'
AGENTRL_CLIS=1 show_test "replay: a real Claude Code run" ./examples/replay '^TestReplayOfClaudeCode$'
show_test "slime bridge: group of 8, back-pressure" ./examples/slimebridge TestGroupOfEight
show_test "slime bridge: fan-out" ./examples/slimebridge TestFanOut
show_test "slime bridge: evaluation" ./examples/slimebridge TestEvaluation
show_test "slime bridge: abort flag, and the samples come back" ./examples/slimebridge TestAbortAndComeBack
show_test "slime bridge: cancellation" ./examples/slimebridge TestCancellation
show_test "slime bridge: a service that dies, a client that vanishes" ./examples/slimebridge 'TestServiceThatDies|TestClientThatVanishes'
show_test "slime bridge: clear errors" ./examples/slimebridge TestClearErrors
show_test "slime bridge: top-p ids and routed experts on every sample" ./examples/slimebridge 'TestReplay|TestTopP|TestExperts'
show_test "slime bridge: prefix_cache_info and spec_info on every sample" ./examples/slimebridge 'TestSpec|TestInfos'
show_test "soak: nothing is left; SIGTERM in the middle" ./examples/soak .
show_test "bad input: half-written JSONL, a row of 100 MB" ./examples/internal/grading '^(TestLines.*|TestResume.*|TestRowOf100MB)$'
show_test "bad input: a row of 100 MB through the bridge" ./examples/slimebridge TestBigRows
show_test "bad input: records and recordings that are broken or of another version" . '^(TestRunRecordsThatAreBroken|TestRecordingsThatAreBroken)$'
show_test "documentation: codes, abort reasons, links" . TestGuide

finish
