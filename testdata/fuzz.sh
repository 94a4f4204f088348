# Runs every fuzz target of the module for FUZZTIME each.
set -eu
for pkg in $(${GO:-go} list ./...); do
	dir=$(${GO:-go} list -f '{{.Dir}}' "$pkg")
	for target in $(cat "$dir"/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p'); do
		echo "$pkg $target"
		${GO:-go} test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-20s}" "$pkg"
	done
done
