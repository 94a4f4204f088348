package parse

import (
	"encoding/json"
	"slices"
	"strings"
)

const (
	functionOpen  = "<function="
	functionClose = "</function>"
	paramOpen     = "<parameter="
	paramClose    = "</parameter>"
)

// qwen3CoderFormat is <tool_call>, <function=N>, <parameter=K> with values
// between line ends. SGLang needs none of the closing tags and checks no name.
func qwen3CoderFormat() toolFormat {
	return toolFormat{names: []string{"qwen3_coder", "step3p5"}, marks: []string{callOpen}, compat: qwen3CoderCompat, strict: func(s *scanner) { s.markupCalls(false) }}
}

func qwen3CoderCompat(text string, ts *toolset) compatResult {
	start := strings.Index(text, callOpen)
	if start < 0 {
		return compatResult{}
	}
	out := compatResult{found: true, text: text[:start]}
	blocks := closedBlocks(text)
	if blocks == nil && strings.Contains(text, functionOpen) {
		blocks = []string{text}
	}
	for _, block := range blocks {
		for _, f := range functionBodies(block) {
			name, params, ok := strings.Cut(f, ">")
			if !ok {
				continue
			}
			args, err := coderArgs(params, ts.find(name))
			if err != nil {
				return compatResult{found: true}
			}
			out.calls = append(out.calls, Call{Name: name, Args: json.RawMessage(args)})
		}
	}
	return out
}

// closedBlocks returns what stands in each <tool_call>…</tool_call>.
func closedBlocks(text string) []string {
	var blocks []string
	for {
		_, after, found := strings.Cut(text, callOpen)
		if !found {
			return blocks
		}
		body, rest, closed := strings.Cut(after, callClose)
		if !closed {
			return blocks
		}
		blocks = append(blocks, body)
		text = rest
	}
}

// functionBodies returns what follows each <function=, up to its closing tag;
// an open last one reaches to the end.
func functionBodies(block string) []string {
	var bodies []string
	for {
		_, after, found := strings.Cut(block, functionOpen)
		if !found {
			return bodies
		}
		body, rest, closed := strings.Cut(after, functionClose)
		bodies = append(bodies, body)
		if !closed {
			return bodies
		}
		block = rest
	}
}

// coderArgs reads the parameters of one call. A parameter ends at its closing
// tag, the next one's opening tag or the end, where one line end is dropped.
func coderArgs(params string, t *tool) (string, error) {
	args := dictValue()
	for _, p := range paramBodies(params) {
		key, text, ok := strings.Cut(p, ">")
		if !ok {
			continue
		}
		text = strings.TrimSuffix(strings.TrimPrefix(text, "\n"), "\n")
		v, err := coderValue(text, key, t)
		if err != nil {
			return "", err
		}
		args.set(strValue(key), v)
	}
	return pyDumps(args.value())
}

func paramBodies(params string) []string {
	var bodies []string
	closes := finder{text: params, markup: paramClose}
	at := strings.Index(params, paramOpen)
	for at >= 0 {
		body := at + len(paramOpen)
		next := indexFrom(params, paramOpen, body)
		end := closes.next(body)
		switch {
		case end >= 0 && (next < 0 || end < next):
			at = next
		case next >= 0:
			end, at = next, next
		default:
			end, at = len(params), -1
			if strings.HasSuffix(params[body:], "\n") {
				end--
			}
		}
		bodies = append(bodies, params[body:end])
	}
	return bodies
}

func indexFrom(s, markup string, from int) int {
	if i := strings.Index(s[from:], markup); i >= 0 {
		return from + i
	}
	return -1
}

// coderValue types a parameter's text as SGLang does.
func coderValue(text, key string, t *tool) (value, error) {
	if asciiLower(text) == "null" {
		return value{}, nil
	}
	schema, known := t.coderConfig(key)
	if !known {
		return strValue(text), nil
	}
	typ := "string"
	if given, ok := schema.get("type"); ok {
		typ = asciiLower(pyStrip(given.str()))
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
		return coderNumber(text), nil
	case typ == "boolean" || typ == "bool" || typ == "binary":
		return boolValue(asciiLower(text) == "true"), nil
	}
	if typ == "object" || typ == "array" || typ == "arr" || hasAnyPrefix(typ, "dict", "list") {
		if v, err := pyLoads(text); err == nil {
			return v, nil
		}
	}
	if v, err := pyLiteral(text); err == nil {
		return v, nil
	}
	return strValue(text), nil
}

// coderConfig returns a parameter's schema. Where the tool's schema has no
// properties, SGLang looks among the schema's own words.
func (t *tool) coderConfig(key string) (value, bool) {
	if t == nil {
		return value{}, false
	}
	if t.props != nil {
		v, ok := t.props[key]
		return v, ok
	}
	return t.schema.get(key)
}

func coderNumber(text string) value {
	f, ok := pyParseFloat(text)
	if !ok {
		return strValue(text)
	}
	whole := !strings.ContainsAny(text, ".eE")
	if v := (value{kind: kFloat, f: f}); !whole || f-f != 0 || f != float64(int64(f)) && f < 1e18 && f > -1e18 {
		return v
	}
	return intValue(strings.TrimPrefix(floatDigits(f), "-"), f < 0)
}

func hasAnyPrefix(s string, prefixes ...string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

// A finder finds markup from growing places on, in one pass over the text.
type finder struct {
	text, markup string
	at           int
	asked        bool
}

// next returns where the markup stands at or after from, or -1.
func (f *finder) next(from int) int {
	if f.asked && (f.at < 0 || f.at >= from) {
		return f.at
	}
	f.asked = true
	f.at = indexFrom(f.text, f.markup, from)
	return f.at
}
