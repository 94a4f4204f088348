package parse

import "strings"

// A spelling is how a format's template writes values that are no strings.
type spelling struct {
	pythonBool bool // True and False, in any case
	boolWords  bool // yes, no, on, off, 1, 0
	untyped    bool // a parameter without a type is JSON if it can be
}

// typed turns the text of a value in markup into JSON, by the types that its
// schema admits. A string is the text, byte for byte; null is null for any
// other type; numbers keep their spelling where JSON has it.
func (sp spelling) typed(text string, t types) (json string, flags []Flag) {
	if t == 0 && sp.untyped {
		if v, ok := wholeJSON(text); ok {
			return strings.Trim(text, " \t\r\n"), v.flags
		}
	}
	if t == 0 || t == tString {
		return quote(text), nil
	}
	if text == "null" {
		return text, nil
	}
	if t&tString != 0 {
		return quote(text), nil
	}
	if t&(tInteger|tNumber) != 0 {
		if json, flags, ok := readNumber(strings.Trim(text, " \t\r\n"), t); ok {
			return json, flags
		}
	}
	if t&tBoolean != 0 {
		if word := sp.boolean(text); word != "" {
			if word != text {
				flags = []Flag{Coerced}
			}
			return word, flags
		}
	}
	if t&(tObject|tArray) != 0 {
		if v, ok := wholeJSON(text); ok {
			json = strings.Trim(text, " \t\r\n")
			if t.admits(json) {
				return json, v.flags
			}
		}
	}
	return quote(text), []Flag{TypeMismatch}
}

// boolean returns true or false, or "" for another text.
func (sp spelling) boolean(text string) string {
	switch {
	case text == "true" || text == "false":
		return text
	case sp.pythonBool || sp.boolWords:
		text = asciiLower(text)
	default:
		return ""
	}
	switch {
	case text == "true" || text == "false":
		return text
	case !sp.boolWords:
		return ""
	}
	switch text {
	case "1", "yes", "on":
		return "true"
	case "0", "no", "off":
		return "false"
	}
	return ""
}

// wholeJSON reads a text that is one JSON value.
func wholeJSON(text string) (jsonValue, bool) {
	v := scanJSON(text, skipBlank(text, 0))
	return v, v.ok && skipBlank(text, v.end) == len(text)
}

// readNumber reads an integer, with any sign and leading zeros, or a JSON
// number.
func readNumber(text string, t types) (json string, flags []Flag, ok bool) {
	digits := strings.TrimPrefix(strings.TrimPrefix(text, "+"), "-")
	if len(text)-len(digits) < 2 && digits != "" && digitRun(digits, 0) == len(digits) {
		plain := intValue(digits, text[0] == '-').s
		if plain == "0" && text == "-0" {
			plain = text
		}
		if plain != text {
			flags = []Flag{Coerced}
		}
		return plain, flags, true
	}
	v, whole := wholeJSON(text)
	if t&tNumber == 0 || !whole || typeOfJSON(text)&tNumber == 0 {
		return "", nil, false
	}
	return text, v.flags, true
}

func quote(s string) string { return string(appendQuoted(nil, s)) }

// keysOf returns the members without their values: markup's values were
// checked as they were read.
func keysOf(args []member) []member {
	out := make([]member, len(args))
	for i, m := range args {
		out[i].key = m.key
	}
	return out
}
