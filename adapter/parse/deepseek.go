package parse

import "strings"

const (
	dsOpen    = "<｜tool▁calls▁begin｜>"
	dsClose   = "<｜tool▁calls▁end｜>"
	dsCall    = "<｜tool▁call▁begin｜>"
	dsCallEnd = "<｜tool▁call▁end｜>"
	dsSep     = "<｜tool▁sep｜>"
	dsJSON    = "\n```json\n"
	dsFence   = "\n```"
)

// deepseekV31Format is a section of calls NAME<｜tool▁sep｜>JSON. One broken
// call loses all in SGLang.
func deepseekV31Format() toolFormat {
	return toolFormat{names: []string{"deepseekv31"}, marks: []string{dsOpen, dsCall},
		compat: func(text string, ts *toolset) compatResult { return deepseekCompat(text, ts, deepseekV31Call) },
		strict: func(s *scanner) { s.deepseekCalls(false) }}
}

// deepseekV3Format has the word function before the separator, and the name
// and a fenced block of JSON behind it.
func deepseekV3Format() toolFormat {
	return toolFormat{names: []string{"deepseekv3"}, marks: []string{dsOpen, dsCall},
		compat: func(text string, ts *toolset) compatResult { return deepseekCompat(text, ts, deepseekV3Call) },
		strict: func(s *scanner) { s.deepseekCalls(true) }}
}

func deepseekCompat(text string, ts *toolset, read func(body string) (name, args string, ok bool)) compatResult {
	start := strings.Index(text, dsOpen)
	if start < 0 {
		return compatResult{}
	}
	out := compatResult{found: true, text: pyStrip(text[:start])}
	for rest := text; ; {
		_, after, found := strings.Cut(rest, dsCall)
		body, next, closed := strings.Cut(after, dsCallEnd)
		if !found || !closed {
			return out
		}
		rest = next
		name, args, ok := read(body)
		if !ok {
			return compatResult{found: true}
		}
		v, err := pyLoads(args)
		if err != nil {
			return compatResult{found: true}
		}
		calls, err := namedCall(name, v, ts)
		if err != nil {
			return compatResult{found: true}
		}
		out.calls = append(out.calls, calls...)
	}
}

// deepseekV31Call splits at the last separator.
func deepseekV31Call(body string) (name, args string, ok bool) {
	at := strings.LastIndex(body, dsSep)
	if at < 0 {
		return "", "", false
	}
	return body[:at], body[at+len(dsSep):], true
}

// deepseekV3Call splits at the last separator that a fence follows, and at the
// last fence.
func deepseekV3Call(body string) (name, args string, ok bool) {
	body, ok = strings.CutSuffix(body, dsFence)
	fence := strings.LastIndex(body, dsJSON)
	if !ok || fence < 0 {
		return "", "", false
	}
	at := strings.LastIndex(body[:fence], dsSep)
	if at < 0 {
		return "", "", false
	}
	return body[at+len(dsSep) : fence], body[fence+len(dsJSON):], true
}
