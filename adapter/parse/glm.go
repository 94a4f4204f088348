package parse

import (
	"strings"
)

const (
	keyOpen    = "<arg_key>"
	keyClose   = "</arg_key>"
	valueOpen  = "<arg_value>"
	valueClose = "</arg_value>"
)

// glm45Format is <tool_call>N, a line end, and pairs of arg_key and arg_value.
// SGLang demands the line end and reads string values that look like JSON or
// Python as such.
func glm45Format() toolFormat {
	return toolFormat{names: []string{"glm45", "glm"}, marks: []string{callOpen}, compat: glm45Compat,
		strict: func(s *scanner) { s.pairCalls(true) }}
}

// glm47Format is the same without the line end, which SGLang would take for a
// part of the name. Text between and behind the calls is kept.
func glm47Format() toolFormat {
	return toolFormat{names: []string{"glm47"}, marks: []string{callOpen}, compat: glm47Compat,
		strict: func(s *scanner) { s.pairCalls(false) }}
}

func glm45Compat(text string, ts *toolset) compatResult {
	start := strings.Index(text, callOpen)
	if start < 0 {
		return compatResult{}
	}
	out := compatResult{found: true, text: pyStrip(text[:start])}
	for _, block := range closedBlocks(text) {
		at, size := strings.Index(block, "\n"), 1
		if i := strings.Index(block, `\n`); i >= 0 && (at < 0 || i < at) {
			at, size = i, 2
		}
		if at < 0 {
			continue
		}
		if !out.addPairs(block[:at], block[at+size:], ts) {
			return compatResult{found: true}
		}
	}
	return out
}

func glm47Compat(text string, ts *toolset) compatResult {
	if !strings.Contains(text, callOpen) {
		return compatResult{}
	}
	out := compatResult{found: true}
	var kept strings.Builder
	rest := text
	for {
		before, after, found := strings.Cut(rest, callOpen)
		block, next, closed := strings.Cut(after, callClose)
		if !found || !closed {
			kept.WriteString(rest)
			break
		}
		kept.WriteString(before)
		rest = next
		at := strings.Index(block, keyOpen)
		if at < 0 {
			at = len(block)
		}
		if !out.addPairs(block[:at], block[at:], ts) {
			return compatResult{found: true}
		}
	}
	out.text = pyStrip(kept.String())
	return out
}

// addPairs adds the call of that name with the pairs in its body; false is an
// exception, which loses every call.
func (r *compatResult) addPairs(name, body string, ts *toolset) bool {
	args := dictValue()
	for _, p := range glmPairs(body) {
		key := pyStrip(p[0])
		typ := ""
		if t := ts.find(name); t != nil {
			typ = inferType(t.props[key])
		}
		v, err := glmValue(p[1], typ)
		if err != nil {
			return false
		}
		args.set(strValue(key), v)
	}
	calls, err := namedCall(name, args.value(), ts)
	r.calls = append(r.calls, calls...)
	return err == nil
}

// glmPairs finds the pairs: a key whose closing tag is followed by a value,
// with nothing but blanks or a literal \n between.
func glmPairs(body string) [][2]string {
	var out [][2]string
	ends := finder{text: body, markup: keyClose}
	for at := strings.Index(body, keyOpen); at >= 0; {
		key := at + len(keyOpen)
		end, start := -1, -1
		for e := ends.next(key); e >= 0; e = ends.next(e + 1) {
			if i := skipGap(body, e+len(keyClose)); strings.HasPrefix(body[i:], valueOpen) {
				end, start = e, i+len(valueOpen)
				break
			}
		}
		if end < 0 {
			return out
		}
		size := strings.Index(body[start:], valueClose)
		if size < 0 {
			return out
		}
		out = append(out, [2]string{body[key:end], body[start : start+size]})
		at = indexFrom(body, keyOpen, start+size)
	}
	return out
}

func skipGap(s string, i int) int {
	for {
		j := skipSpace(s, i)
		for strings.HasPrefix(s[j:], `\n`) {
			j += 2
		}
		if j == i {
			return i
		}
		i = j
	}
}

