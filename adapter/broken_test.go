package adapter_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/internal/memhttp"
)

// everyItem is an answer with an item of each kind that a Responses stream has.
var everyItem = "<think>R-why</think>M-text." + callText("bash", `{"command":"F-ls"}`) + callText("apply_patch", `{"input":"C-patch"}`) +
	callText("spawn_agent", `{"message":"N-sub"}`) + `<tool_call>{"name":"bash","arguments":{"command":"B-bad`

// itemMarks are what each of them says, in order.
var itemMarks = []string{"R-why", "M-text", "F-ls", "C-patch", "N-sub", "B-bad"}

func everyTool() []any {
	function := func(name string) map[string]any {
		return map[string]any{"type": "function", "name": name, "parameters": map[string]any{"type": "object", "properties": map[string]any{}}}
	}
	return []any{function("bash"), map[string]any{"type": "custom", "name": "apply_patch"},
		map[string]any{"type": "namespace", "name": "multi_agent_v1", "tools": []any{function("spawn_agent")}}}
}

// A breaker is a front of the adapter that breaks the first stream off after
// some events: behind the adapter, which takes the turn for delivered, or in
// it, by a write that fails.
type breaker struct {
	next   http.Handler
	after  int // events; negative for all
	within bool
	broken bool
}

func (b *breaker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if b.broken || b.after < 0 || r.Method != http.MethodPost {
		b.next.ServeHTTP(w, r)
		return
	}
	b.broken = true
	if b.within {
		b.next.ServeHTTP(&failingWriter{ResponseWriter: w, left: b.after}, r)
		return
	}
	whole := httptest.NewRecorder()
	b.next.ServeHTTP(whole, r)
	events := bytes.SplitAfter(whole.Body.Bytes(), []byte("\n\n"))
	w.Header().Set("Content-Type", whole.Header().Get("Content-Type"))
	w.Write(bytes.Join(events[:b.after], nil))
	http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// A failingWriter fails from some write on, on a connection that is well.
type failingWriter struct {
	http.ResponseWriter
	left int
}

func (w *failingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left--; w.left < 0 {
		return 0, errors.New("broken pipe")
	}
	return w.ResponseWriter.Write(p)
}

// newBreakingRig makes a rig whose adapter stands behind a breaker.
func newBreakingRig(t *testing.T, b *breaker, texts ...string) *rig {
	t.Helper()
	network := memhttp.New()
	t.Cleanup(network.Close)
	return rigOn(t, sglangtest.Options{Policy: say(texts...)}, func(name string, h http.Handler) (string, *http.Client) {
		if name == "adapter" {
			b.next = h
			h = b
		}
		return network.Handle(name, h), network.Client()
	}, nil)
}

// received is what a client has of a stream.
type received struct {
	events    int
	items     []any // those that are done
	completed bool
	err       error // how reading ended; nil for a clean end
}

// stream asks and reads events to the end.
func (r *rig) stream(token string, body map[string]any) (got received) {
	r.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		r.t.Fatal(err)
	}
	req, _ := http.NewRequest(http.MethodPost, r.url+"/v1/responses", bytes.NewReader(data))
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Originator", "codex_exec")
	res, err := r.client.Do(req)
	if err != nil {
		return received{err: err}
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	for {
		text, err := lines.ReadString('\n')
		if err == io.EOF {
			return got
		}
		if err != nil {
			got.err = err
			return got
		}
		data, ok := strings.CutPrefix(text, "data: ")
		if !ok {
			continue
		}
		var e struct {
			Type string
			Item map[string]any
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			r.t.Fatal(err)
		}
		got.events++
		got.completed = got.completed || e.Type == "response.completed"
		if e.Type == "response.output_item.done" {
			got.items = append(got.items, e.Item)
		}
	}
}

// results answers the calls among items, as Codex does with what it has.
func results(items []any) (outputs []any) {
	for _, it := range items {
		it := it.(map[string]any)
		if id, ok := it["call_id"].(string); ok {
			outputs = append(outputs, map[string]any{"type": strings.TrimSuffix(it["type"].(string), "_call") + "_call_output", "call_id": id, "output": "done"})
		}
	}
	return outputs
}

// TestResponsesStreamBrokenAnywhere breaks a stream with every kind of item off
// after each of its events. The client never reads an end that looks whole; it
// keeps the items that are done, as Codex does, and asks again with them; it is
// then answered on what it has, not on what was lost.
func TestResponsesStreamBrokenAnywhere(t *testing.T) {
	input := []any{map[string]any{"role": "user", "content": "fix it"}}
	ask := map[string]any{"stream": true, "input": input, "tools": everyTool()}
	whole := newBreakingRig(t, &breaker{after: -1}, everyItem)
	full := whole.stream(whole.open("s", adapter.SessionOptions{}).Token, ask)
	if full.err != nil || !full.completed || len(full.items) != len(itemMarks) {
		t.Fatalf("the whole stream: %+v", full)
	}
	for _, within := range []bool{false, true} {
		for after := range full.events {
			b := &breaker{after: after, within: within}
			r := newBreakingRig(t, b, everyItem, "All done.")
			ses := r.open("s", adapter.SessionOptions{})
			got := r.stream(ses.Token, ask)
			if got.err == nil || got.completed || got.events != after {
				t.Fatalf("broken off after %d events (within %v): %d were read, completed %v, error %v", after, within, got.events, got.completed, got.err)
			}
			again := map[string]any{"stream": true, "input": slices.Concat(input, got.items, results(got.items)), "tools": everyTool()}
			if got := r.stream(ses.Token, again); got.err != nil || !got.completed {
				t.Fatalf("after %d events (within %v): asked again: %+v", after, within, got)
			}
			checkBroken(t, r, b, len(got.items))
		}
	}
	t.Logf("figure: %d places to break off, in the adapter and behind it: no clean end, each answered on the items that the client has", full.events)
}

// checkBroken looks at what a session has after a stream with so many whole
// items and the turn that came after it.
func checkBroken(t *testing.T, r *rig, b *breaker, items int) {
	t.Helper()
	log := r.engine.Log()
	prompt := byteTokenizer{}.Decode(log[1].Prompt)
	for i, mark := range itemMarks {
		if strings.Contains(prompt, mark) != (i < items) {
			t.Errorf("after %d items (event %d): the second prompt has item %d (%s): %v\n%s", items, b.after, i, mark, i >= items, prompt)
		}
	}
	rec := r.finish("s")
	want, abandoned := 2, 0
	switch {
	case b.within:
		want, abandoned = 1, 1 // the adapter knows that it was not delivered
	case items == 0:
		abandoned = 1 // asked the same again
	}
	if rec.Turns != want || rec.Abandoned != abandoned {
		t.Errorf("event %d (within %v): %d turns, %d abandoned, want %d, %d", b.after, b.within, rec.Turns, rec.Abandoned, want, abandoned)
	}
	marked := false
	for _, seg := range rec.Segments {
		marked = marked || slices.Contains(seg.Flags, trajectory.FlagDropped)
		if seg.Untrained != "" {
			t.Errorf("event %d: segment not trainable: %s", b.after, seg.Untrained)
		}
	}
	if half := !b.within && items > 0 && items < len(itemMarks); marked != half {
		t.Errorf("event %d (within %v), %d items: marked as dropped: %v", b.after, b.within, items, marked)
	}
}

// TestNoProtocolEndsCleanlyAfterAFailedWrite fails each write of an answer in
// each protocol, on a connection that would take more.
func TestNoProtocolEndsCleanlyAfterAFailedWrite(t *testing.T) {
	message := map[string]any{"role": "user", "content": "x"}
	for _, path := range []string{"/v1/messages", "/v1/chat/completions", "/v1/responses"} {
		for _, stream := range []bool{true, false} {
			places := 0
			for after := 0; ; after++ {
				r := newBreakingRig(t, &breaker{after: after, within: true}, "<think>why</think>text"+callText("bash", `{"command":"ls"}`))
				ses := r.open("s", adapter.SessionOptions{})
				_, body, err := r.postTo(context.Background(), path, ses.Token,
					map[string]any{"stream": stream, "messages": []any{message}, "input": []any{message}})
				rec := r.finish("s")
				if err == nil && rec.Turns == 1 {
					break // no write failed
				}
				places++
				if err == nil || rec.Turns != 0 || rec.Abandoned != 1 {
					t.Fatalf("%s, stream %v, write %d: read %q, error %v; %d turns, %d abandoned", path, stream, after, body, err, rec.Turns, rec.Abandoned)
				}
			}
			if stream && places < 5 || places == 0 {
				t.Errorf("%s, stream %v: %d writes", path, stream, places)
			}
		}
	}
}
