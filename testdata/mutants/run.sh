# Applies each patch beside this file to a copy of the module and prints the
# bug with the first test that fails on it. Exits 1 when a bug is not found.
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
missed=0
for patch in "$here"/*.patch; do
	name=$(basename "$patch" .patch)
	rm -rf "$work/copy" && mkdir "$work/copy"
	(cd "$root" && git ls-files -z --cached --others --exclude-standard | xargs -0 tar -cf - 2>/dev/null) | tar -xf - -C "$work/copy"
	if ! (cd "$work/copy" && git apply "$patch") 2>"$work/log"; then
		echo "$name → the patch does not apply: $(head -1 "$work/log")"
		missed=1
		continue
	fi
	if (cd "$work/copy" && go test -count=1 -timeout 120s -skip "Dependencies|Production|README|Exported|ManyCalls|EvaluationSandbox" . >"$work/log" 2>&1); then
		echo "$name → not found"
		missed=1
	else
		found=$(sed -n 's/^ *--- FAIL: \(Test[A-Za-z0-9_]*\).*/\1/p; s/.*\(panic: deadlock.*\)/\1/p' "$work/log" | head -1)
		[ -n "$found" ] || found=$(sed -n 's/.*agentrl_test\.\(Test[A-Za-z0-9_]*\).*/\1/p' "$work/log" | head -1)
		if [ -z "$found" ]; then
			echo "$name → does not build: $(head -2 "$work/log" | tr '\n' ' ')"
			missed=1
		else
			echo "$name → $found"
		fi
	fi
done
exit $missed
