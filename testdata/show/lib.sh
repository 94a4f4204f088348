# Sourced by the scripts beside it. Each check prints one line, PASS or FAIL
# with its figures; a skipped or empty test is a FAIL. The script's exit status
# is 1 when a line failed: end it with `finish`.
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

pass() { printf 'PASS %s: %s\n' "$1" "$2"; }
fail() { printf 'FAIL %s: %s\n' "$1" "$2"; failed=1; }

# show_test LABEL PACKAGE REGEX [go test flags...]: a test's own "figure: ..." log lines are its figures.
show_test() {
	local label=$1 pkg=$2 re=$3 figures
	shift 3
	if ! go test -count=1 -v -run "$re" "$@" "$pkg" >"$log" 2>&1; then
		fail "$label" "$(grep -E -- '--- FAIL|panic:|\.go:[0-9]+:|FAIL|cannot|no required' "$log" | head -3 | tr -s '\n\t ' ' ')"
	elif grep -q -- '--- SKIP' "$log"; then
		fail "$label" "skipped: $(grep -A1 -- '--- SKIP' "$log" | head -4 | tr -s '\n\t ' ' ')"
	elif ! grep -q -- '--- PASS' "$log"; then
		fail "$label" "no test ran"
	else
		figures=$(grep -o 'figure: .*' "$log" | sed 's/^figure: //' | paste -sd';' | sed 's/;/; /g')
		pass "$label" "${figures:-$(grep -c -- '--- PASS' "$log") tests}"
	fi
}

# show_cmd LABEL COMMAND...: passes when it exits 0; its last output line is the figure.
show_cmd() {
	local label=$1
	shift
	if "$@" >"$log" 2>&1; then pass "$label" "$(tail -1 "$log")"; else fail "$label" "$(tail -3 "$log" | tr -s '\n\t ' ' ')"; fi
}

# show_bench LABEL PACKAGE REGEX [go test flags...]: prints each benchmark's line as a figure.
show_bench() {
	local label=$1 pkg=$2 re=$3
	shift 3
	if go test -run '^$' -bench "$re" "$@" "$pkg" >"$log" 2>&1 && grep -q '^Benchmark' "$log"; then
		pass "$label" "$(grep '^Benchmark' "$log" | tr -s ' \t' ' ' | paste -sd';' | sed 's/;/; /g')"
	else
		fail "$label" "$(tail -3 "$log" | tr -s '\n\t ' ' ')"
	fi
}

finish() { exit $failed; }
