#!/usr/bin/env bash
# The real agents: installed offline, run to a certain end. Real CLIs come from
# testdata/fetch/harness.sh, images from docker.sh and roots.sh beside it.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export AGENTRL_CLIS=1

suite=./harness/harnesstest
for agent in claude_code codex; do
	for backend in local docker; do
		show_test "$agent solves three repositories in $backend" . "^TestAgentsSolveRepositories\$/^$backend\$/^$agent\$" -timeout 30m
	done
done
show_test "sub-agents are labelled" . '^TestSubagentsAreLabelled$' -timeout 10m
show_test "budget in mid-edit, deaf to TERM" . '^TestBudgetInMidEdit$' -timeout 10m
show_test "network to the adapter cut" . '^TestAgentIsCutOff$' -timeout 10m
show_test "wrong hash" . '^TestWrongHashIsRefused$'
show_test "launcher's SLIME_AGENT_CC_EXTRA_ARGS" ./harness/claudecode '^TestExtraArgsAreShellText$'
show_test "dialling back, past dead proxies, by each tool" ./harness '^TestDial$/^(curl|bash|python3|perl|nothing_that_dials)$'
show_test "assets by content, pinned" ./harness '^(TestProgramIsRecognisedByContent|TestAssetsThatAreRefused|TestChangedFileIsHashedAnew)$'
show_test "image without bash, without useradd" $suite '^TestImageWithoutBashAndUseradd$' -timeout 10m
show_test "image with musl" $suite '^TestImageWithMusl$' -timeout 10m
show_test "prepared image" $suite '^TestPreparedImage$' -timeout 10m
show_test "node and npm tarballs of before" $suite '^TestClaudeCodeOfScripts$' -timeout 10m
# Each line of these is a cell: outcome, exit code, last line; install, first
# request, whole run, peak RSS. Dead proxies are in every sandbox's environment;
# agents leave daemons that fork twice and ignore TERM.
for test in TestClaudeCode TestCodex TestPi TestOpencode TestMini TestShell; do
	for backend in local docker; do
		show_test "outcomes of $test in $backend" $suite "^$test\$/^$backend\$" -timeout 20m
	done
done
finish
