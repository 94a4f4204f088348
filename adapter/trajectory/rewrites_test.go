package trajectory_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// A replay is a call as the model wrote it and as the client sends it back;
// rules nil means that it is another message.
type replay struct {
	name, tool, told, sent string
	rules                  map[string]int
	unnamed                bool // the message does not name its turn
}

func rules(names ...string) map[string]int {
	m := map[string]int{}
	for _, n := range names {
		m[n] = 1
	}
	return m
}

var replays = []replay{
	{"verbatim", "Bash", `{"command":"ls"}`, `{"command":"ls"}`, rules(), true},
	{"other key order", "Bash", `{"description":"d","command":"ls"}`, `{"command":"ls","description":"d"}`, rules(), true},
	{"other escapes", "Bash", `{"command":"\u00e9\/"}`, `{"command":"é/"}`, rules(), true},
	{"exponent written out", "Bash", `{"timeout":1e3}`, `{"timeout":1000}`, rules(), true},
	{"large integer rounded", "Bash", `{"timeout":12345678901234567890}`, `{"timeout":12345678901234567000}`, rules(trajectory.RewriteNumbers), true},
	{"other integer", "Bash", `{"timeout":1000}`, `{"timeout":1001}`, nil, false},
	{"true is not 1", "X", `{"a":true}`, `{"a":1}`, nil, false},
	{"invalid wrapped", "Bash", `{"command": "echo trunc`, `{"__unparsedToolInput":{"raw":"{\"command\": \"echo trunc","len":23}}`, rules(trajectory.RewriteUnparsed), false},
	{"invalid wrapped otherwise", "Bash", `{"command": "echo`, `{"__unparsedToolInput":{"raw":"{\"command\": \"rm","len":23}}`, nil, false},
	{"cd taken off", "Bash", `{"command":"cd /repo && false"}`, `{"command":"false"}`, rules(trajectory.RewriteBashCD), false},
	{"cd taken off unnamed", "Bash", `{"command":"cd /repo && false"}`, `{"command":"false"}`, nil, true},
	{"cd within", "Bash", `{"command":"ls && cd \"/a b\" && make"}`, `{"command":"ls && make"}`, rules(trajectory.RewriteBashCD), false},
	{"first of two cd", "Bash", `{"command":"cd /r && cd /s && ls"}`, `{"command":"cd /s && ls"}`, rules(trajectory.RewriteBashCD), false},
	{"more than cd taken off", "Bash", `{"command":"cd /r && make && ls"}`, `{"command":"ls"}`, nil, false},
	{"escaped semicolon", "Bash", `{"command":"find . -exec ls {} \\\\;"}`, `{"command":"find . -exec ls {} \\;"}`, rules(trajectory.RewriteBashEscape), false},
	{"cd and semicolon", "Bash", `{"command":"cd /r && find -exec ls \\\\;"}`, `{"command":"find -exec ls \\;"}`, rules(trajectory.RewriteBashCD, trajectory.RewriteBashEscape), false},
	{"unknown parameter kept", "Bash", `{"command":"echo hi","foo":"bar"}`, `{"command":"echo hi","foo":"bar"}`, rules(), false},
	{"default of Edit", "Edit", `{"file_path":"/c.py","old_string":"a","new_string":"b"}`, `{"replace_all":false,"file_path":"/c.py","old_string":"a","new_string":"b"}`, rules(trajectory.RewriteEditDefault), false},
	{"other default of Edit", "Edit", `{"file_path":"/c.py","old_string":"a","new_string":"b"}`, `{"replace_all":true,"file_path":"/c.py","old_string":"a","new_string":"b"}`, nil, false},
	{"aliases of Edit", "Edit", `{"file_path":"/c.py","old_str":"a","new_str":"b"}`, `{"replace_all":false,"file_path":"/c.py","old_string":"a","new_string":"b"}`, rules(trajectory.RewriteEditDefault, trajectory.RewriteEditAlias), false},
	{"blanks in Edit", "Edit", `{"replace_all":false,"file_path":"/c.py","old_string":"a ","new_string":"b  \nc\t\n"}`, `{"replace_all":false,"file_path":"/c.py","old_string":"a ","new_string":"b\nc\n"}`, rules(trajectory.RewriteBlanks), false},
	{"blanks in Markdown", "Edit", `{"replace_all":false,"file_path":"/c.MD","old_string":"a","new_string":"b  \n"}`, `{"replace_all":false,"file_path":"/c.MD","old_string":"a","new_string":"b\n"}`, nil, false},
	{"quotes as in the file", "Edit", `{"replace_all":false,"file_path":"/c.py","old_string":"it's","new_string":"it was"}`, `{"replace_all":false,"file_path":"/c.py","old_string":"it’s","new_string":"it was"}`, rules(trajectory.RewriteEditMatch), false},
	{"short names as in the file", "Edit", `{"replace_all":false,"file_path":"/c.py","old_string":"<n>a","new_string":"<n>b"}`, `{"replace_all":false,"file_path":"/c.py","old_string":"<name>a","new_string":"<name>b"}`, rules(trajectory.RewriteEditMatch), false},
	{"another old_string", "Edit", `{"replace_all":false,"file_path":"/c.py","old_string":"a","new_string":"b"}`, `{"replace_all":false,"file_path":"/c.py","old_string":"c","new_string":"b"}`, nil, false},
	{"blanks in Write", "Write", `{"file_path":"/n.py","content":"x = 1   \n\n\n"}`, `{"file_path":"/n.py","content":"x = 1\n\n\n"}`, rules(trajectory.RewriteBlanks), false},
	{"keys of Write", "Write", `{"file_path":"/n.py","content":"x","mode":"w"}`, `{"file_path":"/n.py","content":"x"}`, rules(trajectory.RewriteWriteKeys), false},
	{"another content of Write", "Write", `{"file_path":"/n.py","content":"x"}`, `{"file_path":"/n.py","content":"y"}`, nil, false},
	{"offset of Read", "Read", `{"file_path":"/c.py","offset":"1","limit":"5"}`, `{"file_path":"/c.py","offset":1,"limit":"5"}`, rules(trajectory.RewriteReadNumber), false},
	{"another offset of Read", "Read", `{"file_path":"/c.py","offset":"1"}`, `{"file_path":"/c.py","offset":2}`, nil, false},
	{"defaults of TaskOutput", "TaskOutput", `{"task_id":"t"}`, `{"task_id":"t","block":true,"timeout":30000}`, rules(trajectory.RewriteTaskDefaults), false},
	{"a default of another tool", "Other", `{"a":1}`, `{"a":1,"replace_all":false}`, nil, false},
	{"array for an object", "Bash", `["a"]`, `{"command":"a"}`, nil, false},
	{"null", "Bash", `null`, `{"command":"a"}`, nil, false},
}

