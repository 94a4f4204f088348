package trajectory

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// Names of the normalisations by which the exact policy takes a replayed
// message for the recorded one. Everything else is another message. The first
// four hold for any client; the rest only for a call whose message names the
// turn, by ids that this process gave out: they are what Claude Code 2.1 does
// to the inputs of its own tools before it keeps them as history, and, last, what
// opencode 1.18 does to calls that it can't run.
const (
	RewriteTextTrimmed      = "text_trimmed"      // white space around the text, or a text of nothing else, is gone
	RewriteReasoningDropped = "reasoning_dropped" // the thinking is gone
	RewriteReasoningTrimmed = "reasoning_trimmed" // white space around the thinking is gone
	RewriteNumbers          = "numbers_rounded"   // numbers went through a float64, as JavaScript's do

	RewriteUnparsed     = "unparsed_input"      // input that is no JSON came back wrapped as __unparsedToolInput
	RewriteBashCD       = "bash_cd"             // Bash: a leading "cd DIR && " is gone
	RewriteBashEscape   = "bash_escape"         // Bash: \\; became \;
	RewriteEditDefault  = "edit_default"        // Edit: replace_all false was added
	RewriteEditAlias    = "edit_alias"          // Edit: old_str, new_str became old_string, new_string
	RewriteEditMatch    = "edit_match"          // Edit: old_string (and new_string likewise) became what the file really holds
	RewriteBlanks       = "trailing_blanks"     // Edit, Write: blanks at line ends are gone, outside Markdown
	RewriteWriteKeys    = "write_keys"          // Write: keys other than file_path and content are gone
	RewriteReadNumber   = "read_number"         // Read: a number in a string became a number
	RewriteTaskDefaults = "task_output_default" // TaskOutput: block true and timeout 30000 were added

	RewriteInvalid  = "invalid_call"      // a call became one of the tool "invalid" that says which tool was meant and why not
	RewriteToolCase = "tool_name_lowered" // a tool's name is in lower case
)

// accepts reports whether m is n's message as a client sends it back.
func (n *node) accepts(m *chat.Message) bool {
	if n.msg.Role != m.Role {
		return false
	}
	if identical(&n.msg, m) || n.known(m) || jsonEqual(&n.msg, m) {
		return true
	}
	if n.turn == nil {
		return false
	}
	_, ok := n.rewritten(m)
	return ok
}

// known reports whether m came back like this before.
func (n *node) known(m *chat.Message) bool {
	return slices.ContainsFunc(n.variants, func(v chat.Message) bool { return identical(&v, m) && v.Turn == m.Turn })
}

// identical is equality to the byte.
func identical(a, b *chat.Message) bool {
	return a.Role == b.Role && a.Content == b.Content && a.Reasoning == b.Reasoning &&
		slices.EqualFunc(a.ToolCalls, b.ToolCalls, func(a, b chat.ToolCall) bool {
			return a.Name == b.Name && bytes.Equal(a.Arguments, b.Arguments)
		})
}

// noteRewrites counts the normalisations by which m is n's message, each once
// for a message, however often it is sent again. How it was sent is kept, so
// that its JSON is not read again with every turn.
func (t *Tree) noteRewrites(n *node, m *chat.Message) {
	if n.turn == nil || identical(&n.msg, m) || n.known(m) {
		return
	}
	n.variants = append(n.variants, cloneMessage(*m))
	if jsonEqual(&n.msg, m) {
		return
	}
	rules, _ := n.rewritten(m)
	for _, r := range rules {
		if !slices.Contains(n.rules, r) {
			n.rules = append(n.rules, r)
			t.rewrites[r]++
		}
	}
}

// rewritten reports whether declared normalisations make m of n's message, and which.
func (n *node) rewritten(m *chat.Message) (rules []string, ok bool) {
	told := &n.msg
	if told.Content != m.Content {
		if strings.TrimSpace(told.Content) != strings.TrimSpace(m.Content) {
			return nil, false
		}
		rules = append(rules, RewriteTextTrimmed)
	}
	switch {
	case told.Reasoning == m.Reasoning:
	case m.Reasoning == "":
		rules = append(rules, RewriteReasoningDropped)
	case strings.TrimSpace(told.Reasoning) == strings.TrimSpace(m.Reasoning):
		rules = append(rules, RewriteReasoningTrimmed)
	default:
		return nil, false
	}
	if len(told.ToolCalls) != len(m.ToolCalls) {
		return nil, false
	}
	named := m.Turn != "" && m.Turn == n.turn.id
	for i := range told.ToolCalls {
		more, ok := rewrittenCall(&told.ToolCalls[i], &m.ToolCalls[i], named)
		if !ok {
			return nil, false
		}
		rules = append(rules, more...)
	}
	return rules, true
}

