// Answers questions about a tokenizer.json from the reference implementation,
// which testdata/fetch/reference.sh brings:
//
//	node reference.js tokenizer.json <questions >answers
//
// A question is a line of JSON, and so is its answer, in the same order:
//
//	{"op": "encode", "text": ""}     {"ids": []}
//	{"op": "encode", "file": "path"} {"ids": []}
//	{"op": "decode", "ids": []}      {"text": ""}
//	{"op": "normalize", "text": ""}  {"text": ""}
//	{"op": "bench", "text": "", "runs": 3} {"ids": [], "seconds": 0.1}, the best of the runs
"use strict";
const fs = require("fs");
const path = require("path");
const readline = require("readline");
const cache = path.join(__dirname, "../../.cache/reference/node_modules/tokenizers");
const { Tokenizer } = require(cache);

const tokenizer = Tokenizer.fromFile(process.argv[2]);
const plain = { addSpecialTokens: false };

async function encode(text) {
  return (await tokenizer.encode(text, null, plain)).getIds();
}

async function bench(text, runs) {
  let ids = [];
  let best = Infinity;
  for (let i = 0; i < runs; i++) {
    const start = process.hrtime.bigint();
    ids = await encode(text);
    best = Math.min(best, Number(process.hrtime.bigint() - start) / 1e9);
  }
  return { ids, seconds: best };
}

async function answer(q) {
  switch (q.op) {
    case "encode":
      return { ids: await encode(q.file ? fs.readFileSync(q.file, "utf8") : q.text) };
    case "decode":
      return { text: await tokenizer.decode(q.ids || [], false) };
    case "normalize":
      return { text: tokenizer.getNormalizer().normalizeString(q.text) };
    case "bench":
      return bench(q.text, q.runs);
  }
  return { error: "unknown op " + q.op };
}

async function main() {
  const window = 64; // questions that are worked on at once
  let pending = [];
  const flush = async () => {
    for (const a of await Promise.all(pending)) {
      if (!process.stdout.write(JSON.stringify(a) + "\n")) {
        await new Promise((done) => process.stdout.once("drain", done));
      }
    }
    pending = [];
  };
  for await (const line of readline.createInterface({ input: process.stdin })) {
    pending.push(answer(JSON.parse(line)).catch((e) => ({ error: String(e) })));
    if (pending.length === window) await flush();
  }
  await flush();
}

main();
