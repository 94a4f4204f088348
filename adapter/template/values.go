package template

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/internal/jinja"
)

// vars builds the variables of a rendering.
func (t *Template) vars(messages []chat.Message, firstCall int, tools []chat.Tool, o RenderOptions) (*jinja.Dict, error) {
	vars := jinja.NewDict(16)
	for name, token := range t.set.Tokens {
		vars.Set(name, jinja.String(token))
	}
	if err := setKwargs(vars, o.Kwargs); err != nil {
		return nil, err
	}
	list, err := messageValues(messages, firstCall, t.ids)
	if err != nil {
		return nil, err
	}
	toolList, err := toolValues(tools)
	if err != nil {
		return nil, err
	}
	vars.Set("messages", list)
	vars.Set("tools", toolList)
	vars.Set("add_generation_prompt", jinja.Bool(!o.NoGenerationPrompt))
	if _, ok := vars.Get("documents"); !ok {
		vars.Set("documents", jinja.None)
	}
	return vars, nil
}

// CheckKwargs refuses what RenderOptions.Kwargs may not be: anything but a JSON
// object, and one that names what a conversation brings.
func CheckKwargs(kwargs json.RawMessage) error { return setKwargs(jinja.NewDict(0), kwargs) }

func setKwargs(vars *jinja.Dict, kwargs json.RawMessage) error {
	if len(kwargs) == 0 {
		return nil
	}
	v, err := jinja.ParseJSON(kwargs)
	if err != nil {
		return fmt.Errorf("template kwargs: %w", err)
	}
	dict, ok := v.(*jinja.Dict)
	if !ok {
		return fmt.Errorf("template kwargs must be a JSON object, not %s", kwargs)
	}
	for i := range dict.Len() {
		name, value, _ := dict.At(i)
		switch name {
		case "messages", "tools", "add_generation_prompt":
			return fmt.Errorf("template kwargs may not set %s", name)
		}
		vars.Set(name, value)
	}
	return nil
}

// messageValues makes the template's view of messages: role, content,
// reasoning_content where there is thinking, tool_calls, and ids where the
// template reads them.
func messageValues(messages []chat.Message, firstCall int, ids idStyle) (*jinja.List, error) {
	list := &jinja.List{Items: make([]jinja.Value, 0, len(messages))}
	next := firstCall
	var pending []string // ids of the calls whose results are still to come
	for i, m := range messages {
		d := jinja.NewDict(4)
		d.Set("role", jinja.String(m.Role))
		d.Set("content", jinja.String(m.Content))
		if m.Reasoning != "" {
			d.Set("reasoning_content", jinja.String(m.Reasoning))
		}
		switch {
		case len(m.ToolCalls) > 0:
			calls, made, err := callValues(m.ToolCalls, next, ids)
			if err != nil {
				return nil, fmt.Errorf("message %d: %w", i, err)
			}
			d.Set("tool_calls", calls)
			next += len(m.ToolCalls)
			pending = made
		case m.Role == chat.ToolRole && len(pending) > 0:
			d.Set("tool_call_id", jinja.String(pending[0]))
			pending = pending[1:]
		}
		list.Items = append(list.Items, d)
	}
	return list, nil
}

func callValues(calls []chat.ToolCall, first int, ids idStyle) (*jinja.List, []string, error) {
	list := &jinja.List{Items: make([]jinja.Value, 0, len(calls))}
	var made []string
	for i, call := range calls {
		args, err := arguments(call.Arguments)
		if err != nil {
			return nil, nil, fmt.Errorf("arguments of the call to %s: %w", call.Name, err)
		}
		fn := jinja.NewDict(2)
		fn.Set("name", jinja.String(call.Name))
		fn.Set("arguments", args)
		d := jinja.NewDict(3)
		if ids != noIDs {
			id := ids.make(call.Name, first+i)
			made = append(made, id)
			d.Set("id", jinja.String(id))
		}
		d.Set("type", jinja.String("function"))
		d.Set("function", fn)
		list.Items = append(list.Items, d)
	}
	return list, made, nil
}

// arguments parses a call's arguments; none at all is an empty object.
func arguments(raw json.RawMessage) (jinja.Value, error) {
	if len(raw) == 0 {
		return jinja.NewDict(0), nil
	}
	v, err := jinja.ParseJSON(raw)
	if err != nil {
		return nil, err
	}
	if _, ok := v.(*jinja.Dict); !ok {
		return nil, fmt.Errorf("must be a JSON object, not %.40s", raw)
	}
	return v, nil
}

func toolValues(tools []chat.Tool) (jinja.Value, error) {
	if len(tools) == 0 {
		return jinja.None, nil
	}
	list := &jinja.List{Items: make([]jinja.Value, 0, len(tools))}
	for _, tool := range tools {
		params, err := parameters(tool.Parameters)
		if err != nil {
			return nil, fmt.Errorf("parameters of the tool %s: %w", tool.Name, err)
		}
		fn := jinja.NewDict(3)
		fn.Set("name", jinja.String(tool.Name))
		fn.Set("description", jinja.String(tool.Description))
		fn.Set("parameters", params)
		d := jinja.NewDict(2)
		d.Set("type", jinja.String("function"))
		d.Set("function", fn)
		list.Items = append(list.Items, d)
	}
	return list, nil
}

func parameters(raw json.RawMessage) (jinja.Value, error) {
	if s := strings.TrimSpace(string(raw)); s == "" || s == "null" {
		d := jinja.NewDict(2)
		d.Set("type", jinja.String("object"))
		d.Set("properties", jinja.NewDict(0))
		return d, nil
	}
	v, err := jinja.ParseJSON(raw)
	if err != nil {
		return nil, err
	}
	if _, ok := v.(*jinja.Dict); !ok {
		return nil, fmt.Errorf("must be a JSON object, not %.40s", raw)
	}
	return v, nil
}