func TestReplayedCalls(t *testing.T) {
	for _, r := range replays {
		t.Run(r.name, func(t *testing.T) {
			p := newPlayer(t, trajectory.Options{})
			echo := chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{{Name: r.tool, Arguments: []byte(r.sent)}}, Turn: "this"}
			if r.unnamed {
				echo.Turn = ""
			}
			h := p.ask(start, reply{calls: []chat.ToolCall{{Name: r.tool, Arguments: []byte(r.told)}}, echo: &echo})
			h = p.ask(plus(h, tool("x")), reply{text: "two"})
			p.ask(plus(h, user("go on")), reply{text: "three"})
			segments := p.segments(0)
			checkPlayed(t, p, segments)
			got := p.tree.Report().Rewrites
			if r.rules == nil {
				if len(segments) != 2 || len(got) != 0 {
					t.Errorf("%d segments, rewrites %v; want 2, none", len(segments), got)
				}
				return
			}
			if len(segments) != 1 || !cmp.Equal(got, r.rules) {
				t.Errorf("%d segments, rewrites %v; want 1, %v", len(segments), got, r.rules)
			}
		})
	}
	t.Logf("figure: %d replayed calls", len(replays))
}

// TestReplayedNames: opencode keeps a call that it could not make as one of its
// tool "invalid", and finds a tool whose name differs by case.
func TestReplayedNames(t *testing.T) {
	for _, r := range []struct {
		name       string
		told, sent chat.ToolCall
		unnamed    bool
		rules      map[string]int // nil: another message
	}{
		{"invalid", chat.ToolCall{Name: "nosuch", Arguments: []byte(`{"a":1}`)}, chat.ToolCall{Name: "invalid", Arguments: []byte(`{"tool":"nosuch","error":"no such tool"}`)}, false, rules(trajectory.RewriteInvalid)},
		{"invalid, unnamed", chat.ToolCall{Name: "nosuch", Arguments: []byte(`{"a":1}`)}, chat.ToolCall{Name: "invalid", Arguments: []byte(`{"tool":"nosuch","error":"no such tool"}`)}, true, nil},
		{"invalid, of another tool", chat.ToolCall{Name: "nosuch", Arguments: []byte(`{"a":1}`)}, chat.ToolCall{Name: "invalid", Arguments: []byte(`{"tool":"other","error":"no such tool"}`)}, false, nil},
		{"invalid, without a reason", chat.ToolCall{Name: "nosuch", Arguments: []byte(`{"a":1}`)}, chat.ToolCall{Name: "invalid", Arguments: []byte(`{"tool":"nosuch"}`)}, false, nil},
		{"lowered", chat.ToolCall{Name: "Bash", Arguments: []byte(`{"a":1}`)}, chat.ToolCall{Name: "bash", Arguments: []byte(`{"a":1}`)}, false, rules(trajectory.RewriteToolCase)},
		{"lowered, other input", chat.ToolCall{Name: "Bash", Arguments: []byte(`{"a":1}`)}, chat.ToolCall{Name: "bash", Arguments: []byte(`{"a":2}`)}, false, nil},
		{"another name", chat.ToolCall{Name: "Bash", Arguments: []byte(`{"a":1}`)}, chat.ToolCall{Name: "Read", Arguments: []byte(`{"a":1}`)}, false, nil},
	} {
		p := newPlayer(t, trajectory.Options{})
		echo := chat.Message{Role: chat.Assistant, ToolCalls: []chat.ToolCall{r.sent}, Turn: "this"}
		if r.unnamed {
			echo.Turn = ""
		}
		h := p.ask(start, reply{calls: []chat.ToolCall{r.told}, echo: &echo})
		p.ask(plus(h, tool("x")), reply{text: "two"})
		want := 2
		if r.rules != nil {
			want = 1
		}
		got := p.tree.Report().Rewrites
		if segments := p.segments(0); len(segments) != want || want == 1 && !cmp.Equal(got, r.rules) {
			t.Errorf("%s: %d segments, rewrites %v; want %d, %v", r.name, len(segments), got, want, r.rules)
		}
	}
}

