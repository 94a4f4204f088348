package jinja

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

type strFunc = func(s string, a []Value) Value

// strMethod returns the parameters and the code of a method of str; nil when
// Python has none of that name.
func strMethod(name string) ([]string, strFunc) {
	if f := strPredicate(name); f != nil {
		return nil, func(s string, _ []Value) Value { return Bool(f(s)) }
	}
	if f := strMap(name); f != nil {
		return nil, func(s string, _ []Value) Value { return String(f(s)) }
	}
	switch name {
	case "strip", "lstrip", "rstrip":
		return []string{"1?"}, func(s string, a []Value) Value { return String(strip(s, a[0], name)) }
	case "split", "rsplit":
		return []string{"sep?", "maxsplit?"}, func(s string, a []Value) Value { return splitMethod(s, a, name == "rsplit") }
	case "splitlines":
		return []string{"keepends?"}, func(s string, a []Value) Value {
			return stringList(splitLines(s, a[0] != nil && truth(a[0])))
		}
	case "startswith", "endswith":
		return []string{"1", "2?", "3?"}, func(s string, a []Value) Value { return hasAffix(s, a, name == "startswith") }
	case "replace":
		return []string{"1", "2", "3?"}, func(s string, a []Value) Value {
			return String(replace(s, textArg(a[0], name), textArg(a[1], name), intArg(or(a[2], Int(-1)), "count")))
		}
	case "find", "rfind", "index", "rindex", "count":
		return []string{"1", "2?", "3?"}, func(s string, a []Value) Value { return findMethod(name, s, a) }
	case "join":
		return []string{"1"}, joinMethod
	case "zfill":
		return []string{"1"}, func(s string, a []Value) Value { return String(zfill(s, intArg(a[0], name))) }
	case "ljust", "rjust", "center":
		return []string{"1", "2?"}, func(s string, a []Value) Value { return String(pad(s, a, name)) }
	case "partition", "rpartition":
		return []string{"1"}, func(s string, a []Value) Value { return partition(s, textArg(a[0], name), name == "rpartition") }
	case "removeprefix":
		return []string{"1"}, func(s string, a []Value) Value { return String(strings.TrimPrefix(s, textArg(a[0], name))) }
	case "removesuffix":
		return []string{"1"}, func(s string, a []Value) Value { return String(strings.TrimSuffix(s, textArg(a[0], name))) }
	case "encode", "expandtabs", "format_map", "isidentifier", "maketrans", "translate":
		fail("the method %s of a str is not supported", name)
	}
	return nil, nil
}

