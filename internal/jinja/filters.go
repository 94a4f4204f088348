package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

// filterFunc takes the value and the arguments, in the order of the filter's parameters.
type filterImpl = func(st *state, a []Value) Value

// findFilter returns a filter by its name, or nil.
func findFilter(name string) *callable {
	if f := sequenceFilter(name); f != nil {
		return f
	}
	params, call := textFilter(name)
	if call == nil {
		return nil
	}
	return &callable{name: name, params: strings.Fields(params), call: call}
}

// isForeignFilter reports whether Jinja2 has a filter that this package lacks.
func isForeignFilter(name string) bool {
	switch name {
	case "filesizeformat", "groupby", "pprint", "random", "striptags", "truncate", "urlencode", "urlize", "wordwrap", "xmlattr", "attr":
		return true
	}
	return false
}

// textFilter returns the parameters and the code of a filter that makes no use
// of sequences.
func textFilter(name string) (params string, call filterImpl) {
	switch name {
	case "tojson":
		return "value ensure_ascii? indent? separators? sort_keys?", toJSON
	case "default", "d":
		return "value default_value? boolean?", defaultFilter
	case "string":
		return "value", func(_ *state, a []Value) Value { return soft(a[0]) }
	case "trim":
		return "value chars?", func(st *state, a []Value) Value { return callMethod(st, soft(a[0]), "strip", a[1]) }
	case "lower", "upper", "title", "capitalize":
		if name == "title" {
			return "s", func(_ *state, a []Value) Value { return String(titleFilter(str(a[0]))) }
		}
		return "s", func(st *state, a []Value) Value { return callMethod(st, soft(a[0]), name) }
	case "center":
		return "value width?", func(st *state, a []Value) Value {
			return callMethod(st, soft(a[0]), "center", or(a[1], Int(80)))
		}
	case "replace":
		return "s old new count?", replaceFilter
	case "indent":
		return "s width? first? blank?", indentFilter
	case "safe":
		return "value", func(_ *state, a []Value) Value { return markup(str(a[0])) }
	case "escape", "e", "forceescape":
		return "value", func(_ *state, a []Value) Value {
			if m, ok := a[0].(markup); ok && name != "forceescape" {
				return m
			}
			return markup(escapeHTML(str(a[0])))
		}
	case "abs":
		return "x", absFilter
	case "int":
		return "value default? base?", intFilter
	case "float":
		return "value default?", floatFilter
	case "round":
		return "value precision? method?", roundFilter
	case "wordcount":
		return "s", func(_ *state, a []Value) Value { return Int(len(wordsOf(str(a[0])))) }
	}
	return "", nil
}

// or returns v, or the default when it was not given.
func or(v, otherwise Value) Value {
	if v == nil {
		return otherwise
	}
	return v
}

// soft is v as a str; a Markup stays one.
func soft(v Value) Value {
	if isText(v) {
		return v
	}
	return String(str(v))
}

func defaultFilter(_ *state, a []Value) Value {
	if isUndefined(a[0]) || a[2] != nil && truth(a[2]) && !truth(a[0]) {
		return or(a[1], String(""))
	}
	return a[0]
}

func replaceFilter(_ *state, a []Value) Value {
	count := -1
	if a[3] != nil && a[3] != None {
		count = intArg(a[3], "count")
	}
	return String(replace(str(a[0]), str(a[1]), str(a[2]), count))
}

// intArg reads an argument that must be an integer.
func intArg(v Value, name string) int {
	failUndefined(v)
	i, ok := asInt(v)
	if !ok {
		fail("%s: '%s' object cannot be interpreted as an integer", name, typeName(v))
	}
	return int(max(-maxIndex, min(maxIndex, i)))
}

func indentFilter(_ *state, a []Value) Value {
	prefix := ""
	if s, ok := text(or(a[1], Int(4))); ok {
		prefix = s
	} else {
		prefix = strings.Repeat(" ", min(max(intArg(or(a[1], Int(4)), "width"), 0), maxRange))
	}
	first, blank := a[2] != nil && truth(a[2]), a[3] != nil && truth(a[3])
	s, ok := text(a[0])
	if !ok {
		failUndefined(a[0])
		fail("indent needs a string, not %s", typeName(a[0]))
	}
	lines := splitLines(s+"\n", false)
	for i, line := range lines {
		if i == 0 && !first || i > 0 && line == "" && !blank {
			continue
		}
		lines[i] = prefix + line
	}
	joined := strings.Join(lines, "\n")
	if _, ok := a[0].(markup); ok {
		return markup(joined)
	}
	return String(joined)
}

