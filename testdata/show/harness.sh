#!/usr/bin/env bash
# The real agents: installed offline, run to a certain end. Real CLIs come from
# testdata/fetch/harness.sh, images from docker.sh and roots.sh beside it. ONLY,
# a regular expression, chooses lines by their label.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
export AGENTRL_CLIS=1
table=$(mktemp)
trap 'rm -f "$log" "$table"' EXIT

suite=./harness/harnesstest
# line LABEL...: a line that ONLY chooses; one that names docker wants Docker.
line() {
	[[ $1 =~ ${ONLY:-} ]] || return 0
	case "$1 $3" in
	*docker* | *Prepared*) with_docker show_test "$@" ;;
	*) show_test "$@" ;;
	esac
}

for agent in claude_code codex; do
	for backend in local docker; do
		line "$agent solves three repositories in $backend" . "^TestAgentsSolveRepositories\$/^$backend\$/^$agent\$" -timeout 30m
	done
done
line "sub-agents are labelled" . '^TestSubagentsAreLabelled$' -timeout 10m
line "budget in mid-edit, deaf to TERM" . '^TestBudgetInMidEdit$' -timeout 10m
line "network to the adapter cut" . '^TestAgentIsCutOff$' -timeout 10m
line "network to the adapter cut in the midst" ./harness '^TestLostInMidRun$' -timeout 10m
line "a hiccup, a busy adapter" ./harness '^(TestHiccup|TestBusyAdapter|TestUnreachedAtEitherEnd|TestBrokenToolIsPassedOver)$' -timeout 10m
line "wrong hash" . '^TestWrongHashIsRefused$'
line "launcher's SLIME_AGENT_CC_EXTRA_ARGS, shell text" ./harness/claudecode '^TestExtraArgsAreShellText$'
line "launcher's SLIME_AGENT_CC_EXTRA_ARGS, by Claude Code" . '^TestLauncherArguments$' -timeout 10m
for backend in local docker; do
	line "nothing but the adapter is reached in $backend" . "^TestEgressAdapterOnly\$/^$backend\$" -timeout 45m
done
line "dialling back, past dead proxies, by each tool" ./harness '^TestDial$/^(curl|bash|python3|perl|nothing_that_dials)$'
line "assets by content, pinned" ./harness '^(TestProgramIsRecognisedByContent|TestAssetsThatAreRefused|TestChangedFileIsHashedAnew)$'
line "image without bash, without useradd" $suite '^TestImageWithoutBashAndUseradd$' -timeout 10m
line "image with musl" $suite '^TestImageWithMusl$' -timeout 10m
line "image with old glibc" $suite '^TestImageWithOldGlibc$' -timeout 10m
line "prepared image" $suite '^TestPreparedImage$' -timeout 10m
line "prepared image in docker, E2B template, by the command" ./examples/prepare '.' -timeout 10m
line "node and npm tarballs of before" $suite '^TestClaudeCodeOfScripts$' -timeout 10m

# Each line of these is a cell: outcome, exit code, last line; install, first
# request, whole run, peak RSS. Dead proxies are in every sandbox's environment;
# agents leave daemons that fork twice and ignore TERM.
for test in TestClaudeCode TestClaudeCodePrior TestCodex TestPi TestOpencode TestMini TestShell; do
	for backend in local docker; do
		[[ "outcomes of $test in $backend" =~ ${ONLY:-} ]] || continue
		: >"$log"
		line "outcomes of $test in $backend" $suite "^$test\$/^$backend\$" -timeout 45m
		sed -n "s/^.*figure: /${test#Test} $backend|/p" "$log" >>"$table"
	done
done

# tables prints what those figures say, a harness a row.
tables() {
	awk -F'|' '
	{
		if (!($1 in seen)) { rows[++n] = $1; seen[$1] = 1 }
		name = $2; sub(/:.*/, "", name)
		if ($2 ~ /^install /) { split($2, w, " "); install[$1] = w[3] " s, " w[6] " MB; warm " w[9] " s, " w[12] " MB" }
		else if ($2 ~ /^the run is over /) { split($2, w, " "); gone[$1] = w[5] " s" }
		else if ($2 ~ /^peak RSS/) { split($2, w, " "); rss[$1] = w[3] " MB" }
		else if ($2 ~ /: otherwise: /) { why = $2; sub(/.*: otherwise: /, "", why); note[$1] = note[$1] "; " name ": " why }
		else if ($2 ~ /: empty: /) { cell[$1, name] = "empty"; why = $2; sub(/.*: empty: /, "", why); note[$1] = note[$1] "; " name ": " why }
		else if ($2 ~ /, exit [0-9]+/) {
			split($2, w, /: |, exit |, |;/); cell[$1, name] = w[2] " (" w[3] (w[4] == "exited" ? "" : ", " w[4]) ")"
			if (name == "solved") { run[$1] = $2; sub(/.*first request /, "", run[$1]); sub(/; last line.*/, "", run[$1]) }
		}
	}
	END {
		many = split("solved,gave up,max turns,context exhausted,refused,crashed,unreachable,cut off,budget,nested agent", cells, ",")
		printf "| outcome (exit code)"; for (i = 1; i <= many; i++) printf " | %s", cells[i]; print " |"
		for (r = 1; r <= n; r++) {
			printf "| %s", rows[r]
			for (i = 1; i <= many; i++) printf " | %s", ((rows[r], cells[i]) in cell) ? cell[rows[r], cells[i]] : "-"
			print " |"
		}
		for (r = 1; r <= n; r++) if (rows[r] in note) print "  " rows[r] substr(note[rows[r]], 2)
		print "| cost | install, cold and warm | first request, whole run | peak RSS | adapter gone to end |"
		for (r = 1; r <= n; r++) printf "| %s | %s | %s | %s | %s |\n", rows[r], install[rows[r]], run[rows[r]], rss[rows[r]], gone[rows[r]]
	}' "$table"
}
[ ! -s "$table" ] || tables
finish
