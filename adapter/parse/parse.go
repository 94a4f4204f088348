// Package parse reads what a model wrote: reasoning, text and tool calls, in
// the formats of SGLang's parsers, flagged and without loss.
//
// Any bytes give a result in linear time. In Strict mode the spans of a result
// tile its input, a malformed or cut call is withheld and never run, and
// values stay what the model wrote. In Compat mode the calls are exactly those
// of SGLang v0.5.15, its repairs and losses included; the flags are the same.
// What Compat does not follow of Python: Unicode names in string literals
// (\N{…}), the order of a set's items, the depth at which recursion ends, and
// expressions in a pythonic list that are no literals.
package parse

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// Mode says what becomes of malformed calls.
type Mode int

const (
	Strict Mode = iota // withhold what is malformed, keep every byte
	Compat             // return exactly the calls that SGLang returns
)

// A Call is one tool call.
type Call struct {
	// Name as the model wrote it, even if no tool has it.
	Name string
	// Args is the arguments' JSON with the model's key order and spelling of
	// numbers. Only in Compat, and only with a flag, may it be something else
	// than a JSON object, or no JSON.
	Args json.RawMessage
	// Raw is the call as the model wrote it, its markup included. A section's
	// opening and closing markup belong to its first and last call.
	Raw   string
	Flags []Flag
}

// SpanKind says what a stretch of an input is.
type SpanKind int

const (
	SpanText      SpanKind = iota // for the user
	SpanReasoning                 // a thought with its tags
	SpanCall                      // a call, delivered or withheld
	SpanResidue                   // markup that belongs to nothing
)

// A Span is a stretch of the input, in bytes.
type Span struct {
	Kind       SpanKind
	Start, End int
}

// An Input is one sampled text.
type Input struct {
	// Text is what the model wrote, without the stop token: whoever knows the
	// ids takes that off Text and IDs.
	Text       string
	Tools      []chat.Tool      // none: the whole text is text
	PromptTail string           // the end of the rendered prompt: says whether a thought is open
	Cut        bool             // the generation ended by length or abort: what is open stays open
	IDs        []int32          // the sampled ids, for formats that are read token by token; may be nil
	Specials   map[int32]string // every special token of the tokenizer; not written to
	// Decode makes text of ids that are no special tokens. Without it the
	// special tokens are looked for in Text, which is a guess where the text
	// has more marks than tokens.
	Decode func(ids []int32) string
}

// A Result is what an Input says.
type Result struct {
	Reasoning string
	Text      string // without blanks at its ends
	Calls     []Call // in strict mode without those that hard flags withhold
	Withheld  []Call // strict mode: malformed calls, in order
	Flags     []Flag // of the whole, and those of all calls; each once
	Residue   string // what is none of the above; "" where nothing is malformed
	Spans     []Span // Strict: tile the input, in order. Compat and Remote: nil
	// Err is set by Remote alone: the output could not be read, nothing else in
	// the Result counts, and the turn must not be answered.
	Err error
}

// IllFormed reports whether the output breaks its format or its tools'
// schemas: whether it has a hard flag.
func (r Result) IllFormed() bool { return slices.ContainsFunc(r.Flags, Flag.Hard) }

// A ToolResult is what a text says in one tool format.
type ToolResult struct {
	Text     string // in Strict byte for byte, in Compat as SGLang trims it
	Calls    []Call
	Withheld []Call // strict mode: malformed calls, in order
	Flags    []Flag // of the whole, and those of all calls; each once
	Residue  string
	Spans    []Span // Strict: tile the text, in order. Compat: nil
}

// A Parser reads outputs in one pair of formats. It is safe for concurrent use.
type Parser struct {
	tool      *toolFormat      // nil: none
	reasoning *reasoningFormat // nil: none
	mode      Mode
}

// New returns a parser for the tool calls and the reasoning of a model, by the
// names that SGLang's --tool-call-parser and --reasoning-parser have; "" is
// none. An unknown name is an error that lists the known ones.
func New(toolParser, reasoningParser string, mode Mode) (*Parser, error) {
	p := &Parser{mode: mode}
	var err error
	if toolParser != "" {
		if p.tool, err = findTool(toolParser); err != nil {
			return nil, err
		}
	}
	if reasoningParser != "" {
		if p.reasoning, err = findReasoning(reasoningParser); err != nil {
			return nil, err
		}
	}
	if mode != Strict && mode != Compat {
		return nil, fmt.Errorf("parse mode %d: it is Strict or Compat", mode)
	}
	return p, nil
}

// ReadTools reads the tool calls of a text in one format. cut says that the
// generation ended by length or abort.
func ReadTools(name string, mode Mode, text string, tools []chat.Tool, cut bool) (ToolResult, error) {
	f, err := findTool(name)
	if err != nil {
		return ToolResult{}, err
	}
	ts := newToolset(tools)
	if mode == Compat {
		return f.readCompat(text, ts, cut), nil
	}
	return f.readStrict(text, ts, cut).result(), nil
}

// ReadReasoning splits a text in one format as SGLang does. force says whether
// a thought is open at the text's start; nil is the format's default.
func ReadReasoning(name string, text string, force *bool) (reasoning, rest string, err error) {
	f, err := findReasoning(name)
	if err != nil {
		return "", "", err
	}
	reasoning, rest = f.split(text, force)
	return reasoning, rest, nil
}

// A toolFormat reads one syntax of tool calls in both modes.
type toolFormat struct {
	names []string
	// compat returns what SGLang's parser does.
	compat func(text string, ts *toolset) compatResult
	// marks is the markup that opens a call.
	marks []string
	// strict reads the whole text of the scanner.
	strict func(s *scanner)
}

// opens reports whether a call begins in the text.
func (f *toolFormat) opens(text string) bool { return containsAny(text, f.marks) }

// A compatResult is what one of SGLang's parsers returns.
type compatResult struct {
	found  bool // its has_tool_call
	text   string
	calls  []Call
	failed bool // an exception came out of it: the text is all there is
}

// readCompat wraps the format's parser as SGLang's FunctionCallParser does:
// without tools or calls the text is untouched. The flags are strict's.
func (f *toolFormat) readCompat(text string, ts *toolset, cut bool) ToolResult {
	if ts.empty() {
		return ToolResult{Text: text}
	}
	strict := f.readStrict(text, ts, cut)
	out := ToolResult{Text: text, Flags: strict.allFlags()}
	got := f.compat(text, ts)
	if got.failed {
		out.Flags = addFlag(out.Flags, ParserError)
	}
	if !got.found || got.failed || len(got.calls) == 0 {
		return out
	}
	out.Text = got.text
	out.Calls = strict.lend(got.calls)
	return out
}

func findTool(name string) (*toolFormat, error) {
	var known []string
	for _, f := range toolFormats() {
		if slices.Contains(f.names, name) {
			return &f, nil
		}
		known = append(known, f.names...)
	}
	slices.Sort(known)
	return nil, fmt.Errorf("tool-call parser %q is not known here: use one of %s, or let the server read it with Remote", name, strings.Join(known, ", "))
}

func findReasoning(name string) (*reasoningFormat, error) {
	var known []string
	for _, f := range reasoningFormats() {
		if f.name == strings.ToLower(name) {
			return &f, nil
		}
		known = append(known, f.name)
	}
	slices.Sort(known)
	return nil, fmt.Errorf("reasoning parser %q is not known here: use one of %s, or let the server read it with Remote", name, strings.Join(known, ", "))
}
