package parse

import "slices"

// A Flag names something about a call or a result that a trainer should know.
type Flag string

// Hard flags: the output breaks its format or a tool's schema. In Strict mode
// a call with one is withheld, unless UnknownTool is its only one.
const (
	UnclosedCall     Flag = "unclosed_call"      // the call's own closing markup is missing
	Truncated        Flag = "truncated"          // open when the generation was cut
	UnclosedParam    Flag = "unclosed_param"     // a parameter without its closing markup
	DuplicateParam   Flag = "duplicate_param"    // a parameter given twice
	DuplicateJSONKey Flag = "duplicate_json_key" // an object's key given twice
	InvalidJSONArgs  Flag = "invalid_json_args"  // arguments, or the call around them, that are no JSON
	ArgsNotObject    Flag = "args_not_object"    // arguments that are missing, or another JSON value
	NonFiniteNumber  Flag = "non_finite_number"  // NaN, Infinity, or a number too large for a float
	TypeMismatch     Flag = "type_mismatch"      // a value of another type than the schema's
	UnknownParam     Flag = "unknown_param"      // a parameter that the schema doesn't have
	MissingRequired  Flag = "missing_required"   // a required parameter that is not given
	UnknownTool      Flag = "unknown_tool"       // no tool has this name
	NameMalformed    Flag = "name_malformed"     // an empty name, or one with blanks, quotes or markup
	MarkerInValue    Flag = "marker_in_value"    // the format's own markup in a value: where it ends is a guess
	ForeignFormat    Flag = "foreign_format"     // a call in another format's syntax
	CallInOpenThink  Flag = "call_in_open_think" // a call in a thought that never closed; it is not run
	ThinkUnclosed    Flag = "think_unclosed"     // a thought that never closed
	StrayTextInCall  Flag = "stray_text_in_call" // something between a call's markup that is not part of it
	ParserError      Flag = "parser_error"       // compat: an exception came out of SGLang's parser
)

// Informational flags: nothing is broken.
const (
	TextAfterCall  Flag = "text_after_call"
	Coerced        Flag = "coerced"         // a value written in another spelling than JSON's: True, +5
	IDNoncanonical Flag = "id_noncanonical" // a call id that names its tool in another way than the template
	PythonLiteral  Flag = "python_literal"  // compat: a Python literal that was read as JSON
)

// Hard reports whether the flag says that something is broken.
func (f Flag) Hard() bool {
	switch f {
	case TextAfterCall, Coerced, IDNoncanonical, PythonLiteral:
		return false
	}
	return true
}

// addFlag appends the flags that are not there yet.
func addFlag(flags []Flag, more ...Flag) []Flag {
	for _, f := range more {
		if !slices.Contains(flags, f) {
			flags = append(flags, f)
		}
	}
	return flags
}

// withholds reports whether strict mode keeps a call with these flags from
// being run. One for an unknown tool is forwarded: the client answers that
// there is no such tool, while a dropped call would end the run.
func withholds(flags []Flag) bool {
	return slices.ContainsFunc(flags, func(f Flag) bool { return f.Hard() && f != UnknownTool })
}
