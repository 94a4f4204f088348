package token

import (
	"slices"
	"testing"
)

// FuzzNew feeds broken files: they are refused or give a tokenizer that works.
func FuzzNew(f *testing.F) {
	f.Add(smallJSON(f, func(file map[string]any) {
		model := file["model"].(map[string]any)
		model["merges"] = model["merges"].([]any)[:20]
	}))
	f.Add([]byte(`{"version":"1.0","model":{"type":"BPE","vocab":{"a":0,"\u00e9":1,"\ud83d\ude00":2},"merges":["a a",["a","a"]]}}`))
	f.Add([]byte(`{"added_tokens":[{"id":0,"content":""}],"normalizer":{"type":"Sequence","normalizers":[]},"model":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		tok, err := New(data)
		if err != nil {
			return
		}
		text := "a <|im_start|> e\u0301\n"
		ids := tok.Encode(text)
		tok.Decode(ids)
		for _, id := range ids {
			if _, ok := tok.Token(id); !ok {
				t.Errorf("Encode gives id %d, which no token has", id)
			}
		}
	})
}

// FuzzEncode checks what holds for every text: decoding gives back its NFC
// form, a cold word cache the same ids, and an Encoder that saw a part of it.
func FuzzEncode(f *testing.F) {
	f.Add(history(), 100)
	f.Add("it's  \r\n\t \u00e9e\u0301'S 1234\xff<|im_end", 9)
	tok := loadSmall(f)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		ids := tok.Encode(text)
		if got, want := tok.Decode(ids), normalizedAround(tok, valid(text)); got != want {
			t.Errorf("Decode(Encode(%q)) = %q, want %q", text, got, want)
		}
		if Check(text) != nil {
			return
		}
		e := tok.NewEncoder()
		e.Verify = true
		if cut >= 0 && cut < len(text) {
			_, _ = e.Encode(text[:cut]) // an error where it cuts a character
		}
		if got, err := e.Encode(text); err != nil || !slices.Equal(got, ids) {
			t.Errorf("Encoder.Encode(%q) after %d bytes: %v, %v, want %v", text, cut, got, err, ids)
		}
	})
}

// normalizedAround normalizes what is between the added tokens of text.
func normalizedAround(tok *Tokenizer, text string) string {
	out, done := "", 0
	for {
		m, ok := tok.verbatim.next(text, done)
		if !ok {
			return out + tok.normalize(text[done:])
		}
		out += tok.normalize(text[done:m.start]) + text[m.start:m.end]
		done = m.end
	}
}
