package parse

import (
	"encoding/json"
	"strings"
)

// pythonicFormat is a Python list of calls with literals as keyword arguments.
// SGLang takes the text from the first such bracket to the last ")]", and reads
// nothing if that is no Python.
func pythonicFormat() toolFormat {
	return toolFormat{names: []string{"pythonic"}, marks: []string{"<|python_start|>"}, compat: pythonicCompat, strict: (*scanner).pythonicCalls}
}

func pythonicCompat(text string, ts *toolset) compatResult {
	body := strings.ReplaceAll(strings.ReplaceAll(pyStrip(text), "<|python_start|>", ""), "<|python_end|>", "")
	start, end := pythonicList(body)
	if start < 0 {
		return compatResult{}
	}
	out := compatResult{found: true, text: body[:start] + body[end:]}
	list := body[start:end]
	if strings.IndexByte(list, 0) >= 0 {
		return compatResult{found: true}
	}
	p := pyReader{s: strings.ReplaceAll(strings.ReplaceAll(list, "\r\n", "\n"), "\r", "\n"), constants: true}
	calls, ok := p.calls()
	if !ok || !p.moreLists() || p.err != nil {
		return compatResult{found: true}
	}
	for _, c := range calls {
		if ts.find(c.name) == nil {
			continue
		}
		args, err := pyDumps(c.args)
		if err != nil {
			return compatResult{found: true}
		}
		out.calls = append(out.calls, Call{Name: c.name, Args: json.RawMessage(args)})
	}
	return out
}

// pythonicList finds what SGLang's expression matches: a bracket, calls
// without arguments, and from the first argument on anything up to the last
// ")]".
func pythonicList(s string) (start, end int) {
	last := lastListEnd(s)
	for start = strings.IndexByte(s, '['); start >= 0; start = indexFrom(s, "[", start+1) {
		if end = pythonicEnd(s, start+1, last); end > 0 {
			return start, end
		}
	}
	return -1, -1
}

// pythonicEnd returns where the list whose first call begins at i ends, or 0.
func pythonicEnd(s string, i, last int) int {
	for {
		open := nameEnd(s, i)
		if open == i || open == len(s) || s[open] != '(' {
			return 0
		}
		i = open + 1
		if key := nameEnd(s, i); key > i && strings.HasPrefix(s[key:], "=") {
			if last <= key {
				return 0
			}
			return wildEnd(s, i, last)
		}
		if !strings.HasPrefix(s[i:], ")") {
			return 0
		}
		after := skipSpace(s, i+1)
		if strings.HasPrefix(s[after:], "]") {
			return after + 1
		}
		if i = after; strings.HasPrefix(s[i:], ",") {
			i = skipSpace(s, i+1)
		}
	}
}

// wildEnd returns where a list ends whose arguments begin at i: behind the last
// comma at which the expression can go on, which may close the list at once.
func wildEnd(s string, i, last int) int {
	for comma := strings.LastIndexByte(s, ','); comma > i; comma = strings.LastIndexByte(s[:comma], ',') {
		j := skipSpace(s, comma+1)
		if strings.HasPrefix(s[j:], ")") {
			if j = skipSpace(s, j+1); strings.HasPrefix(s[j:], "]") {
				return j + 1
			}
			continue
		}
		if key := nameEnd(s, j); key > j && strings.HasPrefix(s[key:], "=") && last > key {
			return last
		}
	}
	return last
}

// nameEnd returns the end of the name at i; i is none.
func nameEnd(s string, i int) int {
	if i < len(s) && (s[i]|0x20 < 'a' || s[i]|0x20 > 'z') {
		return i
	}
	return identEnd(s, i)
}

// lastListEnd returns the end of the last ")" and "]" with only blanks
// between, or -1.
func lastListEnd(s string) int {
	for end := strings.LastIndexByte(s, ']'); end >= 0; end = strings.LastIndexByte(s[:end], ']') {
		if strings.HasSuffix(strings.TrimRightFunc(s[:end], pySpace), ")") {
			return end + 1
		}
	}
	return -1
}

// A pyCall is one call of a list; end is where it ends.
type pyCall struct {
	name  string
	args  value
	keys  []string
	plain bool // keyword arguments only, each once
	end   int
}

// calls reads a list of calls up to its bracket.
func (p *pyReader) calls() ([]pyCall, bool) {
	var out []pyCall
	p.i++
	p.depth++
	for p.peek() != ']' {
		c, ok := p.call()
		if !ok {
			return out, false
		}
		out = append(out, c)
		if p.peek() == ',' {
			p.i++
		} else if p.peek() != ']' {
			return out, false
		}
	}
	p.i++
	p.depth--
	return out, len(out) > 0
}

// moreLists reads the lists that follow on lines of their own, which Python
// takes for further statements.
func (p *pyReader) moreLists() bool {
	for !p.atEnd() {
		if p.i == 0 || p.s[p.i-1] != '\n' || p.s[p.i] != '[' {
			return false
		}
		if _, ok := p.calls(); !ok {
			return false
		}
	}
	return true
}