// rewrittenCall does the same for one call.
func rewrittenCall(told, sent *chat.ToolCall, named bool) (rules []string, ok bool) {
	switch {
	case named && told.Name != sent.Name && invalid(told, sent):
		return []string{RewriteInvalid}, true
	case named && told.Name != sent.Name && strings.ToLower(told.Name) == sent.Name:
		lowered := chat.ToolCall{Name: sent.Name, Arguments: told.Arguments}
		rules, ok = rewrittenCall(&lowered, sent, named)
		return append(rules, RewriteToolCase), ok
	case told.Name != sent.Name:
		return nil, false
	case equalValues(told.Arguments, sent.Arguments, strict):
		return nil, true
	case equalValues(told.Arguments, sent.Arguments, javascript):
		return []string{RewriteNumbers}, true
	case !named:
		return nil, false
	case unparsed(told.Arguments, sent.Arguments):
		return []string{RewriteUnparsed}, true
	}
	return rewrittenInput(told, sent)
}

// unparsed reports whether sent wraps told, which was no JSON.
func unparsed(told, sent json.RawMessage) bool {
	var wrap struct {
		Input *struct{ Raw string } `json:"__unparsedToolInput"`
	}
	return json.Unmarshal(sent, &wrap) == nil && wrap.Input != nil && wrap.Input.Raw == string(told)
}

// invalid reports whether sent stands for a call of told's tool that could not be
// made.
func invalid(told, sent *chat.ToolCall) bool {
	var input struct{ Tool, Error *string }
	return sent.Name == "invalid" && json.Unmarshal(sent.Arguments, &input) == nil &&
		input.Tool != nil && *input.Tool == told.Name && input.Error != nil
}

// An input is the arguments of a call, with numbers as JavaScript has them.
type input map[string]any

// An inputRule makes told more like sent where its rule allows, and reports
// whether it changed anything.
type inputRule struct {
	name  string
	tools string // separated by blanks
	apply func(told, sent input) bool
}

// inputRules are in the order in which the client applies them.
var inputRules = [...]inputRule{
	{RewriteBashCD, "Bash", bashCD},
	{RewriteBashEscape, "Bash", bashEscape},
	{RewriteEditAlias, "Edit", editAlias},
	{RewriteEditDefault, "Edit", func(told, _ input) bool { return told.add("replace_all", false) }},
	{RewriteWriteKeys, "Write", writeKeys},
	{RewriteBlanks, "Edit Write", trailingBlanks},
	{RewriteEditMatch, "Edit", editMatch},
	{RewriteReadNumber, "Read", readNumber},
	{RewriteTaskDefaults, "TaskOutput", func(told, _ input) bool {
		block, timeout := told.add("block", true), told.add("timeout", 30000.0)
		return block || timeout
	}},
}

// rewrittenInput applies the rules of the tool to what the model wrote and
// compares the outcome.
func rewrittenInput(told, sent *chat.ToolCall) (rules []string, ok bool) {
	var was, is input
	if json.Unmarshal(told.Arguments, &was) != nil || json.Unmarshal(sent.Arguments, &is) != nil || was == nil {
		return nil, false
	}
	if !equalValues(told.Arguments, was.spelled(), strict) {
		rules = append(rules, RewriteNumbers)
	}
	for _, r := range inputRules {
		if slices.Contains(strings.Fields(r.tools), told.Name) && !bytes.Equal(was.spelled(), is.spelled()) && r.apply(was, is) {
			rules = append(rules, r.name)
		}
	}
	return rules, bytes.Equal(was.spelled(), is.spelled())
}

// spelled is the input as JSON with sorted keys.
func (in input) spelled() []byte {
	text, _ := json.Marshal(in) // what was read from JSON can be written
	return text
}

