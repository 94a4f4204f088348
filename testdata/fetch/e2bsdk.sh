#!/bin/bash
# Brings E2B's own JavaScript SDK from npm into .cache/e2bsdk, where the tests
# of sandbox/e2b/e2btest find it: it drives the double as an oracle. Does
# nothing when it is there already. Needs node 20.18.1 or later, and npm.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=2.51.0
dir=.cache/e2bsdk
if [ -f "$dir/node_modules/e2b/package.json" ] && grep -q "\"version\": \"$version\"" "$dir/node_modules/e2b/package.json"; then
	echo "e2bsdk: $version is in $dir"
	exit 0
fi
command -v npm >/dev/null || { echo "e2bsdk: no npm on this machine: install node and npm" >&2; exit 1; }
mkdir -p "$dir"
npm install --prefix "$dir" --no-save --no-audit --no-fund --ignore-scripts --loglevel=error "e2b@$version"
echo "e2bsdk: $version is in $dir"
