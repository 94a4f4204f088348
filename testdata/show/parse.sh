#!/usr/bin/env bash
# Tool calls and reasoning of every format.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
pkg=./adapter/parse/
show_test "compat equals SGLang's tool calls" $pkg '^TestCompatEqualsSGLang$'
show_test "compat equals SGLang's reasoning" $pkg '^TestReasoningEqualsSGLang$'
show_test "compositions" $pkg '^TestCompose(Compat|Strict)$|^TestPromptTail$'
show_test "strict verdicts" $pkg '^TestStrictVerdicts$'
show_test "no cut call runs" $pkg '^TestStrictNeverRunsACutCall$'
show_test "spans rebuild the input" $pkg '^TestSpansRebuildTheInput$'
show_test "gpt-oss by ids" $pkg '^TestHarmony'
show_test "read by a server" $pkg '^TestRemote'
AGENTRL_HOSTILE=pairs show_test "hostile inputs" $pkg '^TestHostileInputsGrowLinearly$' -timeout 20m
show_bench "strict MB/s" $pkg '^BenchmarkStrict$' -benchtime 200ms
show_bench "compat MB/s" $pkg '^BenchmarkCompat$' -benchtime 200ms
finish
