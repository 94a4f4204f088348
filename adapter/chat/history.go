package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Names of the canonicalisations that a History applies. Each is counted in
// the request's Rewrites.
const (
	RewriteSystemMerged  = "system_merged"        // several system messages at the start became one
	RewriteSystemInPlace = "system_in_place"      // a later system message became a user message where it stands
	RewriteResultOrder   = "tool_results_ordered" // results of parallel calls were put into the order of the calls
)

// A History appends messages to a request, canonicalising what clients do
// differently from one request to the next or what chat templates refuse, each
// change in its place: what was sent before stays a prefix of what is sent
// after. It is used by one goroutine; Flush ends it.
type History struct {
	req     *Request
	calls   []string // wire ids of the newest assistant message's calls
	results []placed // results that wait for their place
}

type placed struct {
	place int
	msg   Message
}

// NewHistory returns a History that appends to req.
func NewHistory(req *Request) *History { return &History{req: req} }

// System appends a system message. At the start it is one; later on, where
// templates refuse it, it becomes a user message marked as a reminder.
func (h *History) System(text string) {
	h.Flush()
	msgs := h.req.Messages
	switch {
	case len(msgs) == 0:
		h.add(Message{Role: System, Content: text})
	case len(msgs) == 1 && msgs[0].Role == System:
		h.note(RewriteSystemMerged)
		msgs[0].Content += "\n\n" + text
	default:
		h.note(RewriteSystemInPlace)
		if !strings.HasPrefix(strings.TrimSpace(text), "<system-reminder>") {
			text = "<system-reminder>\n" + text + "\n</system-reminder>"
		}
		h.add(Message{Role: User, Content: text})
	}
}

// User appends a user message.
func (h *History) User(text string) {
	h.Flush()
	h.add(Message{Role: User, Content: text})
}

// Assistant appends an assistant message whose calls have these wire ids.
func (h *History) Assistant(m Message, ids []string) {
	h.Flush()
	h.add(m)
	h.calls = ids
}

// Result keeps the result of a call for its place among the others of the
// newest assistant message; results of unknown calls go last.
func (h *History) Result(id, text string) {
	place := slices.Index(h.calls, id)
	if place < 0 {
		place = len(h.calls)
	}
	h.results = append(h.results, placed{place, Message{Role: ToolRole, Content: text}})
}

// Flush appends the results that wait.
func (h *History) Flush() {
	byPlace := func(a, b placed) int { return a.place - b.place }
	if !slices.IsSortedFunc(h.results, byPlace) {
		slices.SortStableFunc(h.results, byPlace)
		h.note(RewriteResultOrder)
	}
	for _, r := range h.results {
		h.add(r.msg)
	}
	h.results = h.results[:0]
}

func (h *History) add(m Message)    { h.req.Messages = append(h.req.Messages, m) }
func (h *History) note(name string) { h.req.Rewrites = append(h.req.Rewrites, name) }

// WireID makes the id under which a turn's i-th call or item goes over the
// wire; clients send it back as it is.
func WireID(kind, turn string, i int) string { return fmt.Sprintf("%s_%s_%d", kind, turn, i) }

// TurnOf returns the turn that a wire id of ours names, or "".
func TurnOf(id string) string {
	_, rest, ok := strings.Cut(id, "_")
	if !ok {
		return ""
	}
	turn, _, ok := strings.Cut(rest, "_")
	if !ok {
		return ""
	}
	return turn
}

// Arguments returns the text of a call's arguments as JSON. Text that is no
// JSON becomes a JSON string, so that nothing of it is lost.
func Arguments(text string) json.RawMessage {
	if strings.TrimSpace(text) == "" || text == "null" {
		return json.RawMessage("{}")
	}
	if json.Valid([]byte(text)) {
		return json.RawMessage(text)
	}
	quoted, _ := json.Marshal(text) // a string always can be
	return quoted
}

// Tool is the name of the tool that a malformed call is delivered to.
func (m Malformed) Tool() string {
	if m.Name == "" {
		return "malformed_tool_call"
	}
	return m.Name
}

// Text is what is delivered as the call's arguments: text that no client can
// execute, since it is never JSON.
func (m Malformed) Text() string {
	if json.Valid([]byte(m.Raw)) || strings.TrimSpace(m.Raw) == "" {
		return "malformed call: " + m.Raw
	}
	return m.Raw
}
