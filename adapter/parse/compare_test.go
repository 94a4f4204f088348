package parse

import (
	"fmt"
	"slices"
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