// glmValue types a value's text: as JSON, as JSON that was escaped, as a
// Python literal, else as a string. A parameter of type string gets the result
// turned back into text, which is how true becomes True.
func glmValue(text, typ string) (value, error) {
	v, err := glmRead(text, typ)
	if err != nil || typ != "string" || v.kind == kStr {
		return v, err
	}
	if v.kind == kDict || v.kind == kList {
		s, err := pyDumps(v)
		return strValue(s), err
	}
	if v.kind == kInt && len(v.s) > maxDigits+1 {
		return v, errValue
	}
	return strValue(v.str()), nil
}

func glmRead(text, typ string) (value, error) {
	v, err := pyLoads(text)
	if err == nil {
		return glmNumber(v, typ), nil
	}
	if err == errRecursion {
		return v, err
	}
	v, err = glmUnescaped(text)
	if err == nil {
		return glmNumber(v, typ), nil
	}
	if err != errDecode && err != errValue {
		return v, err
	}
	v, err = pyLiteral(text)
	if err == nil || err != errSyntax && err != errValue {
		return v, err
	}
	return strValue(text), nil
}

// glmUnescaped reads text as what stands between the quotes of a JSON string.
func glmUnescaped(text string) (value, error) {
	wrapped, err := pyLoads(`{"tmp": "` + text + `"}`)
	if err != nil {
		return value{}, err
	}
	tmp, _ := wrapped.get("tmp")
	if tmp.kind != kStr {
		return value{}, errType
	}
	return pyLoads(tmp.s)
}

// glmNumber turns a JSON string into the number that the schema asks for.
func glmNumber(v value, typ string) value {
	if typ != "number" || v.kind != kStr {
		return v
	}
	if strings.ContainsAny(v.s, ".eE") {
		if f, ok := pyParseFloat(v.s); ok {
			return value{kind: kFloat, f: f}
		}
		return v
	}
	if n, ok := pyInt(v.s); ok {
		return n
	}
	return v
}

// inferType is how SGLang finds one type for a schema; "" is none.
func inferType(schema value) string {
	if schema.kind != kDict {
		return ""
	}
	if t, ok := schema.get("type"); ok {
		if t.kind == kStr {
			return t.s
		}
		if t.kind == kList && len(t.list) > 0 {
			for _, one := range t.list {
				if one.kind != kStr || one.s != "null" {
					return one.s
				}
			}
			return "string"
		}
	}
	if list, ok := anyOrOneOf(schema); ok && list.kind == kList {
		if t := unionType(list.list); t != "" {
			return t
		}
	}
	if list, ok := schema.get("enum"); ok && list.kind == kList {
		return enumType(list.list)
	}
	if list, ok := schema.get("allOf"); ok && list.kind == kList {
		for _, one := range list.list {
			if t := inferType(one); t != "" && t != "string" {
				return t
			}
		}
		return "string"
	}
	if _, ok := schema.get("properties"); ok {
		return "object"
	}
	if _, ok := schema.get("items"); ok {
		return "array"
	}
	return ""
}

func anyOrOneOf(schema value) (value, bool) {
	if list, ok := schema.get("anyOf"); ok && list.truthy() {
		return list, true
	}
	return schema.get("oneOf")
}

// unionType is the one type of all, string where they differ and it is among
// them, else the first.
func unionType(list []value) string {
	first, same, str := "", true, false
	for _, one := range list {
		t := inferType(one)
		if t == "" {
			continue
		}
		if first == "" {
			first = t
		}
		same = same && t == first
		str = str || t == "string"
	}
	if !same && str {
		return "string"
	}
	return first
}

// enumType is the one type of an enum's values, else string.
func enumType(list []value) string {
	out := ""
	for _, one := range list {
		t := [...]string{kNone: "null", kBool: "boolean", kInt: "integer", kFloat: "number", kStr: "string", kList: "array", kDict: "object"}[one.kind]
		if out != "" && out != t {
			return "string"
		}
		out = t
	}
	if out == "" {
		return "string"
	}
	return out
}
