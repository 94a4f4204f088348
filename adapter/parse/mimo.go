package parse

import (
	"html"
	"math"
	"slices"
	"strconv"
	"strings"
)

// mimoFormat is qwen3_coder's markup with the values right between the tags.
// SGLang needs every closing tag, reads one function in each wrapper, unescapes
// HTML in values, and takes a call of an unknown tool for text.
func mimoFormat() toolFormat {
	return toolFormat{names: []string{"mimo"}, marks: []string{callOpen}, compat: mimoCompat, strict: func(s *scanner) { s.markupCalls(true) }}
}

func mimoCompat(text string, ts *toolset) compatResult {
	start := strings.Index(text, callOpen)
	if start < 0 {
		return compatResult{}
	}
	out := compatResult{found: true}
	var said strings.Builder
	said.WriteString(text[:start])
	for last := start; ; {
		open := indexFrom(text, callOpen, last)
		if open < 0 {
			break
		}
		body, _, closed := strings.Cut(text[open+len(callOpen):], callClose)
		if !closed {
			break
		}
		end := open + len(callOpen) + len(body) + len(callClose)
		name, args, ok, err := mimoCall(body, ts)
		if err != nil {
			return compatResult{found: true, failed: true}
		}
		if ok && ts.find(name) == nil {
			said.WriteString(text[last:end])
		} else if ok {
			calls, err := namedCall(name, args, ts)
			if err != nil {
				return compatResult{found: true, failed: true}
			}
			out.calls = append(out.calls, calls...)
		}
		last = end
	}
	out.text = said.String()
	return out
}

// mimoCall reads the first whole function of a wrapper.
func mimoCall(body string, ts *toolset) (name string, args value, ok bool, err error) {
	name, inner, _ := namedTag(body, functionOpen)
	inner, _, closed := strings.Cut(inner, functionClose)
	if name == "" || !closed {
		return "", value{}, false, nil
	}
	name = pyStrip(name)
	d := dictValue()
	for {
		key, after, _ := namedTag(inner, paramOpen)
		text, rest, closed := strings.Cut(after, paramClose)
		if key == "" || !closed {
			return name, d.value(), true, nil
		}
		key = pyStrip(key)
		v, err := mimoValue(pyUnescape(text), key, ts.find(name))
		if err != nil {
			return "", value{}, false, err
		}
		d.set(strValue(key), v)
		inner = rest
	}
}

// namedTag finds the first tag with a name that is not empty.
func namedTag(s, tag string) (name, after string, ok bool) {
	for {
		_, rest, found := strings.Cut(s, tag)
		name, after, closed := strings.Cut(rest, ">")
		if !found || !closed {
			return "", "", false
		}
		if name != "" {
			return name, after, true
		}
		s = rest
	}
}

func mimoValue(text, key string, t *tool) (value, error) {
	lower := asciiLower(text)
	if lower == "null" {
		return value{}, nil
	}
	typ, err := mimoType(key, t)
	if err != nil {
		return value{}, err
	}
	switch {
	case slices.Contains([]string{"string", "str", "text", "varchar", "char", "enum"}, typ):
		return strValue(text), nil
	case hasAnyPrefix(typ, "int", "uint", "long", "short", "unsigned"):
		if v, ok := pyInt(text); ok {
			return v, nil
		}
		return strValue(text), nil
	case hasAnyPrefix(typ, "num", "float"):
		f, ok := pyParseFloat(text)
		if !ok || math.IsNaN(f) {
			return strValue(text), nil
		}
		return wholeFloat(f)
	case typ == "boolean" || typ == "bool" || typ == "binary":
		return boolValue(lower == "true"), nil
	}
	if typ == "object" || typ == "array" || typ == "arr" || hasAnyPrefix(typ, "dict", "list") {
		v, err := pyLoads(text)
		if err != errDecode && err != errValue {
			return v, err
		}
	}
	v, err := pyLiteral(text)
	if err != nil {
		return strValue(text), nil
	}
	return v, nil
}

// mimoType returns a parameter's type. One that is no string, and a schema
// that is no object, raise.
func mimoType(key string, t *tool) (string, error) {
	if t == nil {
		return "string", nil
	}
	if t.schema.kind != kDict {
		return "", errType
	}
	schema, ok := t.props[key]
	if !ok {
		return "string", nil
	}
	typ, given := schema.get("type")
	if schema.kind != kDict || given && typ.kind != kStr {
		return "", errType
	}
	if !given {
		return "string", nil
	}
	return typ.s, nil
}

// pyUnescape is Python's html.unescape, which differs from Go's in numeric
// references: those of control characters vanish.
func pyUnescape(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "&#")
		b.WriteString(html.UnescapeString(before))
		if !found {
			return b.String()
		}
		base, digits := 10, after
		if digits != "" && digits[0]|0x20 == 'x' {
			base, digits = 16, digits[1:]
		}
		end := 0
		for end < len(digits) && strings.IndexByte("0123456789abcdef"[:base], asciiLower(digits[end : end+1])[0]) >= 0 {
			end++
		}
		if end == 0 {
			b.WriteString("&#")
			s = after
			continue
		}
		b.WriteString(numericReference(digits[:end], base))
		s = strings.TrimPrefix(digits[end:], ";")
	}
}

func numericReference(digits string, base int) string {
	n, err := strconv.ParseUint(digits, base, 31)
	switch {
	case err != nil || n > 0x10ffff || n >= 0xd800 && n <= 0xdfff || n == 0:
		return "\uFFFD"
	case n == 0x0d:
		return "\r"
	case n >= 0x80 && n <= 0x9f:
		return html.UnescapeString("&#" + strconv.FormatUint(n, 10) + ";")
	case n < 0x09 || n == 0x0b || n >= 0x0e && n < 0x20 || n == 0x7f, n >= 0xfdd0 && n <= 0xfdef, n&0xfffe == 0xfffe:
		return ""
	}
	return string(rune(n))
}
