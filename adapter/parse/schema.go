package parse

import (
	"math"
	"strings"
)

// types is a set of JSON types. The empty set says that nothing is known.
type types uint8

const (
	tString types = 1 << iota
	tInteger
	tNumber
	tBoolean
	tObject
	tArray
	tNull
)

// maxRefs bounds how deep references of a schema are followed.
const maxRefs = 8

// typesOf returns the types that a schema admits, the names of databases and
// languages included that SGLang reads. root is where a $ref points into.
func typesOf(schema, root value, depth int) types {
	if schema.kind != kDict || depth > maxRefs {
		return 0
	}
	if t, ok := schema.get("type"); ok {
		return declared(t)
	}
	if ref, ok := schema.get("$ref"); ok {
		return typesOf(resolve(ref, root), root, depth+1)
	}
	for _, word := range []string{"anyOf", "oneOf", "allOf"} {
		list, ok := schema.get(word)
		if !ok || list.kind != kList {
			continue
		}
		var out types
		for _, one := range list.list {
			t := typesOf(one, root, depth+1)
			if t == 0 && word != "allOf" {
				return 0
			}
			out |= t
		}
		return out
	}
	if list, ok := schema.get("enum"); ok && list.kind == kList {
		var out types
		for _, one := range list.list {
			out |= typeOfValue(one)
		}
		return out
	}
	if c, ok := schema.get("const"); ok {
		return typeOfValue(c)
	}
	if _, ok := schema.get("properties"); ok {
		return tObject
	}
	if _, ok := schema.get("items"); ok {
		return tArray
	}
	return 0
}

// resolve follows a reference within the same schema ("#/$defs/P").
func resolve(ref, root value) value {
	path, ok := strings.CutPrefix(ref.s, "#/")
	if !ok {
		return value{}
	}
	for _, step := range strings.Split(path, "/") {
		root, _ = root.get(strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
	}
	return root
}

func declared(t value) types {
	if t.kind == kList {
		var out types
		for _, one := range t.list {
			out |= declared(one)
		}
		return out
	}
	name := asciiLower(pyStrip(t.s))
	has := func(prefixes ...string) bool {
		for _, p := range prefixes {
			if strings.HasPrefix(name, p) {
				return true
			}
		}
		return false
	}
	switch {
	case name == "null":
		return tNull
	case name == "boolean" || name == "bool" || name == "binary":
		return tBoolean
	case name == "object" || has("dict"):
		return tObject
	case name == "array" || name == "arr" || has("list"):
		return tArray
	case has("int", "uint", "long", "short", "unsigned"):
		return tInteger
	case has("num", "float"):
		return tNumber
	case name == "string" || name == "str" || name == "text" || name == "varchar" || name == "char" || name == "enum":
		return tString
	}
	return 0
}

func typeOfValue(v value) types {
	switch v.kind {
	case kNone:
		return tNull
	case kBool:
		return tBoolean
	case kInt:
		return tInteger
	case kFloat:
		return tNumber
	case kStr:
		return tString
	case kList:
		return tArray
	}
	return tObject
}

// admits reports whether a JSON value, by its text, is of one of the types.
func (t types) admits(json string) bool {
	if t == 0 {
		return true
	}
	return t&typeOfJSON(json) != 0
}

func typeOfJSON(json string) types {
	switch json[0] {
	case '"':
		return tString
	case '{':
		return tObject
	case '[':
		return tArray
	case 't', 'f':
		return tBoolean
	case 'n':
		return tNull
	}
	if !strings.ContainsAny(json, ".eE") {
		return tInteger | tNumber
	}
	if f, ok := plainFloat(json); ok && f == math.Trunc(f) {
		return tInteger | tNumber
	}
	return tNumber
}

// check flags a call's name and its arguments against the tools. A value is
// checked where its member has JSON.
func (ts *toolset) check(name string, args []member) []Flag {
	t := ts.find(name)
	var flags []Flag
	if t == nil && !plainName(name) {
		flags = addFlag(flags, NameMalformed)
	}
	if t == nil {
		return addFlag(flags, UnknownTool)
	}
	given := map[string]bool{}
	for _, m := range args {
		given[m.key] = true
		if !plainName(m.key) && t.props[m.key].kind == kNone {
			flags = addFlag(flags, NameMalformed)
		}
		schema, ok := t.props[m.key]
		if !ok {
			if t.closed() {
				flags = addFlag(flags, UnknownParam)
			}
			continue
		}
		if m.json != "" && !typesOf(schema, t.schema, 0).admits(m.json) {
			flags = addFlag(flags, TypeMismatch)
		}
	}
	required, _ := t.schema.get("required")
	for _, r := range required.list {
		if !given[r.s] {
			flags = addFlag(flags, MissingRequired)
		}
	}
	return flags
}

// closed reports whether the tool has no other parameters than those that its
// schema names. One that names none, or says that there are more, is open.
func (t *tool) closed() bool {
	if t.props == nil {
		return false
	}
	if _, ok := t.schema.get("patternProperties"); ok {
		return false
	}
	more, ok := t.schema.get("additionalProperties")
	return !ok || more.kind == kBool && !more.b
}

// types returns the types of a parameter; 0 where the schema says nothing.
func (t *tool) types(param string) types {
	if t == nil {
		return 0
	}
	return typesOf(t.props[param], t.schema, 0)
}

// plainName reports whether a name could be a tool's or a parameter's: not
// empty, without blanks, quotes and markup.
func plainName(name string) bool {
	return name != "" && !strings.ContainsAny(name, " \t\r\n\"'`<>{}=|")
}
