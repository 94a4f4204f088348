package parse

import (
	"math"
	"strings"
)

const (
	minimaxOpen        = "<minimax:tool_call>"
	minimaxClose       = "</minimax:tool_call>"
	minimaxInvoke      = `<invoke name="`
	minimaxInvokeClose = "</invoke>"
	minimaxParam       = `<parameter name="`
)

// minimaxM2Format is a section of invocations. SGLang trims line ends off
// values and makes a parameter that may be null always null.
func minimaxM2Format() toolFormat {
	return toolFormat{names: []string{"minimax-m2"}, marks: []string{minimaxOpen}, compat: minimaxCompat, strict: (*scanner).minimaxCalls}
}

func minimaxCompat(text string, ts *toolset) compatResult {
	if !strings.Contains(text, minimaxOpen) {
		return compatResult{}
	}
	out := compatResult{found: true}
	var kept strings.Builder
	for rest := text; ; {
		before, after, found := strings.Cut(rest, minimaxOpen)
		block, next, closed := strings.Cut(after, minimaxClose)
		if !found || !closed {
			kept.WriteString(rest)
			out.text = kept.String()
			return out
		}
		kept.WriteString(before)
		rest = next
		for _, body := range betweenTags(block+minimaxClose, minimaxInvoke, minimaxInvokeClose) {
			name, params, ok := strings.Cut(body, `">`)
			if !ok {
				continue
			}
			args, err := minimaxArgs(params, ts.find(pyStrip(name)))
			if err != nil {
				return compatResult{found: true, failed: true}
			}
			// What json.dumps refuses loses this call alone.
			calls, _ := namedCall(pyStrip(name), args, ts)
			out.calls = append(out.calls, calls...)
		}
	}
}

// betweenTags returns what follows each opening tag up to its closing tag; an
// open last one reaches to the end.
func betweenTags(s, open, end string) []string {
	var out []string
	for {
		_, after, found := strings.Cut(s, open)
		if !found {
			return out
		}
		body, rest, closed := strings.Cut(after, end)
		out = append(out, body)
		if !closed {
			return out
		}
		s = rest
	}
}

func minimaxArgs(params string, t *tool) (value, error) {
	args := dictValue()
	for _, body := range betweenTags(params, minimaxParam, paramClose) {
		key, text, ok := strings.Cut(body, `">`)
		if !ok {
			continue
		}
		key = pyStrip(key)
		names := map[string]bool{}
		if t != nil {
			minimaxTypes(t.props[key], names)
		}
		v, err := minimaxValue(strings.Trim(text, "\n"), names)
		if err != nil {
			return value{}, err
		}
		args.set(strValue(key), v)
	}
	return args.value(), nil
}

// minimaxTypes collects every type that stands anywhere in a schema.
func minimaxTypes(schema value, names map[string]bool) {
	if schema.kind != kDict {
		names["string"] = true
		return
	}
	before := len(names)
	t, _ := schema.get("type")
	for _, one := range append(t.list, t) {
		if one.kind == kStr {
			names[asciiLower(one.s)] = true
		}
	}
	if list, ok := schema.get("enum"); ok && list.kind == kList {
		for _, one := range list.list {
			names[enumType([]value{one})] = true
		}
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		if list, ok := schema.get(word); ok && list.kind == kList {
			for _, one := range list.list {
				minimaxTypes(one, names)
			}
		}
	}
	if len(names) == before {
		names["string"] = true
	}
}

// minimaxValue types a value's text by the first of its types that takes it.
func minimaxValue(text string, names map[string]bool) (value, error) {
	lower := asciiLower(text)
	if len(names) == 0 {
		names = map[string]bool{"string": true}
	}
	if lower == "null" || names["null"] || lower == "none" || lower == "nil" {
		return value{}, nil
	}
	if names["integer"] || names["int"] {
		if v, ok := pyInt(text); ok {
			return v, nil
		}
	}
	if names["number"] || names["float"] {
		if f, ok := pyParseFloat(text); ok && !math.IsNaN(f) {
			return wholeFloat(f)
		}
	}
	if names["boolean"] || names["bool"] {
		switch pyStrip(lower) {
		case "true", "1", "yes", "on":
			return boolValue(true), nil
		case "false", "0", "no", "off":
			return boolValue(false), nil
		}
	}
	if names["object"] || names["array"] {
		v, err := pyLoads(text)
		if err != errDecode {
			return v, err
		}
	}
	if names["string"] || names["str"] || names["text"] {
		return strValue(text), nil
	}
	v, err := pyLoads(text)
	if err == errDecode {
		return strValue(text), nil
	}
	return v, err
}

// wholeFloat turns a float without a fraction into an int, as Python does it:
// infinity raises.
func wholeFloat(f float64) (value, error) {
	if math.IsInf(f, 0) {
		return value{}, errOverflow
	}
	if f != math.Trunc(f) {
		return value{kind: kFloat, f: f}, nil
	}
	return intValue(strings.TrimPrefix(floatDigits(f), "-"), f < 0), nil
}