// call reads NAME(KEY=literal, …). Positional arguments are read and dropped.
func (p *pyReader) call() (pyCall, bool) {
	p.peek()
	end := nameEnd(p.s, p.i)
	if p.i < len(p.s) && p.s[p.i] == '_' {
		end = identEnd(p.s, p.i)
	}
	c := pyCall{name: p.s[p.i:end], plain: true}
	p.i = end
	if c.name == "" || p.peek() != '(' {
		return c, false
	}
	p.i++
	p.depth++
	args := dictValue()
	for p.peek() != ')' {
		key := p.s[p.i:identEnd(p.s, p.i)]
		at := p.i
		p.i += len(key)
		switch {
		case key != "" && p.peek() == '=' && strings.HasPrefix(p.s[p.i:], "=="): // a comparison
			p.i += 2
			p.peek()
			key, c.plain = "", false
			if len(c.keys) > 0 {
				return c, false
			}
		case key != "" && p.peek() == '=':
			p.i++
			p.peek()
		default:
			p.i, key = at, ""
			c.plain = false
			if len(c.keys) > 0 {
				return c, false
			}
		}
		v, ok := p.expr()
		if !ok {
			return c, false
		}
		if key != "" {
			_, twice := args.at[strValue(key).identity()]
			c.plain = c.plain && !twice
			args.set(strValue(key), v)
			c.keys = append(c.keys, key)
		}
		if p.peek() == ',' {
			p.i++
		} else if p.peek() != ')' {
			return c, false
		}
	}
	p.i++
	p.depth--
	c.args, c.end = args.value(), p.i
	return c, true
}

// pythonicCalls reads every list of calls in the text. Other brackets are text,
// such as code in an answer; a list that calls a known tool, but in no Python
// with keyword arguments, is withheld.
func (s *scanner) pythonicCalls() {
	for at := s.next("[", s.pos); at >= 0; at = s.next("[", max(at+1, s.pos)) {
		name := skipSpace(s.text, at+1)
		end := dottedEnd(s.text, name)
		if end == name || !s.at(end, "(") {
			continue
		}
		p := pyReader{s: s.text, i: at, signs: true, constants: true}
		calls, ok := p.calls()
		switch {
		case ok && s.callsTools(calls):
			s.textTo(s.tagBefore(at))
			for _, c := range calls {
				s.callTo(c.end, s.pythonicCall(c))
			}
			s.extendTo(p.i)
			if i := skipSpace(s.text, s.pos); s.at(i, "<|python_end|>") {
				s.extendTo(i + len("<|python_end|>"))
			}
		case !ok && s.ts.find(lastName(s.text[name:end])) != nil:
			s.textTo(s.tagBefore(at))
			s.brokenList(p.i)
		}
	}
}

// callsTools reports whether a list is meant for tools: it calls a known one,
// or has nothing but keyword arguments.
func (s *scanner) callsTools(calls []pyCall) bool {
	keywords := true
	for _, c := range calls {
		if s.ts.find(c.name) != nil {
			return true
		}
		keywords = keywords && c.plain && len(c.keys) > 0
	}
	return keywords
}

func lastName(dotted string) string { return dotted[strings.LastIndexByte(dotted, '.')+1:] }

// tagBefore returns where a list with its opening tag begins.
func (s *scanner) tagBefore(at int) int {
	head := strings.TrimRightFunc(s.text[s.pos:at], pySpace)
	if strings.HasSuffix(head, "<|python_start|>") {
		return s.pos + len(head) - len("<|python_start|>")
	}
	return at
}

// brokenList withholds a list that could be read up to there, to the end of
// its line.
func (s *scanner) brokenList(read int) {
	end := s.next("\n", min(read, len(s.text)))
	c := broken(InvalidJSONArgs)
	if end < 0 {
		end = len(s.text)
	}
	if read >= len(s.text) || !strings.Contains(s.text[read:end], "]") {
		c.Flags = addFlag(c.Flags, s.unclosed()...)
	}
	s.callTo(end, c)
}

func (s *scanner) pythonicCall(c pyCall) Call {
	out := Call{Name: c.name}
	if !c.plain {
		out.Flags = append(out.Flags, DuplicateParam)
		if len(c.keys) == len(c.args.list)/2 {
			out.Flags = []Flag{StrayTextInCall}
		}
	}
	args, err := pyDumps(c.args)
	if err != nil {
		return Call{Name: c.name, Flags: []Flag{InvalidJSONArgs}}
	}
	return s.withArgs(out, args)
}

// dottedEnd returns the end of a name with dots in it.
func dottedEnd(s string, i int) int {
	end := identEnd(s, i)
	for end > i && strings.HasPrefix(s[end:], ".") && identEnd(s, end+1) > end+1 {
		end = identEnd(s, end+1)
	}
	return end
}
