#!/usr/bin/env bash
# Brings real coding-agent CLIs from npm into .cache/clis, for tests that run
# them against the adapter: claude-VERSION, codex-VERSION and opencode-VERSION
# (one program each), and pi (a node package with what it needs). Linux on
# x86-64 only. Versions are pinned; CLAUDE="2.1.197 2.1.332", CODEX, OPENCODE
# and PI choose others.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
cache=$PWD/.cache/clis
mkdir -p "$cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# unpack PACKAGE@VERSION PATH TARGET: one file of a package becomes a program.
unpack() {
	if [ -x "$cache/$3" ]; then
		return
	fi
	rm -rf "${work:?}"/*
	(cd "$work" && npm pack --silent "$1" >/dev/null && tar -xzf ./*.tgz)
	install -m 755 "$(find "$work" -path "*$2" -type f | head -1)" "$cache/$3.new"
	mv "$cache/$3.new" "$cache/$3"
}

for version in ${CLAUDE:-2.1.197 2.1.332}; do
	unpack "@anthropic-ai/claude-code-linux-x64@$version" /package/claude "claude-$version"
done
codex=${CODEX:-0.171.0}
unpack "@openai/codex@$codex-linux-x64" /bin/codex "codex-$codex"
opencode=${OPENCODE:-1.18.33}
unpack "opencode-linux-x64@$opencode" /bin/opencode "opencode-$opencode"
if [ ! -d "$cache/pi/node_modules" ]; then
	mkdir -p "$cache/pi"
	npm install --silent --no-audit --no-fund --prefix "$cache/pi" "@earendil-works/pi-coding-agent${PI:+@$PI}" >/dev/null
fi
ls "$cache"
