package parse

import (
	"slices"
	"strings"
	"unicode/utf8"
)

const llamaTag = "<|python_tag|>"

// llama3Format is JSON objects, separated by semicolons, behind
// <|python_tag|> or at the text's very start. SGLang eats one character after
// each object whatever it is, and reads Python dicts too.
func llama3Format() toolFormat {
	return toolFormat{names: []string{"llama3"}, marks: []string{llamaTag}, compat: llamaCompat, strict: (*scanner).llamaCalls}
}

func llamaCompat(text string, ts *toolset) compatResult {
	before, action, tagged := strings.Cut(text, llamaTag)
	if !tagged {
		if !strings.HasPrefix(text, "{") {
			return compatResult{}
		}
		before, action = "", text
	}
	r := llamaReader{s: action, budget: 32*len(action) + 1024}
	safe, ok := r.read()
	if !ok {
		return compatResult{found: true, failed: true}
	}
	out := compatResult{found: true, text: before}
	if safe < len(action) {
		out.text += pyStrip(action[safe:])
	}
	if len(r.actions) > 0 {
		var err error
		if out.calls, err = baseJSON(value{kind: kList, list: r.actions}, ts); err != nil {
			return compatResult{found: true, failed: true}
		}
	}
	return out
}

// A llamaReader reads objects as SGLang does: after a broken one it looks for
// the next that begins with a name. budget bounds how much it reads again, so
// that nested broken objects take linear time; nothing that a model writes to
// call a tool comes near it.
type llamaReader struct {
	s       string
	budget  int
	actions []value
	depth   []int32           // open braces before each byte, once asked for
	closes  map[int32][]int32 // where a brace closes down to that depth
}

// read returns where what was not read begins; false is an exception.
func (r *llamaReader) read() (safe int, ok bool) {
	for i := 0; i < len(r.s) && r.budget > 0; {
		v, end, err := pyRawDecode(r.s[i:])
		if err == nil {
			r.actions = append(r.actions, v)
			i = r.eat(i + end)
			safe = i
			continue
		}
		if err != errDecode {
			return 0, false
		}
		r.budget -= end
		if v, end := r.python(i); end > 0 {
			r.actions = append(r.actions, v)
			i = r.eat(end)
			safe = i
			continue
		}
		next := strings.Index(r.s[i+1:], `{"name":`)
		if next < 0 {
			break
		}
		i += 1 + next
	}
	return safe, true
}

// eat steps over the character at i, or over the text's end.
func (r *llamaReader) eat(i int) int {
	_, size := utf8.DecodeRuneInString(r.s[i:])
	return i + max(1, size)
}

// python reads the braces at i, or further on, as a Python dict and returns
// where they end, or 0.
func (r *llamaReader) python(i int) (value, int) {
	if r.depth == nil {
		r.count()
	}
	ends := r.closes[r.depth[i]]
	at, _ := slices.BinarySearch(ends, int32(i))
	if at == len(ends) {
		return value{}, 0
	}
	end := int(ends[at]) + 1
	if r.budget -= end - i; r.budget < 0 {
		return value{}, 0
	}
	v, err := pyLiteral(pyStrip(r.s[i:end]))
	if err != nil || v.kind != kDict {
		return value{}, 0
	}
	dumped, err := pyDumps(v)
	if err != nil || dumped == r.s[i:end] {
		return value{}, 0
	}
	v, _, err = pyRawDecode(dumped)
	if err != nil {
		return value{}, 0
	}
	return v, end
}

func (r *llamaReader) count() {
	r.depth = make([]int32, len(r.s)+1)
	r.closes = map[int32][]int32{}
	for i := range len(r.s) {
		d := r.depth[i]
		switch r.s[i] {
		case '{':
			d++
		case '}':
			d--
			r.closes[d] = append(r.closes[d], int32(i))
		}
		r.depth[i+1] = d
	}
}