func strPredicate(name string) func(s string) bool {
	switch name {
	case "isdigit":
		return allRunes(func(r rune) bool { return unicode.IsDigit(r) || isDigitLike(r) })
	case "isdecimal":
		return allRunes(unicode.IsDigit)
	case "isnumeric":
		return allRunes(unicode.IsNumber)
	case "isalpha":
		return allRunes(unicode.IsLetter)
	case "isalnum":
		return allRunes(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
	case "isspace":
		return allRunes(isSpace)
	case "isprintable":
		return func(s string) bool { return s == "" || allRunes(unicode.IsPrint)(s) }
	case "isascii":
		return isASCII
	case "isupper":
		return func(s string) bool { return cased(s, true) }
	case "islower":
		return func(s string) bool { return cased(s, false) }
	case "istitle":
		return func(s string) bool { return s != "" && s == title(s) && upper(s) != lower(s) }
	}
	return nil
}

// isDigitLike reports the characters that are digits without being decimal:
// superscripts, circled digits and the like.
func isDigitLike(r rune) bool {
	switch {
	case r == 0xb2 || r == 0xb3 || r == 0xb9 || r == 0x2070:
		return true
	case r >= 0x2074 && r <= 0x2079, r >= 0x2080 && r <= 0x2089, r >= 0x2460 && r <= 0x2468:
		return true
	}
	return r >= 0x2474 && unicode.IsNumber(r) && !unicode.IsDigit(r) && notSure(r)
}

func notSure(r rune) bool {
	fail("whether %q is a digit is not known", r)
	return false
}

func allRunes(f func(r rune) bool) func(s string) bool {
	return func(s string) bool {
		for _, r := range s {
			if !f(r) {
				return false
			}
		}
		return s != ""
	}
}

func strMap(name string) func(s string) string {
	switch name {
	case "upper":
		return upper
	case "lower":
		return lower
	case "title":
		return title
	case "capitalize":
		return capitalize
	case "swapcase":
		return swapcase
	case "casefold":
		return func(s string) string {
			if !isASCII(s) {
				fail("casefold of text beyond ASCII is not supported")
			}
			return strings.ToLower(s)
		}
	}
	return nil
}

// textArg reads an argument that must be a str.
func textArg(v Value, method string) string {
	failUndefined(v)
	s, ok := text(v)
	if !ok {
		fail("%s: expected str, not %s", method, typeName(v))
	}
	return s
}

func strip(s string, chars Value, name string) string {
	cut := isSpace
	if chars != nil && chars != None {
		set := textArg(chars, name)
		cut = func(r rune) bool { return strings.ContainsRune(set, r) }
	}
	if name != "rstrip" {
		s = strings.TrimLeftFunc(s, cut)
	}
	if name != "lstrip" {
		s = strings.TrimRightFunc(s, cut)
	}
	return s
}

func stringList(parts []string) *List {
	l := &List{Items: make([]Value, len(parts))}
	for i, p := range parts {
		l.Items[i] = String(p)
	}
	return l
}

func splitMethod(s string, a []Value, right bool) Value {
	limit := intArg(or(a[1], Int(-1)), "maxsplit")
	if a[0] == nil || a[0] == None {
		return stringList(splitSpace(s, limit, right))
	}
	sep := textArg(a[0], "split")
	if sep == "" {
		fail("empty separator")
	}
	if !right || limit < 0 {
		if limit >= 0 {
			limit++
		}
		return stringList(strings.SplitN(s, sep, limit))
	}
	var parts []string
	for ; limit > 0; limit-- {
		i := strings.LastIndex(s, sep)
		if i < 0 {
			break
		}
		parts = append(parts, s[i+len(sep):])
		s = s[:i]
	}
	parts = append(parts, s)
	for i, j := 0, len(parts)-1; i < j; i, j = i+1, j-1 {
		parts[i], parts[j] = parts[j], parts[i]
	}
	return stringList(parts)
}

// splitSpace splits at runs of whitespace, at most limit times if it is not negative.
func splitSpace(s string, limit int, right bool) []string {
	words := strings.FieldsFunc(s, isSpace)
	if limit < 0 || len(words) <= limit {
		return words
	}
	if right {
		return splitSpaceRight(s, limit)
	}
	var out []string
	s = strings.TrimLeftFunc(s, isSpace)
	for ; limit > 0 && s != ""; limit-- {
		i := strings.IndexFunc(s, isSpace)
		if i < 0 {
			break
		}
		out = append(out, s[:i])
		s = strings.TrimLeftFunc(s[i:], isSpace)
	}
	if s != "" {
		out = append(out, s)
	}
	return out
}

func splitSpaceRight(s string, limit int) []string {
	var out []string
	s = strings.TrimRightFunc(s, isSpace)
	for ; limit > 0 && s != ""; limit-- {
		i := strings.LastIndexFunc(s, isSpace)
		if i < 0 {
			break
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		out = append([]string{s[i+n:]}, out...)
		s = strings.TrimRightFunc(s[:i], isSpace)
	}
	if s != "" {
		out = append([]string{s}, out...)
	}
	return out
}

// splitLines is Python's str.splitlines.
func splitLines(s string, keep bool) []string {
	var out []string
	for s != "" {
		i := strings.IndexFunc(s, isLineEnd)
		if i < 0 {
			return append(out, s)
		}
		_, n := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			n = 2
		}
		end := i
		if keep {
			end = i + n
		}
		out = append(out, s[:end])
		s = s[i+n:]
	}
	return out
}

func isLineEnd(r rune) bool {
	return r >= '\n' && r <= '\r' || r >= 0x1c && r <= 0x1e || r == 0x85 || r == 0x2028 || r == 0x2029
}

// window is s[start:end], with the number of characters before it; ok is false
// when it begins behind the end of s.
func window(s string, start, end Value) (part string, before int, ok bool) {
	if (start == nil || start == None) && (end == nil || end == None) {
		return s, 0, true
	}
	n := runeCount(s)
	low, high, _ := sliceBounds(n, or(start, None), or(end, None), None)
	if i, isInt := asInt(or(start, None)); isInt && i > int64(n) || low > high {
		return "", low, false
	}
	return runeSlice(s, low, high), low, true
}

func hasAffix(s string, a []Value, prefix bool) Value {
	part, _, inside := window(s, a[1], a[2])
	affixes := []Value{a[0]}
	if t, ok := a[0].(*tuple); ok {
		affixes = t.items
	}
	found := false
	for _, v := range affixes {
		affix := textArg(v, "startswith")
		if prefix {
			found = found || strings.HasPrefix(part, affix)
		} else {
			found = found || strings.HasSuffix(part, affix)
		}
	}
	return Bool(found && inside)
}

func replace(s, old, with string, count int) string { return strings.Replace(s, old, with, count) }

func findMethod(name, s string, a []Value) Value {
	sub := textArg(a[0], name)
	part, before, inside := window(s, a[1], a[2])
	if name == "count" {
		if !inside {
			return Int(0)
		}
		return Int(strings.Count(part, sub))
	}
	i := -1
	if inside && name[0] == 'r' {
		i = strings.LastIndex(part, sub)
	} else if inside {
		i = strings.Index(part, sub)
	}
	if i >= 0 {
		return Int(before + runeCount(part[:i]))
	}
	if strings.HasSuffix(name, "index") {
		fail("substring not found")
	}
	return Int(-1)
}

func joinMethod(s string, a []Value) Value {
	var b strings.Builder
	for i, v := range items(a[0]) {
		if i > 0 {
			b.WriteString(s)
		}
		if _, ok := v.(markup); ok {
			fail("joining Markup is not supported")
		}
		part, ok := text(v)
		if !ok {
			fail("sequence item %d: expected str instance, %s found", i, typeName(v))
		}
		b.WriteString(part)
	}
	return String(b.String())
}

func partition(s, sep string, right bool) Value {
	if sep == "" {
		fail("empty separator")
	}
	i := strings.Index(s, sep)
	if right {
		i = strings.LastIndex(s, sep)
	}
	switch {
	case i >= 0:
		return &tuple{[]Value{String(s[:i]), String(sep), String(s[i+len(sep):])}}
	case right:
		return &tuple{[]Value{String(""), String(""), String(s)}}
	}
	return &tuple{[]Value{String(s), String(""), String("")}}
}
