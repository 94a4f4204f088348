package adapter_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/parse"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
)

func TestTurnsContinueTheVeryIDs(t *testing.T) {
	r := newRig(t, sglangtest.Options{Policy: say(
		"<think>look</think>Looking."+callText("bash", `{ "command" : "ls" }`),
		callText("bash", `{"command":"a"}`)+callText("bash", `{"command":"b"}`),
		"Done.",
	)})
	ses := r.open("s", adapter.SessionOptions{Sampling: map[string]any{"temperature": 0.5}})
	c := &conversation{rig: r, token: ses.Token, tools: bashTool()}
	first := c.ask(user("fix it"))
	if first["reasoning_content"] != "look" || first["content"] != "Looking." {
		t.Errorf("first message = %v", first)
	}
	second := c.ask(toolResult(callIDOf(t, first, 0), "file"))
	last := c.ask(toolResult(callIDOf(t, second, 1), "B"), toolResult(callIDOf(t, second, 0), "A"))
	if last["content"] != "Done." {
		t.Errorf("last message = %v, want content without the stop token", last)
	}
	log := r.engine.Log()
	checkPrefixes(t, log)
	tail := byteTokenizer{}.Decode(log[2].Prompt[len(log[1].Prompt)+len(log[1].Output):])
	if want := "\n<|im_start|>tool\nA<|im_end|>\n<|im_start|>tool\nB<|im_end|>\n<|im_start|>assistant\n"; tail != want {
		t.Errorf("third prompt ends in %q, want %q: results in the order of the calls", tail, want)
	}
	rec := r.finish("s")
	if rec.Turns != 3 || len(rec.Segments) != 1 || rec.Rewrites["tool_results_ordered"] != 1 {
		t.Fatalf("record: %d turns, %d segments, rewrites %v", rec.Turns, len(rec.Segments), rec.Rewrites)
	}
	var trained []int32
	seg := rec.Segments[0]
	response := seg.Tokens[len(seg.Tokens)-len(seg.LossMask):]
	for i, m := range seg.LossMask {
		if m == 1 {
			trained = append(trained, response[i])
		}
	}
	if want := slices.Concat(log[0].Output, log[1].Output, log[2].Output); !slices.Equal(trained, want) {
		t.Errorf("trained tokens are %q, want what was sampled: %q", byteTokenizer{}.Decode(trained), byteTokenizer{}.Decode(want))
	}
	if len(r.infos) != 3 || r.infos[2].Prompt != len(log[2].Prompt) || r.infos[2].Cached == 0 {
		t.Errorf("OnTurn was told %+v", r.infos)
	}
	if err := r.server.DropSession("s"); err != nil || r.server.Sessions() != 0 {
		t.Errorf("DropSession: %v, %d sessions left", err, r.server.Sessions())
	}
}

func TestStreamIsOneAnswer(t *testing.T) {
	r := newRig(t, sglangtest.Options{Policy: say("<think>hm</think>Hi." + callText("bash", `{"command":"ls"}`))})
	ses := r.open("s", adapter.SessionOptions{})
	status, body, err := r.post(context.Background(), ses.Token, map[string]any{
		"model": "m", "stream": true, "stream_options": map[string]any{"include_usage": true}, "messages": []any{user("x")}, "tools": bashTool(),
	})
	if err != nil || status != 200 {
		t.Fatalf("status %d, error %v", status, err)
	}
	var reasoning, text, args, finish string
	var usage map[string]any
	for line := range strings.SplitSeq(string(body), "\n") {
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || data == "[DONE]" {
			continue
		}
		var chunk struct {
			Choices []struct {
				Delta struct {
					Content   string `json:"content"`
					Reasoning string `json:"reasoning_content"`
					Calls     []struct {
						Function struct{ Arguments string } `json:"function"`
					} `json:"tool_calls"`
				} `json:"delta"`
				Finish string `json:"finish_reason"`
			} `json:"choices"`
			Usage map[string]any `json:"usage"`
		}
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("chunk %s: %v", data, err)
		}
		for _, c := range chunk.Choices {
			text += c.Delta.Content
			reasoning += c.Delta.Reasoning
			finish += c.Finish
			for _, call := range c.Delta.Calls {
				args += call.Function.Arguments
			}
		}
		if chunk.Usage != nil {
			usage = chunk.Usage
		}
	}
	if reasoning != "hm" || text != "Hi." || args != `{"command":"ls"}` || finish != "tool_calls" || usage["prompt_tokens"] == nil {
		t.Errorf("stream says %q, %q, %q, %q, usage %v", reasoning, text, args, finish, usage)
	}
	if !strings.HasSuffix(string(body), "data: [DONE]\n\n") {
		t.Errorf("stream ends in %q", body[max(0, len(body)-40):])
	}
}

