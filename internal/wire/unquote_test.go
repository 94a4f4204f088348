package wire

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzUnquote compares with encoding/json.
func FuzzUnquote(f *testing.F) {
	for _, s := range []string{`""`, `"plain"`, `"a\nb\t\"\\\/\b\f\r"`, `"\u00e9\u2028"`, `"\ud83d\ude00"`, `"\ud83d"`, `"\ude00\ud83dx"`, `"\ud83d\u0041"`, `"` + "\xff" + `"`, `null`, `["a"]`, `12`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) || strings.TrimSpace(string(raw)) != string(raw) {
			return
		}
		var want string
		isString := raw[0] == '"' && json.Unmarshal(raw, &want) == nil
		got, ok := Unquote(raw)
		if ok != isString {
			t.Fatalf("Unquote(%q) ok = %v, want %v", raw, ok, isString)
		}
		if got != want {
			t.Fatalf("Unquote(%q) = %q, want %q", raw, got, want)
		}
	})
}

func BenchmarkUnquote(b *testing.B) {
	text := strings.Repeat("the quick brown fox jumps over the lazy dog\\n", 10_000)
	raw := []byte(`"` + text + `"`)
	b.Run("ours", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			Unquote(raw)
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			var s string
			if json.Unmarshal(raw, &s) != nil {
				b.Fatal("not a string")
			}
		}
	})
}
