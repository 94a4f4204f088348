package parse

import (
	"encoding/json"
	"strings"
	"unicode"
)

const (
	kimiOpen     = "<|tool_calls_section_begin|>"
	kimiClose    = "<|tool_calls_section_end|>"
	kimiCall     = "<|tool_call_begin|>"
	kimiCallEnd  = "<|tool_call_end|>"
	kimiArgument = "<|tool_call_argument_begin|>"
)

// kimiK2Format is a section of calls with an id, functions.NAME:INDEX, and the
// arguments' JSON, which SGLang passes on as it stands.
func kimiK2Format() toolFormat {
	return toolFormat{names: []string{"kimi_k2"}, marks: []string{kimiOpen, kimiCall}, compat: kimiCompat, strict: (*scanner).kimiCalls}
}

func kimiCompat(text string, ts *toolset) compatResult {
	start := strings.Index(text, kimiOpen)
	if start < 0 {
		return compatResult{}
	}
	out := compatResult{found: true, text: text[:start]}
	ends := finder{text: text, markup: kimiCallEnd}
	for at := strings.Index(text, kimiCall); at >= 0; {
		from := at + len(kimiCall)
		id, brace, ok := kimiHead(text, from)
		at = indexFrom(text, kimiCall, from)
		if !ok {
			continue
		}
		args, after := kimiArgs(text, &ends, brace)
		if after < 0 {
			continue
		}
		at = indexFrom(text, kimiCall, after)
		name, err := kimiName(id, args, ts)
		if err != nil {
			return compatResult{found: true}
		}
		if name != "" {
			out.calls = append(out.calls, Call{Name: name, Args: json.RawMessage(args)})
		}
	}
	return out
}

// kimiHead reads an id and the way to the brace that opens the arguments.
func kimiHead(text string, i int) (id string, brace int, ok bool) {
	i = skipSpace(text, i)
	end := len(text)
	if size := strings.IndexFunc(text[i:], func(r rune) bool { return r == '<' || r == '|' || pySpace(r) }); size >= 0 {
		end = i + size
	}
	arg := skipSpace(text, end)
	if end == i || !strings.HasPrefix(text[arg:], kimiArgument) {
		return "", 0, false
	}
	brace = skipSpace(text, arg+len(kimiArgument))
	return text[i:end], brace, strings.HasPrefix(text[brace:], "{")
}

// kimiArgs returns the arguments from the brace to the first closing brace
// that the call's end follows, and where that ends, or -1.
func kimiArgs(text string, ends *finder, brace int) (args string, after int) {
	for e := ends.next(brace); e >= 0; e = ends.next(e + 1) {
		args := strings.TrimRightFunc(text[brace:e], pySpace)
		if len(args) > 1 && args[len(args)-1] == '}' {
			return args, e + len(kimiCallEnd)
		}
	}
	return "", -1
}

// kimiName reads the tool's name out of an id; "" drops the call.
func kimiName(id, args string, ts *toolset) (string, error) {
	name, index, ok := kimiID(id)
	switch {
	case len(index) > maxDigits && len([]rune(index)) > maxDigits:
		return "", errValue
	case ok:
		return name, nil
	case index == id:
		return kimiGuess(args, ts)
	}
	return "", nil
}

// kimiID reads [functions.]NAME:INDEX; of a bare INDEX it returns that alone.
func kimiID(id string) (name, index string, ok bool) {
	at := strings.LastIndexByte(id, ':')
	index = id[at+1:]
	if !allDigits(index) {
		return "", "", false
	}
	if at < 0 {
		return "", index, false
	}
	name = id[:at]
	if short := strings.TrimPrefix(name, "functions."); short != "" {
		name = short
	}
	for _, r := range name {
		if r != '_' && r != '.' && r != '-' && !unicode.IsLetter(r) && !unicode.IsNumber(r) {
			return "", "", false
		}
	}
	return name, index, name != ""
}

func allDigits(s string) bool {
	for _, r := range s {
		if digitOf(r) < 0 {
			return false
		}
	}
	return s != ""
}

// kimiGuess finds the tool whose parameters fit the arguments' keys best.
func kimiGuess(args string, ts *toolset) (string, error) {
	if len(ts.tools) == 1 {
		return ts.tools[0].name, nil
	}
	v, err := pyLoads(args)
	if err == errDecode {
		return "", nil
	}
	if err != nil || v.kind != kDict {
		return "", errType
	}
	best, most := "", -1
	for i := range ts.tools {
		t := &ts.tools[i]
		t.parse()
		if len(t.props) == 0 {
			continue
		}
		score := 0
		for k := 0; k < len(v.list); k += 2 {
			if _, ok := t.props[v.list[k].s]; ok {
				score++
			} else {
				score--
			}
		}
		if score > most {
			best, most = t.name, score
		}
	}
	return best, nil
}
