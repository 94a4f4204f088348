package parse

import "strings"

const (
	stepOpen        = "<｜tool_calls_begin｜>"
	stepClose       = "<｜tool_calls_end｜>"
	stepCall        = "<｜tool_call_begin｜>"
	stepCallEnd     = "<｜tool_call_end｜>"
	stepSep         = "<｜tool_sep｜>"
	stepInvoke      = `<steptml:invoke name="`
	stepInvokeClose = "</steptml:invoke>"
	stepParam       = `<steptml:parameter name="`
	stepParamClose  = "</steptml:parameter>"
)

// step3Format is a section of calls, function<｜tool_sep｜>, each with an
// invocation in steptml. SGLang loses a value that has a "<" in it.
func step3Format() toolFormat {
	return toolFormat{names: []string{"step3"}, marks: []string{stepOpen, stepCall}, compat: stepCompat, strict: (*scanner).stepCalls}
}

func stepCompat(text string, ts *toolset) compatResult {
	before, rest, found := strings.Cut(text, stepOpen)
	section, after, closed := strings.Cut(rest, stepClose)
	if !found || !closed {
		return compatResult{found: found}
	}
	out := compatResult{found: true, text: before + after}
	for {
		_, rest, found := strings.Cut(section, stepCall)
		body, next, closed := strings.Cut(rest, stepCallEnd)
		if !found || !closed {
			return out
		}
		section = next
		kind, invoke, split := strings.Cut(body, stepSep)
		if !split || pyStrip(kind) != "function" {
			continue
		}
		name, args, ok := stepInvocation(invoke, ts)
		if !ok {
			return compatResult{found: true}
		}
		calls, err := namedCall(name, args, ts)
		if err != nil {
			return compatResult{found: true}
		}
		out.calls = append(out.calls, calls...)
	}
}

// stepInvocation reads the first invocation that has something in it; false is
// an exception.
func stepInvocation(s string, ts *toolset) (name string, args value, ok bool) {
	d := dictValue()
	name, body, found := stepTag(s, stepInvoke, stepInvokeClose, 1)
	if !found {
		return "", value{}, true
	}
	t := ts.find(name)
	for from := 0; ; {
		key, text, end := stepParameter(body, from)
		if end < 0 {
			return name, d.value(), true
		}
		from = end
		text = pyStrip(text)
		v := strValue(text)
		if schema, known := t.property(key); known {
			if schema.kind != kDict {
				return "", value{}, false
			}
			if typ, _ := schema.get("type"); typ.truthy() && (typ.kind != kStr || typ.s != "string") {
				v = stepValue(text)
			}
		}
		d.set(strValue(key), v)
	}
}

func (t *tool) property(key string) (value, bool) {
	if t == nil {
		return value{}, false
	}
	v, ok := t.props[key]
	return v, ok
}

// stepTag finds open, a name, `">` and at least that many bytes up to end.
func stepTag(s, open, end string, least int) (name, body string, ok bool) {
	for at := strings.Index(s, open); at >= 0; at = indexFrom(s, open, at+1) {
		start := at + len(open)
		size := strings.IndexByte(s[start:], '"')
		if size < 1 || !strings.HasPrefix(s[start+size:], `">`) {
			continue
		}
		from := start + size + len(`">`)
		if from+least > len(s) {
			return "", "", false
		}
		stop := indexFrom(s, end, from+least)
		if stop < 0 {
			return "", "", false
		}
		return s[start : start+size], s[from:stop], true
	}
	return "", "", false
}

// stepParameter finds the next parameter whose value has no "<" in it and
// returns where it ends, or -1.
func stepParameter(s string, from int) (key, text string, end int) {
	for at := indexFrom(s, stepParam, from); at >= 0; at = indexFrom(s, stepParam, at+1) {
		start := at + len(stepParam)
		size := strings.IndexByte(s[start:], '"')
		if size < 1 || !strings.HasPrefix(s[start+size:], `">`) {
			continue
		}
		body := start + size + len(`">`)
		stop := strings.IndexByte(s[body:], '<')
		if stop < 0 {
			return "", "", -1
		}
		if strings.HasPrefix(s[body+stop:], stepParamClose) {
			return s[start : start+size], s[body : body+stop], body + stop + len(stepParamClose)
		}
	}
	return "", "", -1
}

// stepValue reads JSON, a Python literal, or a string.
func stepValue(text string) value {
	if v, err := pyLoads(text); err == nil {
		return v
	}
	if v, err := pyLiteral(text); err == nil {
		return v
	}
	return strValue(text)
}
