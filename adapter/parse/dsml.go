package parse

import (
	"strings"
)

const (
	dsmlInvoke      = "<｜DSML｜invoke"
	dsmlInvokeClose = "</｜DSML｜invoke>"
	dsmlParam       = "<｜DSML｜parameter"
	dsmlParamClose  = "</｜DSML｜parameter>"
)

// dsmlFormat is a section of invocations with parameters that say themselves
// whether they are strings. SGLang reads the first section only, trims string
// values, and loses parameters whose attributes are others than it expects.
func dsmlFormat(name, section string) toolFormat {
	open, end := "<｜DSML｜"+section+">", "</｜DSML｜"+section+">"
	return toolFormat{names: []string{name}, marks: []string{open, dsmlInvoke},
		compat: func(text string, ts *toolset) compatResult { return dsmlCompat(text, ts, open, end) },
		strict: func(s *scanner) { s.dsmlCalls(open, end) }}
}

func dsmlCompat(text string, ts *toolset, open, end string) compatResult {
	start := strings.Index(text, open)
	if start < 0 {
		return compatResult{found: strings.Contains(text, dsmlInvoke)}
	}
	out := compatResult{found: true, text: strings.TrimSuffix(text[:start], "\n\n")}
	section, _, closed := strings.Cut(text[start+len(open):], end)
	if !closed {
		return out
	}
	for _, inv := range dsmlInvokes(section) {
		args, err := dsmlArgs(inv.body)
		if err != nil {
			return compatResult{found: true}
		}
		calls, err := namedCall(pyStrip(inv.name), args, ts)
		if err != nil {
			return compatResult{found: true}
		}
		out.calls = append(out.calls, calls...)
	}
	return out
}

// A dsmlCall is an invocation: its name and what stands in it.
type dsmlCall struct{ name, body string }

func dsmlInvokes(section string) []dsmlCall {
	var out []dsmlCall
	for at := strings.Index(section, dsmlInvoke); at >= 0; {
		i := at + len(dsmlInvoke)
		at = indexFrom(section, dsmlInvoke, i)
		name, i, ok := attribute(section, i, "name")
		if !ok {
			continue
		}
		i = skipSpace(section, i)
		body := ""
		switch {
		case strings.HasPrefix(section[i:], "/>"):
			i += len("/>")
		case strings.HasPrefix(section[i:], ">"):
			body, _, ok = strings.Cut(section[i+1:], dsmlInvokeClose)
			i += 1 + len(body)
			if !ok {
				body = strings.TrimSuffix(body, "\n")
			}
		default:
			continue
		}
		out = append(out, dsmlCall{name, body})
		at = indexFrom(section, dsmlInvoke, i)
	}
	return out
}

// attribute reads blanks and then NAME="…", which must not be empty.
func attribute(s string, i int, name string) (text string, end int, ok bool) {
	start := skipSpace(s, i)
	if start == i || !strings.HasPrefix(s[start:], name+`="`) {
		return "", i, false
	}
	start += len(name) + len(`="`)
	size := strings.IndexByte(s[start:], '"')
	if size < 1 {
		return "", i, false
	}
	return s[start : start+size], start + size + 1, true
}

// dsmlArgs reads the arguments of one invocation: JSON as a whole, or
// parameters.
func dsmlArgs(body string) (value, error) {
	if s := pyStrip(body); strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") {
		return pyLoads(s)
	}
	args := dictValue()
	for at := strings.Index(body, dsmlParam); at >= 0; {
		i := at + len(dsmlParam)
		at = indexFrom(body, dsmlParam, i)
		key, i, ok := attribute(body, i, "name")
		if !ok {
			continue
		}
		typ, i, ok := attribute(body, i, "string")
		i = skipSpace(body, i)
		if !ok || !strings.HasPrefix(body[i:], ">") {
			continue
		}
		text, _, closed := strings.Cut(body[i+1:], dsmlParamClose)
		if !closed {
			break
		}
		at = indexFrom(body, dsmlParam, i+1+len(text))
		v, err := dsmlValue(pyStrip(text), typ)
		if err != nil {
			return value{}, err
		}
		args.set(strValue(key), v)
	}
	return args.value(), nil
}

func dsmlValue(text, typ string) (value, error) {
	if typ == "true" {
		return strValue(text), nil
	}
	v, err := pyLoads(text)
	if err == errDecode || err == errValue {
		return strValue(text), nil
	}
	return v, err
}