func absFilter(_ *state, a []Value) Value {
	failUndefined(a[0])
	if f, ok := a[0].(Float); ok {
		return Float(math.Abs(float64(f)))
	}
	i, ok := asBig(a[0])
	if !ok {
		fail("bad operand type for abs(): '%s'", typeName(a[0]))
	}
	return normInt(new(big.Int).Abs(i))
}

func intFilter(_ *state, a []Value) Value {
	failUndefined(a[0])
	if s, ok := text(a[0]); ok {
		if v := parseInt(s, intArg(or(a[2], Int(10)), "base")); v != nil {
			return v
		}
		f, ok := parseFloat(s)
		if !ok || math.IsInf(f, 0) || math.IsNaN(f) {
			return or(a[1], Int(0))
		}
		return truncate(f)
	}
	switch v := a[0].(type) {
	case Float:
		if math.IsInf(float64(v), 0) || math.IsNaN(float64(v)) {
			return or(a[1], Int(0))
		}
		return truncate(float64(v))
	case Bool, Int, *BigInt:
		i, _ := asBig(v)
		return normInt(new(big.Int).Set(i))
	}
	return or(a[1], Int(0))
}

func truncate(f float64) Value {
	i, _ := big.NewFloat(f).Int(nil)
	return normInt(i)
}

// parseInt is Python's int(s, base); nil when s is none.
func parseInt(s string, base int) Value {
	s = strings.TrimFunc(s, isSpace)
	refuseDigits(s)
	if base != 10 && base != 0 && (base < 2 || base > 36) {
		return nil
	}
	digits := strings.TrimLeft(s, "+-")
	if len(s)-len(digits) > 1 || digits == "" || strings.HasPrefix(digits, "_") || strings.HasSuffix(digits, "_") ||
		strings.Contains(digits, "__") {
		return nil
	}
	if base == 0 && len(strings.Trim(digits, "0_")) > 0 && digits[0] == '0' && isDigit(digits[min(1, len(digits)-1)]) {
		return nil
	}
	if prefix := map[int]string{2: "0b", 8: "0o", 16: "0x"}[base]; prefix != "" {
		digits = strings.TrimPrefix(strings.ToLower(digits), prefix)
	}
	if base != 0 {
		digits = strings.ReplaceAll(digits, "_", "")
	}
	if len(digits) > maxIntDigits || !isASCII(digits) {
		return nil
	}
	i, ok := new(big.Int).SetString(digits, base)
	if !ok {
		return nil
	}
	if s[0] == '-' {
		i.Neg(i)
	}
	return normInt(i)
}

func floatFilter(_ *state, a []Value) Value {
	failUndefined(a[0])
	if s, ok := text(a[0]); ok {
		if f, ok := parseFloat(s); ok {
			return Float(f)
		}
	} else if isNumber(a[0]) {
		return Float(asFloat(a[0]))
	}
	return or(a[1], Float(0))
}

// refuseDigits fails for digits of other scripts, which Python would read.
func refuseDigits(s string) {
	if !isASCII(s) && strings.IndexFunc(s, func(r rune) bool { return r > 0x7f && unicode.IsDigit(r) }) >= 0 {
		fail("a number with digits beyond ASCII is not supported: %q", s)
	}
}

// parseFloat is Python's float(s).
func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	refuseDigits(s)
	if strings.ContainsAny(s, "xXpP") || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return 0, false
	}
	for i := range len(s) {
		if s[i] == '_' && !(isDigit(s[i-1]) && isDigit(s[i+1])) {
			return 0, false
		}
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

func roundFilter(_ *state, a []Value) Value {
	failUndefined(a[0])
	precision := intArg(or(a[1], Int(0)), "precision")
	method := str(or(a[2], String("common")))
	if !isNumber(a[0]) || precision > 300 || precision < -300 {
		fail("round: can't round a %s to %d digits", typeName(a[0]), precision)
	}
	f, isFloat := a[0].(Float)
	switch method {
	case "common":
		if !isFloat {
			if precision < 0 {
				fail("rounding an int to %d digits is not supported", precision)
			}
			i, _ := asBig(a[0])
			return normInt(new(big.Int).Set(i))
		}
		if precision < 0 {
			scale := math.Pow(10, float64(-precision))
			return Float(math.RoundToEven(float64(f)/scale) * scale)
		}
		r, _ := strconv.ParseFloat(strconv.FormatFloat(float64(f), 'f', precision, 64), 64)
		return Float(r)
	case "ceil", "floor":
		scale := math.Pow(10, float64(precision))
		x := asFloat(a[0]) * scale
		if method == "ceil" {
			return Float(math.Ceil(x) / scale)
		}
		return Float(math.Floor(x) / scale)
	}
	fail("round: method must be common, ceil or floor")
	return nil
}
