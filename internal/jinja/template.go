// Package jinja renders chat templates: the part of Jinja2 that they use,
// byte for byte as Python does with the environment that transformers sets up
// (trim_blocks, lstrip_blocks, loop controls, the generation tag, an immutable
// sandbox, tojson as plain json.dumps).
//
// A template is compiled once to closures and may then be rendered by any
// number of goroutines. What this package does not know is refused, at compile
// time where the source alone shows it; where Python raises, Render returns an
// error.
package jinja

import (
	"fmt"
	"sync"
	"time"
)

// A Template is a compiled template. It is immutable and safe for concurrent use.
type Template struct {
	root    *function
	body    execFunc
	globals []string        // names that the template takes from the variables, by index
	attrs   map[string]bool // names of the attributes and constant string items that it reads
	buffers sync.Pool       // of *[]byte, for output that is being made
}

// Options are what a rendering depends on besides the variables.
type Options struct {
	// Now is what strftime_now reads, in its own time zone. Zero means
	// time.Now at each call. Pin it per session: a prompt that prints the date
	// must not change at midnight.
	Now time.Time
	// Strftime, if not nil, answers strftime_now instead: a reference that was
	// made with a clock of its own can be met exactly. It must be safe for
	// concurrent use.
	Strftime func(layout string) string
}

// An Error is what stopped a compilation or a rendering.
type Error struct {
	Line    int    // line of the template, from 1; 0 when unknown
	Message string // without the line
}

// Error names the line, where it is known, and the message.
func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Message
	}
	return fmt.Sprintf("template line %d: %s", e.Line, e.Message)
}

// Compile translates a template. The error is an *Error.
func Compile(source string) (t *Template, err error) {
	defer catch(&err, nil)
	body := parse(source)
	c := newCompiler()
	t = &Template{}
	t.root, t.body = c.compileRoot(body)
	t.globals, t.attrs = c.globalNames, c.attrs
	return t, nil
}

// Render renders the template with the variables of vars, which must be a
// *Dict; a name that it lacks is undefined. Vars is not changed. The error is
// an *Error.
func (t *Template) Render(vars Value) (string, error) {
	return t.RenderWith(vars, Options{})
}

// RenderWith is Render with options.
func (t *Template) RenderWith(vars Value, o Options) (text string, err error) {
	dict, ok := vars.(*Dict)
	if !ok {
		return "", &Error{Message: fmt.Sprintf("the variables of a template are an object, not %s", typeName(vars))}
	}
	st := &state{options: o, globals: make([]Value, len(t.globals))}
	for i, name := range t.globals {
		st.globals[i] = lookupGlobal(dict, name)
	}
	defer catch(&err, st)
	buf, _ := t.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	st.out = (*buf)[:0]
	t.body(st, &env{slots: make([]Value, t.root.slots)})
	text = string(st.out)
	*buf = st.out
	t.buffers.Put(buf)
	return text, nil
}

// Reads reports whether the template reads an attribute of that name, x.name or
// x['name'], of anything.
func (t *Template) Reads(name string) bool { return t.attrs[name] }

// state is one rendering.
type state struct {
	options Options
	globals []Value
	out     []byte
	scratch []byte // of tojson, between its calls
	line    int
	depth   int // nested macro calls
}

// env holds the variables of one function's activation: the root's, a macro's.
type env struct {
	slots []Value
	up    *env
}

// A failure is what unwinds a compilation or rendering; it never leaves the package.
type failure struct {
	line int
	msg  string
}

func fail(format string, args ...any) {
	panic(&failure{msg: fmt.Sprintf(format, args...)})
}

func failAt(line int, format string, args ...any) {
	panic(&failure{line: line, msg: fmt.Sprintf(format, args...)})
}

func catch(err *error, st *state) {
	switch r := recover().(type) {
	case nil:
	case *failure:
		if r.line == 0 && st != nil {
			r.line = st.line
		}
		*err = &Error{Line: r.line, Message: r.msg}
	default:
		panic(r)
	}
}
