// Package token turns text into the ids of a model's tokenizer and back,
// exactly as the tokenizers library of Hugging Face (0.23) does with the same
// tokenizer.json: Tokenizer.from_file(path).encode(text, add_special_tokens=
// False) and decode(ids, skip_special_tokens=False), which is what AutoTokenizer
// of transformers 4, and the TokenizersBackend of transformers 5, do. Where
// transformers 5 replaces parts of the file by those of a tokenizer_class
// (LlamaTokenizer on DeepSeek and others), the file counts here.
//
// It is fast enough to encode at every turn, and an [Encoder] encodes a growing
// history at the cost of what is new.
//
// # What is exact
//
//   - Models: BPE over bytes (a ByteLevel pre-tokenizer comes last) and BPE with
//     byte_fallback, with merges in both forms and ignore_merges.
//   - Pre-tokenizers: ByteLevel, Split and Digits, alone or in a Sequence. The
//     patterns of GPT-2, Qwen 2, 3 and 3.5, Llama 3 and GLM, o200k, tekken, Kimi
//     and DeepSeek have scanners of their own; others are matched by a
//     backtracking engine, if it knows each of their parts.
//   - Normalizers: NFC, Replace of a string, Prepend, Sequence.
//   - Added tokens with all their flags: special, normalized, lstrip, rstrip,
//     single_word.
//   - Decoders: ByteLevel, Replace of a string, ByteFallback, Fuse, Strip,
//     Sequence, none.
//
// Character classes and normalisation are those of the reference's libraries,
// which are of other versions of Unicode than Go's.
//
// # What is refused
//
// New and Load refuse, with the reason, what they could not do exactly:
//
//   - a model other than BPE; a model that is neither byte-level nor has
//     byte_fallback; dropout; continuing_subword_prefix, end_of_word_suffix;
//   - a vocabulary that has an id or a token twice, an id of 4,194,304 or more,
//     or no token for a byte that UTF-8 can need;
//   - merges of tokens that are not in the vocabulary, or in mixed forms;
//   - normalizers, pre-tokenizers and decoders of other types (Metaspace,
//     Punctuation, WhitespaceSplit, Bert…, Lowercase, NFD, NFKC, Precompiled,
//     WordPiece, CTC, …), Replace by a regular expression, anything after
//     ByteLevel;
//   - patterns with anchors, captures, look-behinds, positive look-aheads, lazy
//     quantifiers, repeated groups, back-references, POSIX classes or properties
//     that are not known, and patterns that match the empty string;
//   - added tokens that are empty or there twice, whose ids are not those that
//     the reference would give them (it numbers them in order, whatever the file
//     says), or that are the same when normalized;
//   - truncation and padding, and a version other than "1.0";
//   - a tokenizer_config.json whose added_tokens_decoder or special tokens are
//     not among the added tokens of tokenizer.json (Python would add them);
//   - a directory without a tokenizer.json (a tiktoken.model or tokenizer.model
//     alone), and a hub id.
//
// The post-processor is not read: it only adds special tokens around a text,
// which chat templates write themselves. Text that is not UTF-8 cannot be
// encoded exactly, because Python has no such text; see [Check].
package token
