package parse

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	mistralMark  = "[TOOL_CALLS"
	mistralArray = "[TOOL_CALLS] ["
	mistralArgs  = "[ARGS"
)

// mistralFormat is [TOOL_CALLS] with a JSON array of calls, or with a name,
// [ARGS] and JSON for each call.
func mistralFormat() toolFormat {
	return toolFormat{names: []string{"mistral"}, marks: []string{mistralMark}, compat: mistralCompat, strict: (*scanner).mistralCalls}
}

func mistralCompat(text string, ts *toolset) compatResult {
	at := strings.Index(text, mistralMark)
	if at < 0 {
		return compatResult{}
	}
	out := compatResult{found: true, text: pyStrip(text[:at])}
	part := text[at:]
	if strings.Contains(part, mistralArray) {
		return mistralList(out, part, ts)
	}
	rest := part
	for rest != "" {
		name, args, size := mistralCompact(rest)
		if size == 0 {
			break
		}
		calls, err := baseJSON(value{kind: kDict, list: []value{strValue("name"), strValue(name), strValue("arguments"), args}}, ts)
		if err != nil {
			return compatResult{found: true, failed: true}
		}
		out.calls = append(out.calls, calls...)
		rest = pyStrip(rest[size:])
	}
	if rest != "" {
		out.text = pyStrip(out.text + " " + rest)
	}
	return out
}

func mistralList(out compatResult, part string, ts *toolset) compatResult {
	start := strings.Index(part, mistralArray) + len(mistralArray) - 1
	end := balanced(part, start)
	if end < 0 {
		return out
	}
	list := part[start:end]
	v, err := pyLoads(list)
	if err == nil {
		out.calls, err = baseJSON(v, ts)
	}
	if err != nil && err != errDecode {
		return compatResult{found: true, failed: true}
	}
	if after := pyStrip(part[strings.Index(part, list)+len(list):]); after != "" {
		out.text = pyStrip(out.text + " " + after)
	}
	return out
}

// mistralCompact reads [TOOL_CALLS]NAME[ARGS]JSON anywhere in s and returns
// where it ends; 0 is none.
func mistralCompact(s string) (name string, args value, size int) {
	i := strings.Index(s, mistralMark)
	if i < 0 {
		return "", value{}, 0
	}
	i = skipSpace(s, skipByte(s, i+len(mistralMark), ']'))
	at := indexFrom(s, mistralArgs, i)
	if at < 0 {
		return "", value{}, 0
	}
	name = pyStrip(s[i:at])
	j := skipSpace(s, skipByte(s, at+len(mistralArgs), ']'))
	if name == "" || j == len(s) || s[j] != '{' && s[j] != '[' {
		return "", value{}, 0
	}
	end := balanced(s, j)
	if end < 0 {
		return "", value{}, 0
	}
	// SGLang asks a stricter reader first, which refuses what is flagged here.
	v := scanJSON(s, j)
	if !v.ok || v.end != end || slices.Contains(v.flags, NonFiniteNumber) || slices.Contains(v.flags, InvalidJSONArgs) || !utf8.ValidString(s[j:end]) {
		return "", value{}, 0
	}
	args, err := pyLoads(s[j:end])
	if err != nil {
		return "", value{}, 0
	}
	return name, args, end
}

func skipByte(s string, i int, c byte) int {
	if i < len(s) && s[i] == c {
		return i + 1
	}
	return i
}

// balanced returns where the bracket at i closes, counting that kind of
// bracket outside strings, or -1.
func balanced(s string, i int) int {
	open, end := s[i], byte(']')
	if open == '{' {
		end = '}'
	}
	depth, quoted := 0, false
	for ; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == open:
			depth++
		case c == end:
			depth--
			if depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}
