package parse

import (
	"encoding/json"
	"strings"
)

const harmonyToolMark = "<|start|>assistant<|channel|>commentary"

// gptOSSFormat is harmony: a message to=functions.NAME on the commentary
// channel that <|call|> ends.
func gptOSSFormat() toolFormat {
	return toolFormat{names: []string{"gpt-oss"}, marks: []string{hCall, " to="}, compat: gptOSSCompat, strict: (*scanner).harmonyCalls}
}

func gptOSSCompat(text string, ts *toolset) compatResult {
	if !strings.Contains(text, harmonyToolMark) {
		return compatResult{}
	}
	out := compatResult{found: true}
	var said []string
	for _, e := range harmonyEvents(text) {
		switch e.kind {
		case SpanText:
			said = append(said, e.text)
		case SpanCall:
			name, body, ok := harmonyCallIn(e.raw)
			if !ok || ts.find(name) == nil {
				continue
			}
			args := value{kind: kDict}
			if pyStrip(body) != "" {
				v, err := pyLoads(body)
				if err == errDecode {
					continue
				}
				if err != nil {
					return compatResult{found: true, failed: true}
				}
				args = v
			}
			dumped, err := pyDumps(args)
			if err != nil {
				return compatResult{found: true, failed: true}
			}
			out.calls = append(out.calls, Call{Name: name, Args: json.RawMessage(dumped)})
		}
	}
	out.text = pyStrip(strings.Join(said, " "))
	return out
}

// harmonyCallIn finds to=NAME<|constrain|>json<|message|> in a block; the name
// is what follows its last dot.
func harmonyCallIn(raw string) (name, body string, ok bool) {
	for from := 0; ; {
		at := indexFrom(raw, "to=", from)
		if at < 0 {
			return "", "", false
		}
		from = at + len("to=")
		end := from
		for end < len(raw) && raw[end] < 0x80 && (isWord(raw[end]) || end > from && (raw[end] == '.' || raw[end] == '-')) {
			end++
		}
		after, ok := strings.CutPrefix(raw[skipSpace(raw, end):], hConstrain+"json"+hMessage)
		if end == from || raw[from] >= '0' && raw[from] <= '9' || !ok {
			continue
		}
		body, _, _ = strings.Cut(after, hCall)
		name = raw[from:end]
		return name[strings.LastIndexByte(name, '.')+1:], body, true
	}
}
