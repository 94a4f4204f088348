#!/usr/bin/env bash
# Brings what the harnesses install from, as npm packs it, into .cache/harness,
# and prints the SHA-256 of each file with the variable that pins it. Versions
# are pinned; CLAUDE, CODEX, OPENCODE, PI and NODE choose others, ARCH (x64,
# arm64) another machine. Nothing is fetched twice. Needs npm, tar and node.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
arch=${ARCH:-x64}
cache=$PWD/.cache/harness
mkdir -p "$cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# pack FILE PACKAGE@VERSION
pack() {
	[ ! -f "$cache/$1" ] || return 0
	rm -rf "${work:?}"/*
	npm pack --silent --pack-destination "$work" "$2" >/dev/null
	mv "$work"/*.tgz "$cache/$1"
}

# bundle FILE PACKAGE@VERSION: the package with all that it depends on.
bundle() {
	[ ! -f "$cache/$1" ] || return 0
	rm -rf "${work:?}"/*
	npm install --silent --no-audit --no-fund --ignore-scripts --omit=optional --prefix "$work" "$2" >/dev/null
	tar -C "$work" --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -czf "$cache/$1.new" node_modules
	mv "$cache/$1.new" "$cache/$1"
}

claude=${CLAUDE:-2.1.332}
prior=2.1.197 # which asks for other models than ours, and takes a cut stream for a whole one
older=2.0.30 # the last kind that npm's package itself holds, for node
codex=${CODEX:-0.171.0}
opencode=${OPENCODE:-1.18.33}
pi=${PI:-0.74.2}
node=${NODE:-22.23.5}
pack "claude-$claude-linux-$arch.tgz" "@anthropic-ai/claude-code-linux-$arch@$claude"
pack "claude-$claude-linux-$arch-musl.tgz" "@anthropic-ai/claude-code-linux-$arch-musl@$claude"
pack "claude-$prior-linux-$arch.tgz" "@anthropic-ai/claude-code-linux-$arch@$prior"
pack "claude-$claude-wrapper.tgz" "@anthropic-ai/claude-code@$claude"
pack "claude-$older.tgz" "@anthropic-ai/claude-code@$older"
pack "codex-$codex-linux-$arch.tgz" "@openai/codex@$codex-linux-$arch"
pack "opencode-$opencode-linux-$arch.tgz" "opencode-linux-$arch@$opencode"
pack "node-$node-linux-$arch.tgz" "node-linux-$arch@$node"
bundle "pi-$pi.tgz" "@earendil-works/pi-coding-agent@$pi"

# show FILE VARIABLE PIN
show() { printf '%s=%s\n%s=%s\n' "$2" "$cache/$1" "$3" "$(sha256sum "$cache/$1" | cut -d' ' -f1)"; }
show "claude-$claude-linux-$arch.tgz" SLIME_AGENT_CC_TARBALL AGENTRL_CC_SHA256
show "claude-$claude-linux-$arch-musl.tgz" AGENTRL_CC_MUSL_TARBALL AGENTRL_CC_MUSL_SHA256
show "codex-$codex-linux-$arch.tgz" SLIME_AGENT_CODEX_TARBALL AGENTRL_CODEX_SHA256
show "opencode-$opencode-linux-$arch.tgz" AGENTRL_OPENCODE_TARBALL AGENTRL_OPENCODE_SHA256
show "pi-$pi.tgz" AGENTRL_PI_TARBALL AGENTRL_PI_SHA256
show "node-$node-linux-$arch.tgz" SLIME_AGENT_NODE_TARBALL AGENTRL_NODE_SHA256
