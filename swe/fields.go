package swe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Unevaluable is the error for a row that no grader could ever reward; why
// becomes part of the abort reason, "unevaluatable:<why>".
func Unevaluable(why string) error { return fmt.Errorf("%w:%s", ErrUnevaluable, why) }

// Fields reads an object of a row strictly: a value of the wrong shape is a
// *RowError that names it. As in the datasets' own readers null, "", [], {}, 0
// and false count as absent. The zero value has no keys.
type Fields struct {
	path   string
	values map[string]json.RawMessage
}

// Fields reads the row's metadata.
func (r Row) Fields() Fields { return Fields{"metadata", r.Metadata} }

// Has reports whether the key has a value that does not count as absent.
func (f Fields) Has(key string) bool { return !absent(f.values[key]) }

func absent(raw json.RawMessage) bool {
	switch string(bytes.TrimSpace(raw)) {
	case "", "null", `""`, "[]", "{}", "0", "0.0", "false":
		return true
	}
	return false
}

// Keys lists the object's keys in order.
func (f Fields) Keys() []string {
	keys := make([]string, 0, len(f.values))
	for k := range f.values {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// Raw is a key's value as it stands in the row; nil when absent.
func (f Fields) Raw(key string) json.RawMessage {
	if !f.Has(key) {
		return nil
	}
	return f.values[key]
}

// Error is a *RowError for a key of this object.
func (f Fields) Error(key, want string) error {
	got := "nothing"
	if raw, ok := f.values[key]; ok {
		got = shorten(string(raw), 80)
	}
	return &RowError{Key: f.path + "." + key, Got: got, Want: want}
}

func shorten(s string, max int) string {
	if len(s) <= max {
		return s
	}
	for max > 0 && !utf8.RuneStart(s[max]) {
		max--
	}
	return s[:max] + "…"
}

// Text is a string value; "" when absent.
func (f Fields) Text(key string) (string, error) {
	if !f.Has(key) {
		return "", nil
	}
	var s string
	if json.Unmarshal(f.values[key], &s) != nil {
		return "", f.Error(key, "a string")
	}
	return s, nil
}

// Object is an object value, without keys when absent.
func (f Fields) Object(key string) (Fields, error) {
	sub := Fields{path: f.path + "." + key}
	if !f.Has(key) {
		return sub, nil
	}
	if json.Unmarshal(f.values[key], &sub.values) != nil {
		return sub, f.Error(key, "an object (a string that holds JSON is not one: decode it when the row is loaded)")
	}
	return sub, nil
}

// Texts is an object of strings; nil when absent.
func (f Fields) Texts(key string) (map[string]string, error) {
	if !f.Has(key) {
		return nil, nil
	}
	var m map[string]string
	if json.Unmarshal(f.values[key], &m) != nil {
		return nil, f.Error(key, "an object whose values are strings")
	}
	return m, nil
}

// List is a list of strings, in any form that datasets store one: a JSON list,
// a string that holds a JSON list, or a string that holds a Python literal.
// nil when absent.
func (f Fields) List(key string) ([]string, error) {
	const want = `a list of strings, or a string that holds one as JSON or as a Python literal, like ["a", "b"] or ['a', 'b']`
	if !f.Has(key) {
		return nil, nil
	}
	var list []*string
	raw := f.values[key]
	if err := json.Unmarshal(raw, &list); err == nil {
		return f.noNulls(key, list)
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		return nil, f.Error(key, want)
	}
	if json.Unmarshal([]byte(text), &list) == nil {
		return f.noNulls(key, list)
	}
	out, err := PythonList(text)
	if err != nil {
		return nil, errors.Join(f.Error(key, want), err)
	}
	return out, nil
}

// optionals is a list of strings in which null and "" stand for nothing.
func (f Fields) optionals(key string) ([]string, error) {
	var list []*string
	if json.Unmarshal(f.values[key], &list) != nil {
		return nil, f.Error(key, "a string or a list of strings")
	}
	var out []string
	for _, s := range list {
		if s != nil && *s != "" {
			out = append(out, *s)
		}
	}
	return out, nil
}

func (f Fields) noNulls(key string, list []*string) ([]string, error) {
	out := make([]string, 0, len(list))
	for _, s := range list {
		if s == nil {
			return nil, f.Error(key, "a list of strings without null")
		}
		out = append(out, *s)
	}
	return out, nil
}

// CheckSpelling refuses a key that is a near miss of a known one which is
// itself absent: its value would be ignored without a word.
func (f Fields) CheckSpelling(known ...string) error {
	for _, key := range f.Keys() {
		if slices.Contains(known, key) || !f.Has(key) {
			continue
		}
		for _, k := range known {
			if !f.Has(k) && nearMiss(key, k) {
				return f.Error(key, fmt.Sprintf("the key %q: %q is not read", k, key))
			}
		}
	}
	return nil
}

// nearMiss: the same letters in another spelling, or one letter off in a name
// long enough for that to be no other word.
func nearMiss(a, b string) bool {
	a, b = foldKey(a), foldKey(b)
	if a == b {
		return true
	}
	return len(b) >= 6 && oneEdit(a, b)
}

func foldKey(s string) string {
	return strings.NewReplacer("_", "", "-", "", " ", "").Replace(strings.ToLower(s))
}

func oneEdit(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	if len(a) == len(b) {
		return i < len(a) && a[i+1:] == b[i+1:]
	}
	return a[i:] == b[i+1:]
}
