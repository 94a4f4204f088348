package parse

import (
	"encoding/json"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// A toolset is what the readers ask about the tools of a request. A schema is
// read when a call first asks for it. It serves one output and is not safe for
// concurrent use.
type toolset struct {
	tools  []tool
	byName map[string]int
}

// A tool is one tool with its schema.
type tool struct {
	name   string
	text   json.RawMessage
	read   bool
	schema value
	props  map[string]value // nil: the schema has no properties
}

func newToolset(tools []chat.Tool) *toolset {
	ts := &toolset{byName: map[string]int{}}
	for _, t := range tools {
		if _, ok := ts.byName[t.Name]; !ok {
			ts.byName[t.Name] = len(ts.tools)
		}
		ts.tools = append(ts.tools, tool{name: t.Name, text: t.Parameters})
	}
	return ts
}

func (ts *toolset) empty() bool { return len(ts.tools) == 0 }

// find returns the tool of that name, or nil.
func (ts *toolset) find(name string) *tool {
	i, ok := ts.byName[name]
	if !ok || name == "" {
		return nil
	}
	t := &ts.tools[i]
	t.parse()
	return t
}

// parse reads the schema. One that is no JSON says nothing.
func (t *tool) parse() {
	if t.read {
		return
	}
	t.read = true
	t.schema, _ = pyLoads(string(t.text))
	props, ok := t.schema.get("properties")
	if !ok || props.kind != kDict {
		return
	}
	t.props = map[string]value{}
	for i := 0; i+1 < len(props.list); i += 2 {
		t.props[props.list[i].s] = props.list[i+1]
	}
}
