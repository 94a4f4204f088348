package agentrl

import (
	"encoding/json"
	"slices"

	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/swe"
)

// commandSignals are the signals of the commands that the agent's models asked
// for: attempts to read the solution instead of finding it, each once.
func commandSignals(tree *trajectory.Tree) []string {
	if tree == nil {
		return nil
	}
	var signals []string
	for _, m := range tree.History().Messages {
		for _, call := range m.ToolCalls {
			for _, text := range texts(call.Arguments) {
				for _, s := range swe.CommandSignals(text) {
					if !slices.Contains(signals, s) {
						signals = append(signals, s)
					}
				}
			}
		}
	}
	return signals
}

// texts are the string values at the top of a call's arguments, lists of
// strings joined: a shell command is one of them, whatever the tool calls it.
func texts(args json.RawMessage) []string {
	var fields map[string]any
	if json.Unmarshal(args, &fields) != nil {
		return nil
	}
	var out []string
	for _, v := range fields {
		switch v := v.(type) {
		case string:
			out = append(out, v)
		case []any:
			words := ""
			for _, w := range v {
				if s, ok := w.(string); ok {
					words += s + " "
				}
			}
			out = append(out, words)
		}
	}
	return out
}
