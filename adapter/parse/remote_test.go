package parse

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// serveParsers is a server that reads outputs as SGLang does.
func serveParsers(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /separate_reasoning", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Text   string `json:"text"`
			Parser string `json:"reasoning_parser"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		reasoning, text, err := ReadReasoning(in.Parser, in.Text, nil)
		if err != nil {
			http.Error(w, "Internal Server Error", http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]string{"reasoning_text": reasoning, "text": text})
	})
	mux.HandleFunc("POST /parse_function_call", func(w http.ResponseWriter, r *http.Request) {
		var in struct {
			Text   string     `json:"text"`
			Tools  []caseTool `json:"tools"`
			Parser string     `json:"tool_call_parser"`
		}
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		got, err := ReadTools(in.Parser, Compat, in.Text, chatTools(in.Tools), false)
		if err != nil {
			http.Error(w, "Internal Server Error", http.StatusInternalServerError)
			return
		}
		calls := []map[string]any{}
		for i, c := range got.Calls {
			calls = append(calls, map[string]any{"tool_index": i, "name": c.Name, "parameters": string(c.Args)})
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"normal_text": got.Text, "calls": calls})
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s
}

func remoteTools() []chat.Tool {
	return []chat.Tool{{Name: "Bash", Parameters: json.RawMessage(`{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}`)}}
}

func TestRemoteReads(t *testing.T) {
	r, err := NewRemote(serveParsers(t).URL+"/", "qwen3_coder", "qwen3", nil)
	if err != nil {
		t.Fatal(err)
	}
	const call = "<tool_call>\n<function=Bash>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>"
	got := r.Parse(Input{Text: "plan</think>\n\nLook: " + call, Tools: remoteTools(), PromptTail: "<think>\n"})
	if got.Err != nil || got.Reasoning != "plan" || got.Text != "Look:" || len(got.Calls) != 1 || string(got.Calls[0].Args) != `{"command": "ls"}` {
		t.Errorf("Parse = %+v, want a thought, text and a call", got)
	}
	if got := r.Parse(Input{Text: "cut in the thought", Tools: remoteTools(), PromptTail: "<think>\n", Cut: true}); got.Text != "" || got.Reasoning != "cut in the thought" {
		t.Errorf("Parse of a cut thought = %+v", got)
	}
	cut := r.Parse(Input{Text: "x</think>" + call[:len(call)-40], Tools: remoteTools(), PromptTail: "<think>", Cut: true})
	if len(cut.Calls) != 0 || len(cut.Withheld) != 1 || !slices.Contains(cut.Flags, Truncated) {
		t.Errorf("Parse of a cut call = %+v, want it withheld", cut)
	}
	wrong := r.Parse(Input{Text: "x</think>" + strings.Replace(call, "command", "cmd", 1), Tools: remoteTools(), PromptTail: "<think>"})
	if len(wrong.Calls) != 0 || len(wrong.Withheld) != 1 || !slices.Contains(wrong.Flags, MissingRequired) {
		t.Errorf("Parse of a call that does not fit = %+v, want it withheld", wrong)
	}
	if got := r.Parse(Input{Text: "x</think>" + call, PromptTail: "<think>"}); len(got.Calls) != 0 || got.Text != call {
		t.Errorf("Parse without tools = %+v, want text", got)
	}
}

func TestRemoteFailsClosed(t *testing.T) {
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	for _, c := range []struct {
		name    string
		handler http.HandlerFunc
		message string
	}{
		{"server error", status(500, "Internal Server Error"), "500"},
		{"router without the route", status(404, ""), "404"},
		{"answer that is no JSON", status(200, "<html>"), "not what SGLang answers"},
		{"answer that breaks off", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"calls": [`)
		}, "EOF"},
		{"silence", func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}, "Timeout"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := httptest.NewServer(c.handler)
			defer s.Close()
			r, err := NewRemote(s.URL, "muse", "", &http.Client{Timeout: 100 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			got := r.Parse(Input{Text: "a call", Tools: remoteTools()})
			if got.Err == nil || !strings.Contains(got.Err.Error(), c.message) || got.Text != "" || got.Calls != nil || !got.IllFormed() {
				t.Errorf("Parse = %+v, want nothing but an error with %q", got, c.message)
			}
		})
	}
	for _, base := range []string{"", "10.0.0.2:30000", "ftp://x"} {
		if _, err := NewRemote(base, "muse", "", nil); err == nil {
			t.Errorf("NewRemote(%q): no error", base)
		}
	}
	if _, err := NewRemote("http://x", "", "", nil); err == nil {
		t.Error("NewRemote without parsers: no error")
	}
}
