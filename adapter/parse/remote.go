package parse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// A Remote has an SGLang server read outputs, in formats that are not read
// here (POST /parse_function_call and /separate_reasoning). It is opt-in: a
// turn then costs two requests more, the spans and the raw text of calls are
// unknown, and what SGLang repairs or loses on the way is not flagged. It is
// safe for concurrent use.
//
// It fails closed. Where the server can't be asked, Result.Err says so and
// nothing else is set. A call is withheld unless its arguments are a JSON
// object that fits the tool; and of a cut output so is the last one, for the
// server doesn't say whether it was whole.
type Remote struct {
	base            string
	tool, reasoning string
	client          *http.Client
}

// maxRemoteAnswer bounds what is read of a server's answer, in bytes.
const maxRemoteAnswer = 64 << 20

// NewRemote returns a Remote over the server at base, such as
// http://10.0.0.2:30000. It must be a server itself: a router has other parser
// names and other rules. toolParser and reasoningParser are the server's own
// names, "" for none; it answers unknown ones with an error at the first turn.
// A nil client is one with a timeout of 30 seconds.
func NewRemote(base, toolParser, reasoningParser string, client *http.Client) (*Remote, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("remote parser: %q is not the URL of a server, such as http://10.0.0.2:30000", base)
	}
	if toolParser == "" && reasoningParser == "" {
		return nil, errors.New("remote parser: neither a tool-call nor a reasoning parser is named")
	}
	if client == nil {
		client = &http.Client{Timeout: 30 * time.Second}
	}
	return &Remote{base: strings.TrimRight(base, "/"), tool: toolParser, reasoning: reasoningParser, client: client}, nil
}

// Parse has the server read one output. It blocks until the server has
// answered or the client gives up.
func (r *Remote) Parse(in Input) Result {
	out := Result{Text: in.Text}
	if r.reasoning != "" {
		if err := r.separate(&out, in); err != nil {
			return Result{Flags: []Flag{ParserError}, Err: fmt.Errorf("remote parser: %w", err)}
		}
	}
	if r.tool != "" && len(in.Tools) > 0 {
		if err := r.calls(&out, in); err != nil {
			return Result{Flags: []Flag{ParserError}, Err: fmt.Errorf("remote parser: %w", err)}
		}
	}
	out.Text = pyStrip(out.Text)
	return out
}

// separate splits the reasoning off. The server knows nothing of the prompt:
// a thought that it leaves open is opened in the text.
func (r *Remote) separate(out *Result, in Input) error {
	text := in.Text
	for _, f := range reasoningFormats() {
		if force := f.fromTail(in.PromptTail); force != nil && *force && !strings.HasPrefix(text, f.start) {
			text = f.start + f.label + text
			break
		}
	}
	var answer struct {
		Reasoning string `json:"reasoning_text"`
		Text      string `json:"text"`
	}
	err := r.post("/separate_reasoning", map[string]any{"text": text, "reasoning_parser": r.reasoning}, &answer)
	out.Reasoning, out.Text = answer.Reasoning, answer.Text
	return err
}

func (r *Remote) calls(out *Result, in Input) error {
	var answer struct {
		Text  string `json:"normal_text"`
		Calls []struct {
			Name       string `json:"name"`
			Parameters string `json:"parameters"`
		} `json:"calls"`
	}
	body := map[string]any{"text": out.Text, "tools": wireTools(in.Tools), "tool_call_parser": r.tool}
	if err := r.post("/parse_function_call", body, &answer); err != nil {
		return err
	}
	out.Text = answer.Text
	s := newScanner("", newToolset(in.Tools), in.Cut)
	for i, c := range answer.Calls {
		call := s.withArgs(Call{Name: c.Name, Raw: c.Parameters}, strings.TrimSpace(c.Parameters))
		if in.Cut && i == len(answer.Calls)-1 {
			call.Flags = addFlag(call.Flags, Truncated)
		}
		out.Flags = addFlag(out.Flags, call.Flags...)
		if withholds(call.Flags) {
			out.Withheld = append(out.Withheld, call)
		} else {
			out.Calls = append(out.Calls, call)
		}
	}
	return nil
}

// wireTools words the tools as OpenAI does.
func wireTools(tools []chat.Tool) []any {
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	}
	var out []any
	for _, t := range tools {
		out = append(out, map[string]any{"type": "function", "function": function{t.Name, t.Description, t.Parameters}})
	}
	return out
}

// post asks the server and reads its answer to the end.
func (r *Remote) post(path string, body, answer any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	resp, err := r.client.Post(r.base+path, "application/json", bytes.NewReader(data))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err = io.ReadAll(io.LimitReader(resp.Body, maxRemoteAnswer+1))
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", path, resp.Status, strings.TrimSpace(string(data[:min(len(data), 300)])))
	}
	if len(data) > maxRemoteAnswer {
		return fmt.Errorf("%s: the answer is longer than %d bytes", path, maxRemoteAnswer)
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("%s: the answer is not what SGLang answers: %w", path, err)
	}
	return nil
}
