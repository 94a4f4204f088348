#!/usr/bin/env bash
# The orchestrator, end to end on this machine.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# A fresh clone with nothing but Go and git.
fresh_clone() {
	local dir
	dir=$(mktemp -d)
	git clone -q . "$dir/clone" && (cd "$dir/clone" && make --no-print-directory demo) | tail -1
	local code=${PIPESTATUS[0]}
	rm -rf "$dir"
	return "$code"
}
show_cmd "git clone + make demo" fresh_clone
show_test "trained tokens are the sampled ones" ./examples/quickstart '^TestDemoEndsWithRewardOne$'
show_test "a misread nonce is reward 0, no abort" ./examples/quickstart '^TestMisreadIsRewardZeroAndNoAbort$'
show_test "SIGKILL of the engine process" ./examples/quickstart '^TestKilledEngineIsAnAbortOfClassEngine$'
show_test "a sandbox peer that never answers" ./examples/quickstart '^TestSilentSandboxServerIsAWallClockTimeout$'
show_test "--sglang, another process, full-size tokenizer" ./examples/quickstart '^TestSeparateEngineWithAFullSizeTokenizer$'
show_test "Evaluate" ./examples/quickstart '^TestEvaluate$'
show_test "harness/shell with a five-line agent" ./examples/quickstart '^TestShellAgentOfFiveLines$'
show_test "wrong settings are explained" ./examples/quickstart '^TestWrongSettingsAreExplained$'
show_test "the sequence of hook calls" . '^TestOrderOfARollout$'
show_test "guard, retries, semaphore in virtual time" . '^(TestGuardNamesTheStuckStage|TestBootIsRetried|TestBootGivesUp|TestBootSlotsBoundTheBoots|TestWaitingIsNotChargedToTheGuard)$'
AGENTRL_TEST_CALLS=1000 show_test "1,000 concurrent calls leave nothing" . '^TestManyCallsLeaveNothing$' -race
show_test "trainer: five kill -9" ./examples/trainer '^TestResumeAfterKill$'
show_test "chat and tool markers are single ids" ./adapter/token '^TestSmallMarkersAreSingleIDs$'
show_test "clean evaluation sandbox, host untouched" . '^TestEvaluationSandboxIsClean$'
if [ "$(id -u)" = 0 ]; then
	show_cmd "demo and suite as an ordinary user" bash .ci/ordinary-user
fi
show_cmd "nine orchestrator bugs" make -s mutants
show_bench "overhead per call" . '^BenchmarkGenerate$' -benchtime 20x
show_bench "bytes per live rollout" . '^BenchmarkLiveRollouts$' -benchtime 1x
finish
