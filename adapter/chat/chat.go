// Package chat holds the words that the parts of the adapter share: messages,
// tools, requests and answers, free of any wire protocol and of any model's
// format. It imports nothing of this module.
package chat

import (
	"encoding/json"
	"net/http"
	"time"
)

// Roles of a Message.
const (
	System    = "system"
	User      = "user"
	Assistant = "assistant"
	ToolRole  = "tool"
)

// A Message is one entry of a conversation as the chat template sees it.
type Message struct {
	Role      string     // System, User, Assistant or ToolRole
	Content   string     // text blocks joined; "" when there are none
	Reasoning string     // the assistant's thinking; "" when there is none
	ToolCalls []ToolCall // of an assistant; in wire order

	// Turn names the recorded turn that this assistant message is the echo of,
	// as its wire ids or its signature say; "" when unknown. It is not part of
	// a message's equality.
	Turn string
}

// A ToolCall is a call that an assistant message makes. Arguments keep the
// wire's key order and number spelling.
type ToolCall struct {
	Name      string
	Arguments json.RawMessage
}

// A Tool is a function that the client offers to the model. Parameters is its
// JSON schema in wire order; nil means an object without properties.
type Tool struct {
	Name        string
	Description string
	Parameters  json.RawMessage
}

// Kind says what a request is for, and so what its turn is labelled.
type Kind string

// Kinds of requests. The zero value is Main.
const (
	Main       Kind = ""
	Subagent   Kind = "subagent"
	Compaction Kind = "compaction"
	SideCall   Kind = "sidecall" // title generation, quota probes: served, never trained
)

// A Request is one decoded request for a model's turn.
type Request struct {
	Messages  []Message
	Tools     []Tool
	Model     string         // the client's label; the served model is the trainer's
	Stream    bool           // the client wants a stream of events
	MaxTokens int            // 0 when the client sets none
	Stop      []string       // stop strings that the client adds
	Sampling  map[string]any // what the client asked for beyond that: never obeyed, the difference is logged once
	Kind      Kind
	Agent     string   // the client's name for the (sub-)agent that asks; "" is the main one
	Rewrites  []string // names of the canonicalisations applied in decoding, one entry each time
	Wire      any      // the dialect's own, for Echo and Respond
}

// Finish reasons of an Answer, as the engine words them.
const (
	FinishStop   = "stop"
	FinishLength = "length"
	FinishAbort  = "abort"
)

// An Answer is what the model said in one turn.
type Answer struct {
	Turn      string // id of the turn, to be put where this protocol's clients echo it
	Reasoning string
	Text      string
	Calls     []ToolCall
	Malformed []Malformed // calls that were withheld
	Finish    string      // FinishStop or FinishLength; an abort is never answered
	Stop      string      // which of the client's stop strings ended it; "" when none did

	Prompt int // tokens
	Output int // tokens
	Cached int // tokens of the prompt that the engine had cached
}

// A Malformed is a call that breaks its format and must not be executed. A
// dialect delivers it in its place among the Calls, so that the client answers
// with a tool error, which the model then sees where it expects it: templates
// tell results apart by their order alone.
type Malformed struct {
	Name   string // the tool that it seems to mean; "" when there is no telling
	Raw    string // as the model wrote it
	Before int    // how many of the Calls come before it
}

// A Use is a call or a malformed one; the other is nil.
type Use struct {
	Call      *ToolCall
	Malformed *Malformed
}

// Uses lists the calls and the malformed ones as the model wrote them.
func (a Answer) Uses() []Use {
	uses := make([]Use, 0, len(a.Calls)+len(a.Malformed))
	bad := 0
	for i := 0; i <= len(a.Calls); i++ {
		for ; bad < len(a.Malformed) && (a.Malformed[bad].Before <= i || i == len(a.Calls)); bad++ {
			uses = append(uses, Use{Malformed: &a.Malformed[bad]})
		}
		if i < len(a.Calls) {
			uses = append(uses, Use{Call: &a.Calls[i]})
		}
	}
	return uses
}

// Op is what a route does.
type Op int

const (
	OpTurn  Op = iota // generate a turn
	OpCount           // count the tokens of a request
)

// A Route is one method and path that a dialect serves, as in http.ServeMux.
type Route struct {
	Pattern string // "POST /v1/messages"
	Op      Op
}

// A Responder answers one request in its protocol. Its methods are called by
// one goroutine at a time; Answer, Count and Refuse each end the response.
type Responder interface {
	// KeepAlive sends the headers if they are not sent yet, and a sign of life
	// that this protocol's clients honour.
	KeepAlive() error
	// Answer delivers the whole turn. An error means that the client did not get it.
	Answer(Answer) error
	// Count answers an OpCount request.
	Count(tokens int) error
	// Refuse answers with an error: a status if nothing was sent yet, else the
	// protocol's error event and, unless that ends the protocol's stream, a
	// connection that is cut: it panics with http.ErrAbortHandler then.
	Refuse(*Refusal)
}

// RefusalKind says what the client should do about a Refusal.
type RefusalKind int

const (
	Stop     RefusalKind = iota // end the run at once; nothing will help
	TryAgain                    // the same request may succeed later
	TooLong                     // the prompt exceeds the context: compact
	Unknown                     // no such session: end the run at once
	TooLarge                    // the body exceeds what is read: end the run at once
)

// A Refusal is an answer that is none. It is an error.
type Refusal struct {
	Kind       RefusalKind
	Message    string
	Tokens     int           // TooLong: tokens of the prompt
	Limit      int           // TooLong: tokens that there is room for
	RetryAfter time.Duration // TryAgain: 0 leaves it to the client
}

func (r *Refusal) Error() string { return r.Message }

// A Dialect translates between one wire protocol and the words above. It is
// stateless and safe for concurrent use.
type Dialect interface {
	// Routes lists what the dialect serves.
	Routes() []Route
	// Token returns the session token that the request carries, or "".
	Token(r *http.Request) string
	// Decode translates a request whose body was read to its end. A *Refusal
	// error is answered as such; any other error is the client's mistake.
	Decode(r *http.Request, body []byte) (*Request, error)
	// Echo returns the assistant message that this protocol's clients will
	// send back as history for the answer a to req.
	Echo(req *Request, a Answer) Message
	// Respond begins the response to req; req is nil when it was not understood.
	Respond(w http.ResponseWriter, req *Request) Responder
}