// text returns a member that is a string.
func (in input) text(key string) (string, bool) {
	s, ok := in[key].(string)
	return s, ok
}

// add sets a default.
func (in input) add(key string, value any) bool {
	if _, ok := in[key]; ok {
		return false
	}
	in[key] = value
	return true
}

// bashCD takes away the first "cd DIR && " whose absence makes the command the
// one that was sent. DIR is the client's working folder, which we don't know.
func bashCD(told, sent input) bool {
	was, ok := told.text("command")
	is, sentOK := sent.text("command")
	if !ok || !sentOK {
		return false
	}
	for _, is := range []string{is, strings.ReplaceAll(is, `\;`, `\\;`)} {
		for at := 0; ; {
			i := strings.Index(was[at:], "cd ")
			if i < 0 {
				break
			}
			at += i
			if dir, rest, ok := strings.Cut(was[at:], " && "); ok && !strings.ContainsAny(dir, "\n;|&") && was[:at]+rest == is {
				told["command"] = is
				return true
			}
			at += len("cd ")
		}
	}
	return false
}

func bashEscape(told, _ input) bool {
	was, ok := told.text("command")
	is := strings.ReplaceAll(was, `\\;`, `\;`)
	if !ok || is == was {
		return false
	}
	told["command"] = is
	return true
}

func editAlias(told, _ input) bool {
	changed := false
	for _, key := range []string{"old", "new"} {
		if v, ok := told[key+"_str"]; ok && told.add(key+"_string", v) {
			delete(told, key+"_str")
			changed = true
		}
	}
	return changed
}

func writeKeys(told, _ input) bool {
	n := len(told)
	for key := range told {
		if key != "file_path" && key != "content" {
			delete(told, key)
		}
	}
	return len(told) < n
}

// trailingBlanks takes the blanks off the ends of lines, but in Markdown.
func trailingBlanks(told, _ input) bool {
	path, _ := told.text("file_path")
	if low := strings.ToLower(path); strings.HasSuffix(low, ".md") || strings.HasSuffix(low, ".mdx") {
		return false
	}
	changed := false
	for _, key := range []string{"new_string", "content"} {
		was, ok := told.text(key)
		if is := withoutTrailingBlanks(was); ok && is != was {
			told[key], changed = is, true
		}
	}
	return changed
}

func withoutTrailingBlanks(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimRight(line, "\r\n")
		out.WriteString(strings.TrimRight(body, " \t\v\f\u00a0"))
		out.WriteString(line[len(body):])
	}
	return out.String()
}

// respelled folds what Claude Code treats as one spelling when it looks for
// old_string in a file: typographic quotes, and names that its own prompt
// format writes in short.
var respelled = strings.NewReplacer(
	"\u2018", "'", "\u2019", "'", "\u201c", `"`, "\u201d", `"`,
	"<fnr>", "<function_results>", "<n>", "<name>", "</n>", "</name>", "<o>", "<output>", "</o>", "</output>",
	"<e>", "<error>", "</e>", "</error>", "<s>", "<system>", "</s>", "</system>", "<r>", "<result>", "</r>", "</result>",
	"< META_START >", "<META_START>", "< META_END >", "<META_END>", "< EOT >", "<EOT>", "< META >", "<META>", "< SOS >", "<SOS>",
	"\n\nH:", "\n\nHuman:", "\n\nA:", "\n\nAssistant:",
)

// editMatch lets the client spell old_string as the file does, and then
// new_string likewise.
func editMatch(told, sent input) bool {
	changed := false
	for _, key := range []string{"old_string", "new_string"} {
		was, ok := told.text(key)
		is, sentOK := sent.text(key)
		if !ok || !sentOK || respelled.Replace(was) != respelled.Replace(is) {
			return changed
		}
		if was != is {
			told[key], changed = is, true
		}
	}
	return changed
}

func readNumber(told, sent input) bool {
	changed := false
	for _, key := range []string{"offset", "limit"} {
		was, ok := told.text(key)
		var n float64
		if _, number := sent[key].(float64); ok && number && json.Unmarshal([]byte(was), &n) == nil {
			told[key], changed = n, true
		}
	}
	return changed
}
