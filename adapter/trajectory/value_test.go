package trajectory

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// valueCases are pairs of JSON texts; python says what Python answers to ==,
// strict what JSON's own types say, js what JavaScript makes of both.
var valueCases = []struct {
	a, b               string
	python, strict, js bool
}{
	{`1`, `1.0`, true, true, true},
	{`1`, `true`, true, false, false},
	{`0.0`, `false`, true, false, false},
	{`-0`, `0`, true, true, true},
	{`-0.0`, `0`, true, true, true},
	{`{"a":[1,{"b":true}]}`, `{"a":[1.0,{"b":1}]}`, true, false, false},
	{`9007199254740993`, `9007199254740992`, false, false, true},
	{`9007199254740993`, `9007199254740993.0`, false, false, true},
	{`9007199254740992`, `9007199254740992.0`, true, true, true},
	{`100000000000000000000000`, `1e23`, false, false, true},
	{`99999999999999991611392`, `1e23`, true, true, true},
	{`1e400`, `2e400`, true, true, true},
	{`1e400`, `-1e400`, false, false, false},
	{`0.1`, `0.10000000000000001`, true, true, true},
	{`1e-400`, `0`, true, true, true},
	{`null`, `false`, false, false, false},
	{`null`, `0`, false, false, false},
	{`"1"`, `1`, false, false, false},
	{`{"a":1,"b":2}`, `{"b":2,"a":1}`, true, true, true},
	{`{"a":1,"a":2}`, `{"a":2}`, true, true, true},
	{`{"a":1}`, `{"a":1,"b":null}`, false, false, false},
	{`[1,2]`, `[2,1]`, false, false, false},
	{`[]`, `{}`, false, false, false},
	{`[[]]`, `[[],[]]`, false, false, false},
	{`[1,2]`, `[12]`, false, false, false},
	{`["a","b"]`, `["a\",\"b"]`, false, false, false},
	{` { "a" : [ 1 , 2 ] } `, `{"a":[1,2]}`, true, true, true},
	{`"\u00e9\n\/"`, `"é\n/"`, true, true, true},
	{`"\ud83d\ude00"`, `"😀"`, true, true, true},
	{`"\ud800"`, `"\ud801"`, false, false, false},
	{`"\ud800"`, `"\ufffd"`, false, false, false},
	{`"\ud800\u0041"`, `"\uD800A"`, true, true, true},
	{`{"\u0061":1}`, `{"a":1}`, true, true, true},
	{`{"a":1`, `{"a":1`, true, true, true},
	{`{"a":1`, `{"a":1 `, false, false, false},
	{``, `null`, false, false, false},
	{``, ``, true, true, true},
}

func TestEqualValues(t *testing.T) {
	for _, c := range valueCases {
		for lang, want := range map[language]bool{python: c.python, strict: c.strict, javascript: c.js} {
			if got := equalValues([]byte(c.a), []byte(c.b), lang); got != want {
				t.Errorf("equalValues(%s, %s, %d) = %v, want %v", c.a, c.b, lang, got, want)
			}
			if got := equalValues([]byte(c.b), []byte(c.a), lang); got != want {
				t.Errorf("equalValues(%s, %s, %d) = %v, want %v", c.b, c.a, lang, got, want)
			}
		}
	}
}

func TestPythonEqual(t *testing.T) {
	call := func(args string) chat.Message {
		return chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: "f", Arguments: []byte(args)}}}
	}
	for _, c := range []struct {
		name string
		a, b chat.Message
		want bool
	}{
		{"arguments by value", call(`{"x":true}`), call(`{ "x" : 1.0 }`), true},
		{"role", chat.Message{Role: chat.User}, chat.Message{Role: chat.System}, false},
		{"blanks", chat.Message{Role: chat.User, Content: "a"}, chat.Message{Role: chat.User, Content: "a "}, false},
		{"reasoning", chat.Message{Role: chat.Assistant, Reasoning: "a"}, chat.Message{Role: chat.Assistant}, false},
		{"named turn", chat.Message{Role: chat.Assistant, Turn: "a"}, chat.Message{Role: chat.Assistant, Turn: "b"}, true},
		{"a call less", call(`{}`), chat.Message{Role: chat.Assistant}, false},
	} {
		if got := pythonEqual(&c.a, &c.b); got != c.want {
			t.Errorf("%s: pythonEqual(%+v, %+v) = %v", c.name, c.a, c.b, got)
		}
	}
}

// FuzzNormalForm compares with encoding/json where it tells values apart as
// JavaScript does, and reads any valid text to its end.
func FuzzNormalForm(f *testing.F) {
	for _, c := range valueCases {
		f.Add([]byte(c.a), []byte(c.b))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		if !json.Valid(a) || !json.Valid(b) {
			return
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, a); err != nil {
			t.Fatal(err)
		}
		for _, lang := range []language{strict, python, javascript} {
			if !equalValues(a, compact.Bytes(), lang) {
				t.Errorf("%q is not equal to %q", a, compact.Bytes())
			}
		}
		var va, vb any
		if json.Unmarshal(a, &va) != nil || json.Unmarshal(b, &vb) != nil || bytes.Contains(a, []byte(`\u`)) || bytes.Contains(b, []byte(`\u`)) {
			return // numbers out of range, surrogates: encoding/json has no value for them
		}
		if !bytes.Equal(a, bytes.ToValidUTF8(a, nil)) || !bytes.Equal(b, bytes.ToValidUTF8(b, nil)) {
			return
		}
		if got, want := equalValues(a, b, javascript), reflect.DeepEqual(va, vb); got != want {
			t.Errorf("equalValues(%s, %s) = %v, want %v", a, b, got, want)
		}
	})
}
