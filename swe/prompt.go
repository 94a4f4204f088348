package swe

import (
	"encoding/json"
	"strings"
)

// TaskPrompt is the built-in instruction for an agent. The problem itself is in
// ProblemFile, in the directory that the agent starts in.
const TaskPrompt = "The file " + ProblemFile + " in the current directory describes an issue in this repository. " +
	"Read it, then resolve the issue by changing the repository's source code. Do not change tests. " +
	"When you are done, run the tests that cover what you changed and make sure that they pass. " +
	"Leave " + ProblemFile + " as it is and commit nothing. " +
	"End with a single line that sums up your change."

// ProblemFile is where Prepare leaves the problem statement, below the work
// directory. It is never part of a patch.
const ProblemFile = "PROBLEM_STATEMENT.md"

// PromptText is the text of a sample's prompt: a string as it is; of a list of
// chat messages the content of the first user message; "" for anything else.
func PromptText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &messages) != nil {
		return ""
	}
	for _, m := range messages {
		if m.Role == "user" {
			return contentText(m.Content)
		}
	}
	return ""
}

// contentText joins a message's parts by lines. Images leave a mark, the
// contents of tool results are part of the text, empty parts are dropped.
func contentText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []json.RawMessage
	if json.Unmarshal(raw, &parts) != nil {
		return ""
	}
	var lines []string
	for _, p := range parts {
		if t := partText(p); t != "" {
			lines = append(lines, t)
		}
	}
	return strings.Join(lines, "\n")
}

func partText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var part struct {
		Type    string          `json:"type"`
		Text    string          `json:"text"`
		Content json.RawMessage `json:"content"`
	}
	if json.Unmarshal(raw, &part) != nil {
		return ""
	}
	switch part.Type {
	case "image", "image_url", "input_image":
		return "[image omitted]"
	case "tool_result":
		return contentText(part.Content)
	}
	return part.Text
}
