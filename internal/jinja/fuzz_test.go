package jinja

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzCompile compiles anything, and renders what compiles.
func FuzzCompile(f *testing.F) {
	for _, source := range languageTemplates(f) {
		f.Add(source)
	}
	vars, err := ParseJSON([]byte(languageVars))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Compile(source)
		if err != nil {
			if _, ok := err.(*Error); !ok {
				t.Errorf("Compile(%q) fails with a %T", source, err)
			}
			return
		}
		if len(source) > 200 || strings.Contains(source, "range") || strings.Contains(source, "*") {
			return // may be long in rendering
		}
		if _, err := tmpl.Render(vars); err != nil {
			if _, ok := err.(*Error); !ok {
				t.Errorf("Render of %q fails with a %T", source, err)
			}
		}
	})
}

// FuzzParseJSON agrees with encoding/json on what is JSON, and writes what it
// read so that it reads the same again.
func FuzzParseJSON(f *testing.F) {
	for _, text := range []string{
		languageVars, `[1,-0,1e3,1E-7,0.1,123456789012345678901234567890]`, `"\u00e9\ud83d\ude00\n\/\\"`, `{"a":{"a":[]},"b":{},"a":1}`,
		`[01]`, `"\ud800"`, `{"a":1,}`, `nul`, `[[[[[[`, "\"\x01\"", `1.`, `-`, ``, ` null `,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := ParseJSON(data)
		if err != nil {
			if json.Valid(data) && !strings.Contains(err.Error(), "surrogate") && !strings.Contains(err.Error(), "UTF-8") &&
				!strings.Contains(err.Error(), "supported") && !strings.Contains(err.Error(), "nested deeper") {
				t.Errorf("ParseJSON(%q): %v, encoding/json takes it", data, err)
			}
			return
		}
		if !json.Valid(data) {
			t.Errorf("ParseJSON(%q) takes what encoding/json refuses", data)
		}
		text := str(toJSON(&state{}, []Value{v, nil, nil, nil, nil}))
		again, err := ParseJSON([]byte(text))
		if err != nil {
			if strings.Contains(text, "Infinity") {
				return // 1e400, which JSON itself can't say
			}
			t.Fatalf("ParseJSON(%q), written by tojson: %v", text, err)
		}
		if !equal(v, again) {
			t.Errorf("%q became %q", data, text)
		}
	})
}
