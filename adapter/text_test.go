package adapter

import (
	"strings"
	"testing"
)

func TestCheckText(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"plain":               {`{"a":"b \\u12 é \u00e9"}`, ""},
		"pair":                {`"\ud83d\ude00 \uD83D\uDE00"`, ""},
		"escaped backslash":   {`"\\ud83d"`, ""},
		"high alone":          {`"x\ud83d"`, `\ud83d, at byte 2`},
		"high before text":    {`"\ud83dabc"`, "at byte 1"},
		"low alone":           {`"\ude00"`, "at byte 1"},
		"two highs":           {`"\ud83d\ud83d\ude00"`, "at byte 1"},
		"after three slashes": {`"\\\ud83d"`, "at byte 3"},
		"cut escape":          {`"\ud83`, ""},
		"latin-1":             {"\"caf\xe9\"", "not UTF-8 at byte 4"},
		"U+FFFD itself":       {"\"\uFFFD\"", ""},
		"surrogate as bytes":  {"\"\xed\xa0\x80\"", "not UTF-8 at byte 1"},
		"ends in a backslash": {`"\`, ""},
	} {
		err := checkText([]byte(c.body))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: checkText(%q) = %v, want %q", name, c.body, err, c.want)
		}
	}
}
