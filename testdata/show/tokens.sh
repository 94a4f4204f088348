#!/usr/bin/env bash
# Tokens and chat templates, beside their references. The tokenizers want what
# testdata/fetch/tokenizers.sh and reference.sh bring and AGENTRL_CASES; all
# files of the distributions take some minutes, AGENTRL_FILES=N takes every Nth.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

show_test "tokens: ids and decode, given cases" ./adapter/token '^TestCaseIDs$'
show_test "tokens: pieces of each pattern, given cases" ./adapter/token '^TestCasePieces$'
show_test "tokens: the same by the general engine" ./adapter/token '^TestCaseRegexes$'
show_test "tokens: NFC, given cases" ./adapter/token '^TestCaseNFC$'
show_test "tokens: character classes" ./adapter/token '^TestCaseClasses$'
show_test "tokens: our own tokenizer" ./adapter/token '^TestSmall'
show_test "tokens: full-size tokenizers, hard corpus" ./adapter/token '^TestFullSizeCorpus$'
AGENTRL_FILES=${AGENTRL_FILES:-1} show_test "tokens: full-size tokenizers, files of Go and Python" ./adapter/token '^TestFullSizeFiles$' -timeout 3h
show_test "tokens: random texts beside the reference" ./adapter/token '^TestReference(FullSize|Flags)$'
show_test "tokens: other pre-tokenizers beside the reference" ./adapter/token '^TestReferencePipelines$'
show_test "tokens: word characters beside the reference" ./adapter/token '^TestReferenceWordClass$'
show_test "tokens: what is refused" ./adapter/token 'Refuses'
show_test "tokens: incremental encoder equals a full encoding" ./adapter/token '^TestEncoder'
show_test "tokens: eight goroutines, -race" ./adapter/token '^TestConcurrentUse$' -race
show_test "tokens: load time" ./adapter/token '^TestFullSizeLoad$'
show_test "tokens: memory" ./adapter/token '^TestMemory$'
show_bench "tokens: encode" ./adapter/token '^BenchmarkEncode$' -benchtime 0.5s -timeout 1h
show_bench "tokens: incremental encoder" ./adapter/token '^BenchmarkEncoder$' -benchtime 0.2s

# Chat templates want what testdata/fetch/templates.sh brings; python3 with
# jinja2 is the reference of the language.
show_test "templates: real templates, given cases" ./internal/jinja '^TestGold$'
show_test "templates: real templates, random cases" ./internal/jinja '^TestFuzzGold$'
show_test "templates: snippets" ./internal/jinja '^TestSnippets$'
show_test "templates: every construct" ./internal/jinja '^TestLanguage$'
show_test "templates: every construct beside the reference" ./internal/jinja '^TestLanguageReference$'
show_test "templates: wire order and number spelling" ./adapter/template '^TestWireOrder$'
show_test "templates: thinking switch, pinned clock" ./adapter/template '^Test(ThinkingSwitch|PinnedClock)$'
show_test "templates: loading" ./adapter/template '^TestLoad'
show_test "templates: what is refused" ./adapter/template '^TestBadInput$'
show_test "templates: verdicts of the conformance check" ./adapter/template '^TestVerdicts$'
show_test "templates: verdicts of mutants" ./adapter/template '^TestMutants$'
show_test "templates: verdicts of real templates" ./adapter/template '^TestRealVerdicts$'
show_test "templates: deltas equal the end of a whole rendering" ./adapter/template '^TestRealDeltas$'
show_test "templates: many goroutines, -race" ./adapter/template '^TestConcurrentUse$' -race
show_bench "templates: turn, canonical and delta" ./adapter/template '^Benchmark(Canonical|Delta)$' -benchtime 0.5s
show_bench "templates: parse a body" ./internal/jinja '^BenchmarkParseJSON$' -benchtime 0.5s

finish
