package parse

import (
	"encoding/json"
	"strings"
)

// baseJSON is what SGLang's JSON formats share: an action, or a list of them,
// each with a name and parameters or arguments. Unknown names are dropped.
func baseJSON(action value, ts *toolset) ([]Call, error) {
	if action.kind != kList {
		action = value{kind: kList, list: []value{action}}
	}
	var calls []Call
	for _, act := range action.list {
		if act.kind != kDict {
			return nil, errType
		}
		name, _ := act.get("name")
		if !name.truthy() {
			continue
		}
		if !name.hashable() {
			return nil, errType
		}
		if name.kind != kStr || ts.find(name.s) == nil {
			continue
		}
		args, _ := act.get("parameters")
		if !args.truthy() {
			var ok bool
			if args, ok = act.get("arguments"); !ok {
				args = value{kind: kDict}
			}
		}
		text, err := pyDumps(args)
		if err != nil {
			return nil, err
		}
		calls = append(calls, Call{Name: name.s, Args: json.RawMessage(text)})
	}
	return calls, nil
}

// namedCall is baseJSON for one action that a parser put together itself.
func namedCall(name string, args value, ts *toolset) ([]Call, error) {
	if !args.truthy() {
		args = value{kind: kDict}
	}
	return baseJSON(value{kind: kDict, list: []value{strValue("name"), strValue(name), strValue("parameters"), args}}, ts)
}

// jsonCall reads a JSON value of the text as a call: a name, and its arguments
// under one of two keys. markers are the markup that no value may hold.
func (s *scanner) jsonCall(start int, v jsonValue, markers ...string) Call {
	c := Call{Flags: v.flags}
	body := s.text[start:v.end]
	if !v.ok || body == "" || body[0] != '{' {
		c.Flags = addFlag(c.Flags, InvalidJSONArgs)
		return c
	}
	if containsAny(body, markers) {
		c.Flags = addFlag(c.Flags, MarkerInValue)
	}
	args := ""
	for _, m := range v.members {
		text := s.text[m.start:m.end]
		switch m.key {
		case "name":
			if text[0] == '"' {
				c.Name, _, _ = pyString(text, 1)
			}
		case "arguments", "parameters":
			if args != "" {
				c.Flags = addFlag(c.Flags, DuplicateParam)
			}
			args = text
		}
	}
	return s.withArgs(c, args)
}

// withArgs puts the text of a call's arguments into it and checks them.
func (s *scanner) withArgs(c Call, args string) Call {
	v := scanJSON(args, 0)
	c.Flags = addFlag(c.Flags, v.flags...)
	switch {
	case args == "":
		c.Flags = addFlag(c.Flags, ArgsNotObject)
		args = "{}"
	case !v.ok || v.end != len(args):
		c.Flags = addFlag(c.Flags, InvalidJSONArgs)
	case args[0] != '{':
		c.Flags = addFlag(c.Flags, ArgsNotObject)
	}
	c.Args = json.RawMessage(args)
	members := make([]member, 0, len(v.members))
	for _, m := range v.members {
		if m.end >= 0 {
			members = append(members, member{m.key, args[m.start:m.end]})
		}
	}
	c.Flags = addFlag(c.Flags, s.ts.check(c.Name, members)...)
	return c
}

func containsAny(text string, markers []string) bool {
	for _, m := range markers {
		if strings.Contains(text, m) {
			return true
		}
	}
	return false
}

// broken is a call of which nothing can be read but its place.
func broken(flags ...Flag) Call { return Call{Flags: flags} }