func TestReplayedTexts(t *testing.T) {
	told := reply{think: "\nhm\n", text: "\n\none  \n"}
	for _, r := range []struct {
		name  string
		sent  chat.Message
		rules map[string]int
	}{
		{"verbatim", chat.Message{Content: "\n\none  \n", Reasoning: "\nhm\n"}, rules()},
		{"trimmed", chat.Message{Content: "one", Reasoning: "\nhm\n"}, rules(trajectory.RewriteTextTrimmed)},
		{"thinking trimmed", chat.Message{Content: "\n\none  \n", Reasoning: "hm"}, rules(trajectory.RewriteReasoningTrimmed)},
		{"thinking dropped", chat.Message{Content: "one"}, rules(trajectory.RewriteTextTrimmed, trajectory.RewriteReasoningDropped)},
		{"other white space within", chat.Message{Content: "\n\non e  \n", Reasoning: "\nhm\n"}, nil},
		{"text dropped", chat.Message{Reasoning: "\nhm\n"}, nil},
		{"other thinking", chat.Message{Content: "\n\none  \n", Reasoning: "ha"}, nil},
		{"a call more", chat.Message{Content: "\n\none  \n", Reasoning: "\nhm\n", ToolCalls: bash(`{}`)}, nil},
		{"another role", chat.Message{Role: chat.User, Content: "\n\none  \n"}, nil},
	} {
		p := newPlayer(t, trajectory.Options{})
		if r.sent.Role == "" {
			r.sent.Role = chat.Assistant
		}
		told.echo = &r.sent
		h := p.ask(start, told)
		p.ask(plus(h, user("go on")), reply{text: "two"})
		want := 2
		if r.rules != nil {
			want = 1
		}
		got := p.tree.Report().Rewrites
		if segments := p.segments(0); len(segments) != want || want == 1 && !cmp.Equal(got, r.rules) {
			t.Errorf("%s: %d segments, rewrites %v; want %d, %v", r.name, len(segments), got, want, r.rules)
		}
	}
}
