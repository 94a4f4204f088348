package parse

import (
	"fmt"
	"slices"
	"testing"
)

// compatDiff says how a compat result differs from SGLang's; "" is not at all.
func compatDiff(c toolCase, got ToolResult) string {
	if got.Text != c.NormalText {
		return fmt.Sprintf("text %q, SGLang %q", got.Text, c.NormalText)
	}
	if slices.Contains(got.Flags, ParserError) != (c.Error != nil) {
		return fmt.Sprintf("flags %q, SGLang's error %v", got.Flags, c.Error)
	}
	if len(got.Calls) != len(c.Calls) {
		return fmt.Sprintf("%d calls, SGLang %d: %v", len(got.Calls), len(c.Calls), c.Calls)
	}
	for i, call := range got.Calls {
		if call.Name != c.Calls[i].Name || string(call.Args) != c.Calls[i].Arguments {
			return fmt.Sprintf("call %s(%s), SGLang %s(%s)", call.Name, call.Args, c.Calls[i].Name, c.Calls[i].Arguments)
		}
	}
	return ""
}

// sameJSON compares two JSON texts by value; numbers as floats, or by their
// digits where they have no fraction.
func sameJSON(a, b string) bool {
	x, errX := pyLoads(a)
	y, errY := pyLoads(b)
	return errX == nil && errY == nil && sameValue(x, y)
}

func sameValue(a, b value) bool {
	if a.kind == kFloat || b.kind == kFloat {
		return (a.kind == kFloat || a.kind == kInt) && (b.kind == kFloat || b.kind == kInt) && a.float() == b.float()
	}
	if a.kind != b.kind || a.s != b.s || a.b != b.b || len(a.list) != len(b.list) {
		return false
	}
	for i := range a.list {
		if !sameValue(a.list[i], b.list[i]) {
			return false
		}
	}
	return true
}

// checkSpans fails unless the spans tile the text.
func checkSpans(t testing.TB, text string, spans []Span) {
	t.Helper()
	pos := 0
	for _, sp := range spans {
		if sp.Start != pos || sp.End <= sp.Start {
			t.Fatalf("spans %v of %q: a gap or an overlap at %d", spans, text, pos)
		}
		pos = sp.End
	}
	if pos != len(text) {
		t.Fatalf("spans %v of %q end at %d of %d", spans, text, pos, len(text))
	}
}
