package token

// The regular expressions that tokenizers split text by, as they are spelled
// in tokenizer.json files and in the sources of the models' own tokenizers.
const (
	patternQwen2          = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternQwen35         = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternLlama3         = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternGPT2           = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	patternO200K          = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternTekken         = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternKimi           = `[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	patternDeepSeekDigits = `\p{N}{1,3}`
	patternDeepSeekCJK    = "[一-龥぀-ゟ゠-ヿ]+"
	patternDeepSeek       = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
)

// patterns returns the known patterns with what does their work.
func patterns(chars *charTables) map[string]matcher {
	const plain = classSpace | classL | classN
	qwen2 := scanner{charTables: chars, contraction: contractionFolded, word: classL, digits: 1, punct: plain}
	llama3 := qwen2
	llama3.digits = 3
	qwen35 := qwen2
	qwen35.word, qwen35.punct = classL|classM, plain|classM
	gpt2 := scanner{charTables: chars, contraction: contractionPlain, words: wordSpace, word: classL, punct: plain, tail: tailNone}
	o200k := scanner{charTables: chars, contraction: contractionSuffix, words: wordCased, digits: 3, punct: plain, tail: tailSlash}
	tekken := o200k
	tekken.contraction, tekken.digits = contractionNone, 1
	kimi := o200k
	kimi.han, kimi.tail = true, tailLines
	return map[string]matcher{
		patternGPT2:           &gpt2,
		patternQwen2:          &qwen2,
		patternQwen35:         &qwen35,
		patternLlama3:         &llama3,
		patternO200K:          &o200k,
		patternTekken:         &tekken,
		patternKimi:           &kimi,
		patternDeepSeekDigits: runScanner{chars, isNumber, 3},
		patternDeepSeekCJK:    runScanner{chars, isDeepSeekCJK, 0},
		patternDeepSeek:       deepseekScanner{chars},
	}
}

func isNumber(_ rune, k class) bool { return k&classN != 0 }

func isDeepSeekCJK(r rune, _ class) bool {
	return r >= 0x4E00 && r <= 0x9FA5 || r >= 0x3040 && r <= 0x30FF
}
