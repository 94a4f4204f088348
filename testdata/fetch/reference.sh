#!/usr/bin/env bash
# Brings the reference implementation, the npm package tokenizers (Hugging
# Face's own Rust core), into .cache/reference.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
mkdir -p .cache/reference
cd .cache/reference
if [ ! -d node_modules/tokenizers ]; then
	npm install --silent --no-audit --no-fund --prefix . tokenizers@0.23.2 >/dev/null
fi
node -p '"tokenizers " + require("./node_modules/tokenizers/package.json").version'
