#!/usr/bin/env bash
# The adapter with the real clients. Needs .cache/clis (testdata/fetch/clis.sh)
# and .cache/tokenizers (testdata/fetch/tokenizers.sh). With AGENTRL_SOAK=1 also
# what takes minutes of waiting: make soak-silence, make soak-pause.
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export AGENTRL_CLIS=1
a=./adapter
cli() { show_test "$1" $a "$2" -timeout 40m; }

cli "Claude Code 2.1.197 and 2.1.332 fix a bug" '^TestClaudeCodeFixesABug$'
cli "Claude Code: every echo rewrite, no false fork" '^TestClaudeCodeRewritesAreNoForks$'
cli "Claude Code: 20 malformed and 5 cut calls" '^TestClaudeCodeRunsNoMalformedCall$'
cli "Claude Code: sub-agents" '^TestClaudeCodeSubagents$'
cli "Claude Code: forced compaction" '^TestClaudeCodeCompacts$'
cli "Codex: corner cases" '^TestCodexContinuesTheVeryIDs$'
cli "Codex: 20 malformed and 5 cut calls" '^TestCodexRunsNoMalformedCall$'
cli "Codex: a sub-agent and a compaction" '^TestCodexSubagentAndCompaction$'
cli "Codex: a stream broken off" '^TestCodexAfterABrokenStream$'
cli "pi: multi-turn task" '^TestPiContinuesTheVeryIDs$'
cli "opencode: multi-turn task" '^TestOpencodeContinuesTheVeryIDs$'
cli "stability table" '^TestStabilityTable$'
cli "error table of Claude Code" '^Test(ClaudeCodeReactions|OlderClaudeCodeTakesAFragment)$'
cli "error table of Codex" '^TestCodexReactions$'
cli "sealed session ends the CLIs at once" '^TestSealedSessionEndsTheCLIAtOnce$'
cli "spent time ends the CLIs at once" '^TestSpentTimeEndsTheCLIAtOnce$'
cli "SIGKILL frees the slot within 1 s, directly and through a router" '^TestKilledClientFreesTheEngine$'
cli "pause and resume under 16 live Claude Codes" '^TestPauseUnderLiveClaudeCodes$'
if [ -n "${AGENTRL_SOAK:-}" ]; then
	cli "420 s of silence" '^TestSoakSilence$'
	cli "200 s of pause" '^TestSoakPause$'
fi

show_test "a cut without FIN frees the slot within 1 s, directly and through a router" $a '^TestCutWithoutFIN$'
show_test "Responses streams broken off at every event, and every failed write" $a '^Test(ResponsesStreamBrokenAnywhere|NoProtocolEndsCleanly)' -race
show_test "time budget, pauses not counted" $a '^TestTimeBudget' -race
show_test "template variables, DP ranks and budgets from the Config to the engine" . '^Test(TemplateKwargs|BadTemplateKwargs|DPRanks|SessionBudgets)' -race
show_test "paths and tokens" $a '^TestPathsAndTokens$'
show_test "100 MB body" $a '^TestBodyOf100MBIsRefused$'
show_test "slow headers and bodies" $a '^TestSlow'
show_test "bad tokens" $a '^TestBadTokensLeaveNothing$'
show_test "keep-alives, joins, pauses, aborts in a bubble" $a '^Test(KeepAlives|RetryJoins|SameRequest|PauseEmpties|AbortBy|SealEnds|FailingTurn)' -race
show_test "abort in the engine, directly and through a router" ./adapter/sglang '^TestCancelAbortsInTheEngine$' -race
show_test "answers that lie" ./adapter/sglang '^TestAnswersThatLieAreRefused$'
show_test "engine and router doubles" ./adapter/sglang/sglangtest '.' -race
show_test "Anthropic Messages" ./adapter/anthropic '^Test(Dialect|Golden|Token)$'
show_test "Chat Completions and Responses" ./adapter/openai '^Test(Chat|Responses|Golden|Token)'
show_cmd "fuzz: Anthropic requests" go test ./adapter/anthropic -run '^$' -fuzz FuzzDecode -fuzztime 200000x
show_cmd "fuzz: OpenAI requests" go test ./adapter/openai -run '^$' -fuzz FuzzDecode -fuzztime 200000x
show_cmd "fuzz: answers of the engine" go test ./adapter/sglang -run '^$' -fuzz FuzzDecodeResponse -fuzztime 200000x
show_bench "request bodies" ./adapter/sglang RequestBody
show_bench "1,000 sessions x 20 turns at 10k tokens" $a 'Turns/10000$' -benchtime 20000x -timeout 120m
show_bench "1,000 sessions x 20 turns at 100k tokens" $a 'Turns/100000$' -benchtime 20000x -timeout 120m
finish