func TestClientThatLeavesFreesTheEngine(t *testing.T) {
	r := newRig(t, sglangtest.Options{Policy: say(strings.Repeat("x", 1000)), PerToken: 20 * time.Millisecond, DisconnectPoll: 4 * time.Second})
	ses := r.open("s", adapter.SessionOptions{})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		_, _, err := r.post(ctx, ses.Token, map[string]any{"messages": []any{user("x")}})
		done <- err
	}()
	if err := r.engine.WaitLive(1, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("the cancelled request succeeded")
	}
	if err := r.engine.WaitLive(0, time.Second); err != nil {
		t.Fatal(err)
	}
	rec := r.finish("s")
	if rec.Turns != 0 || rec.Abandoned != 1 {
		t.Errorf("record: %d turns, %d abandoned, want 0 and 1", rec.Turns, rec.Abandoned)
	}
}

func TestRefusals(t *testing.T) {
	r := newRig(t, sglangtest.Options{Policy: say("ok")}, func(o *adapter.Options) { o.MaxContext = 300 })
	ses := r.open("s", adapter.SessionOptions{MaxTurns: 1})
	other := r.open("sealed", adapter.SessionOptions{})
	if err := r.server.SealSession(context.Background(), "sealed"); err != nil {
		t.Fatal(err)
	}
	one := map[string]any{"messages": []any{user("x")}}
	for _, c := range []struct {
		name, token string
		body        map[string]any
		status      int
		says        string
	}{
		{"no token", "", one, 403, "no session has this token"},
		{"wrong token", "guess", one, 403, "no session has this token"},
		{"session id as token", "s", one, 403, "no session has this token"},
		{"sealed", other.Token, one, 403, "no session has this token"},
		{"no messages", ses.Token, map[string]any{}, 400, "messages"},
		{"overlong", ses.Token, map[string]any{"messages": []any{user(strings.Repeat("y", 400))}}, 400, "context_length_exceeded"},
		{"good", ses.Token, one, 200, "ok"},
		{"turns spent", ses.Token, map[string]any{"messages": []any{user("z")}}, 400, "budget of 1 turns"},
	} {
		status, body, err := r.post(context.Background(), c.token, c.body)
		if err != nil || status != c.status || !strings.Contains(string(body), c.says) {
			t.Errorf("%s: status %d, error %v, body %s; want %d and %q", c.name, status, err, body, c.status, c.says)
		}
	}
	if strings.Contains(r.log.String(), ses.Token) {
		t.Error("the log holds a token")
	}
}

func TestEngineFaultIsTheSessionsError(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault sglangtest.Fault
		kind  sglang.Kind
	}{
		{"null logprob", sglangtest.Fault{Null: true}, sglang.BadOutput},
		{"NaN", sglangtest.Fault{NaN: true}, sglang.BadOutput},
		{"crash", sglangtest.Fault{Reset: true}, sglang.Unavailable},
		{"503", sglangtest.Fault{Status: 503, Body: `{"message":"full"}`}, sglang.Unavailable},
		{"500", sglangtest.Fault{Status: 500, Body: "Internal Server Error"}, sglang.Failed},
		{"cut answer", sglangtest.Fault{CutBody: true}, sglang.Unavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t, sglangtest.Options{Policy: func(sglangtest.Call) sglangtest.Output {
				return sglangtest.Output{IDs: []int32{'a'}, Fault: &c.fault}
			}})
			ses := r.open("s", adapter.SessionOptions{})
			status, _, err := r.post(context.Background(), ses.Token, map[string]any{"messages": []any{user("x")}})
			if err != nil || status == 200 {
				t.Errorf("status %d, error %v, want a refusal", status, err)
			}
			err = r.server.SealSession(context.Background(), "s")
			var engine *sglang.Error
			if !errors.As(err, &engine) || engine.Kind != c.kind {
				t.Errorf("SealSession: %v, want an engine error of kind %v", err, c.kind)
			}
			if rec, err := r.server.FinishSession(context.Background(), "s"); err != nil || rec.Turns != 0 {
				t.Errorf("FinishSession: %d turns, %v", rec.Turns, err)
			}
		})
	}
}

// panicking is a parser with a fault.
type panicking struct{}

func (panicking) Parse(parse.Input) parse.Result { panic("fault in the parser") }

func TestPanicInATurnIsTheSessionsError(t *testing.T) {
	r := newRig(t, sglangtest.Options{Policy: say("x")}, func(o *adapter.Options) { o.Parser = panicking{} })
	ses := r.open("s", adapter.SessionOptions{})
	status, _, err := r.post(context.Background(), ses.Token, map[string]any{"messages": []any{user("x")}})
	if err != nil || status != 400 {
		t.Errorf("status %d, error %v, want 400", status, err)
	}
	if err := r.server.SealSession(context.Background(), "s"); err == nil || !strings.Contains(err.Error(), "fault in the parser") {
		t.Errorf("SealSession: %v, want the panic", err)
	}
}
