# Sourced by the scripts beside it. Each check prints one line, PASS or FAIL
# with its figures; a skipped or empty test is a FAIL. The script's exit status
# is 1 when a line failed: end it with `finish`.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

pass() { printf 'PASS %s: %s\n' "$1" "$2"; }
fail() { printf 'FAIL %s: %s\n' "$1" "$2"; failed=1; }

# check TRY LABEL ARG...: prints the line of a try, which leaves its figures or,
# failing, its reason in $said. With AGENTRL_SHOW_AGAIN a failed try is made once more.
check() {
	local try=$1 label=$2
	shift 2
	if ! "$try" "$@"; then
		if [ -n "${AGENTRL_SHOW_AGAIN:-}" ]; then
			printf 'AGAIN %s: %s\n' "$label" "$said"
			if "$try" "$@"; then
				pass "$label" "$said"
				return
			fi
		fi
		fail "$label" "$said"
		return
	fi
	pass "$label" "$said"
}

# show_test LABEL PACKAGE REGEX [go test flags...]: a test's own "figure: ..." log lines are its figures.
show_test() { check try_test "$@"; }

# with_docker LINE...: a line that wants Docker. AGENTRL_NO_DOCKER is why there is
# none, where a machine's own check has set it.
with_docker() {
	if [ -n "${AGENTRL_NO_DOCKER:-}" ]; then
		printf 'SKIP %s: %s\n' "$2" "$AGENTRL_NO_DOCKER"
	else
		"$@"
	fi
}

try_test() {
	local pkg=$1 re=$2
	shift 2
	if ! go test -count=1 -v -run "$re" "$@" "$pkg" >"$log" 2>&1; then
		said=$(grep -E -- '--- FAIL|panic:|\.go:[0-9]+:|FAIL|cannot|no required' "$log" | head -3 | tr -s '\n\t ' ' ' | cut -c1-1000)
		return 1
	elif grep -q -- '--- SKIP' "$log"; then
		said="skipped: $(grep -A1 -- '--- SKIP' "$log" | head -4 | tr -s '\n\t ' ' ')"
		return 1
	elif ! grep -q -- '--- PASS' "$log"; then
		said="no test ran"
		return 1
	fi
	sed -n 's/^ *--- PASS: \([^ ]*\).*/\1/p' "$log" >>"${AGENTRL_SHOW_PASSED:-/dev/null}"
	said=$(grep -o 'figure: .*' "$log" | sed 's/^figure: //' | paste -sd';' | sed 's/;/; /g')
	said=${said:-$(grep -c -- '--- PASS' "$log") tests}
}

# show_cmd LABEL COMMAND...: passes when it exits 0; its last output line is the figure.
show_cmd() { check try_cmd "$@"; }

try_cmd() {
	if "$@" >"$log" 2>&1; then said=$(tail -1 "$log"); else said=$(tail -3 "$log" | tr -s '\n\t ' ' '); return 1; fi
}

# show_bench LABEL PACKAGE REGEX [go test flags...]: prints each benchmark's line as a figure.
show_bench() { check try_bench "$@"; }

try_bench() {
	local pkg=$1 re=$2
	shift 2
	if go test -run '^$' -bench "$re" "$@" "$pkg" >"$log" 2>&1 && grep -q '^Benchmark' "$log"; then
		said=$(grep '^Benchmark' "$log" | tr -s ' \t' ' ' | paste -sd';' | sed 's/;/; /g')
	else
		said=$(tail -3 "$log" | tr -s '\n\t ' ' ')
		return 1
	fi
}

finish() { exit $failed; }
