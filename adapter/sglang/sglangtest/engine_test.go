package sglangtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
	"github.com/agentrl-go/agentrl/internal/memhttp"
)

// letters decodes ids as letters.
func letters(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteByte(byte(id))
	}
	return b.String()
}

func idsOf(text string) []int32 {
	var ids []int32
	for _, c := range []byte(text) {
		ids = append(ids, int32(c))
	}
	return ids
}

const eos = 0

func says(text string) sglangtest.Policy {
	return func(sglangtest.Call) sglangtest.Output { return sglangtest.Output{IDs: idsOf(text)} }
}

func engine(o sglangtest.Options) *sglangtest.Engine {
	o.EOS, o.Decode = []int32{eos}, letters
	if o.PageSize == 0 {
		o.PageSize = 1
	}
	return sglangtest.New(o)
}

// post asks a handler and returns status and body.
func post(h http.Handler, path, body string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

type answer struct {
	Text      string  `json:"text"`
	OutputIDs []int32 `json:"output_ids"`
	Meta      struct {
		Finish        map[string]any `json:"finish_reason"`
		Prompt        *int           `json:"prompt_tokens"`
		Cached        *int           `json:"cached_tokens"`
		Completion    int            `json:"completion_tokens"`
		WeightVersion string         `json:"weight_version"`
		LogProbs      [][3]any       `json:"output_token_logprobs"`
	} `json:"meta_info"`
}

func generate(t *testing.T, h http.Handler, body string) answer {
	t.Helper()
	status, text := post(h, "/generate", body)
	var a answer
	if err := json.Unmarshal([]byte(text), &a); status != 200 || err != nil {
		t.Fatalf("status %d, %v: %s", status, err, text)
	}
	return a
}

func TestValidation(t *testing.T) {
	e := engine(sglangtest.Options{Policy: says("x"), ContextLen: 100})
	long := strings.TrimSuffix(strings.Repeat("1,", 100), ",")
	for _, c := range []struct {
		name, body string
		status     int
		says       string
	}{
		{"nothing", `{}`, 400, "Either text, input_ids or input_embeds should be provided."},
		{"empty ids", `{"input_ids":[]}`, 400, "input_ids cannot be empty."},
		{"no JSON", `{`, 400, `"object":"error"`},
		{"ids of text", `{"input_ids":["a"]}`, 400, `"type":"Bad Request"`},
		{"unknown key", `{"input_ids":[1],"sampling_params":{"max_tokens":5}}`, 500, "Internal Server Error"},
		{"text as number", `{"input_ids":[1],"sampling_params":{"temperature":"1"}}`, 500, "Internal Server Error"},
		{"top_p", `{"input_ids":[1],"sampling_params":{"top_p":2}}`, 400, "top_p must be in (0, 1], got 2."},
		{"top_k", `{"input_ids":[1],"sampling_params":{"top_k":0}}`, 400, "top_k must be -1"},
		{"max_new_tokens", `{"input_ids":[1],"sampling_params":{"max_new_tokens":-1}}`, 400, "max_new_tokens must be at least 0, got -1."},
		{"prompt too long", `{"input_ids":[` + long + `]}`, 400, "The input (100 tokens) is longer than the model's context length (100 tokens)."},
		{"sum too long", `{"input_ids":[1],"sampling_params":{"max_new_tokens":100}}`, 400, "exceeds the model's maximum context length of 100 tokens"},
		{"unknown field", `{"input_ids":[1],"whatever":1,"sampling_params":{"max_new_tokens":5}}`, 200, `"finish_reason"`},
	} {
		if status, body := post(e, "/generate", c.body); status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%s: status %d, body %s; want %d and %q", c.name, status, body, c.status, c.says)
		}
	}
	if e.Live() != 0 {
		t.Error("refused requests are live")
	}
}

func TestHowGenerationsEnd(t *testing.T) {
	e := engine(sglangtest.Options{Policy: says("hello world")})
	for _, c := range []struct {
		name, params, text string
		ids                string
		finish             map[string]any
	}{
		{"eos", `{}`, "hello world", "hello world\x00", map[string]any{"type": "stop", "matched": 0.0}},
		{"eos kept in the text", `{"no_stop_trim":true}`, "hello world\x00", "hello world\x00", map[string]any{"type": "stop", "matched": 0.0}},
		{"length", `{"max_new_tokens":3}`, "hel", "hel", map[string]any{"type": "length", "length": 3.0}},
		{"stop token", `{"stop_token_ids":[111]}`, "hell", "hello", map[string]any{"type": "stop", "matched": 111.0}},
		{"stop string", `{"stop":"wo","no_stop_trim":true}`, "hello wo", "hello wo", map[string]any{"type": "stop", "matched": "wo"}},
	} {
		a := generate(t, e, `{"input_ids":[1],"return_logprob":true,"sampling_params":`+c.params+`}`)
		if a.Text != c.text || letters(a.OutputIDs) != c.ids || a.Meta.Finish["type"] != c.finish["type"] || a.Meta.Finish["matched"] != c.finish["matched"] || a.Meta.Finish["length"] != c.finish["length"] {
			t.Errorf("%s: text %q, ids %q, finish %v", c.name, a.Text, letters(a.OutputIDs), a.Meta.Finish)
		}
		if len(a.Meta.LogProbs) != len(a.OutputIDs) || a.Meta.Completion != len(a.OutputIDs) || a.Meta.LogProbs[0][2] != nil {
			t.Errorf("%s: %d logprobs, %d completion tokens of %d ids", c.name, len(a.Meta.LogProbs), a.Meta.Completion, len(a.OutputIDs))
		}
	}
}

func TestPrefixCache(t *testing.T) {
	e := engine(sglangtest.Options{Policy: says("ab")})
	first := generate(t, e, `{"input_ids":[1,2,3]}`)
	second := generate(t, e, `{"input_ids":[1,2,3,97,98,0,7]}`)
	third := generate(t, e, `{"input_ids":[1,2,9,9]}`)
	if *first.Meta.Cached != 0 || *second.Meta.Cached != 6 || *third.Meta.Cached != 2 {
		t.Errorf("cached %d, %d, %d; want 0, 6, 2", *first.Meta.Cached, *second.Meta.Cached, *third.Meta.Cached)
	}
	post(e, "/flush_cache", "")
	if again := generate(t, e, `{"input_ids":[1,2,3]}`); *again.Meta.Cached != 0 {
		t.Errorf("cached %d after a flush", *again.Meta.Cached)
	}
}

func TestStreams(t *testing.T) {
	for _, c := range []struct {
		incremental bool
		want        []string
	}{{false, []string{"a", "ab", "ab\x00"}}, {true, []string{"a", "b", "\x00"}}} {
		e := engine(sglangtest.Options{Policy: says("ab"), Incremental: c.incremental})
		status, body := post(e, "/generate", `{"input_ids":[1],"stream":true,"return_logprob":true}`)
		var got []string
		for frame := range strings.SplitSeq(body, "\n\n") {
			var a answer
			if json.Unmarshal([]byte(strings.TrimPrefix(frame, "data: ")), &a) == nil && a.OutputIDs != nil {
				got = append(got, letters(a.OutputIDs))
			}
		}
		if status != 200 || !slices.Equal(got, c.want) || !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("incremental %v: status %d, chunks %q, want %q", c.incremental, status, got, c.want)
		}
	}
}

func TestAbortsQueuesAndPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memhttp.New()
		defer n.Close()
		e := engine(sglangtest.Options{Policy: says(strings.Repeat("x", 100)), PerToken: time.Second, MaxRunning: 1, MaxQueued: 1})
		url := n.Handle("e", e)
		ask := func(rid string) (int, answer, string) {
			res, err := n.Client().Post(url+"/generate", "application/json", strings.NewReader(`{"rid":"`+rid+`","input_ids":[1],"return_logprob":true,"sampling_params":{"max_new_tokens":200}}`))
			if err != nil {
				return 0, answer{}, err.Error()
			}
			defer res.Body.Close()
			data, _ := io.ReadAll(res.Body)
			var a answer
			json.Unmarshal(data, &a)
			return res.StatusCode, a, string(data)
		}
		var wg sync.WaitGroup
		var running, queued answer
		wg.Go(func() { _, running, _ = ask("running") })
		synctest.Wait()
		wg.Go(func() { _, queued, _ = ask("queued") })
		synctest.Wait()
		if status, _, body := ask("third"); status != 503 || !strings.Contains(body, "The request queue is full.") {
			t.Errorf("full queue: status %d, body %s", status, body)
		}
		time.Sleep(10500 * time.Millisecond)
		post(e, "/abort_request", `{"rid":"run"}`) // no live id has this name: nothing happens
		post(e, "/abort_request", `{"rid":"queued"}`)
		synctest.Wait()
		if queued.Meta.Finish["message"] != "Abort in waiting queue" || queued.Meta.Prompt != nil || len(queued.OutputIDs) != 0 {
			t.Errorf("aborted in the queue: %+v", queued)
		}
		post(e, "/abort_request", `{"rid":"running"}`)
		wg.Wait()
		if running.Meta.Finish["type"] != "abort" || len(running.OutputIDs) != 11 {
			t.Errorf("aborted while running: %d tokens, %v; want 11: ten and one more step", len(running.OutputIDs), running.Meta.Finish)
		}
		if status, _ := post(e, "/pause_generation", `{}`); status != 200 {
			t.Errorf("pause: status %d", status)
		}
		var parked answer
		wg.Go(func() { _, parked, _ = ask("parked") })
		synctest.Wait()
		post(e, "/abort_request", `{"rid":"parked"}`) // the scheduler does not know it yet
		time.Sleep(time.Hour)
		if status, body := post(e, "/flush_cache", ""); status != 400 {
			t.Errorf("flush with a request pending: status %d, %s", status, body)
		}
		if status, _ := post(e, "/release_memory_occupation", ""); status != 200 {
			t.Errorf("release_memory_occupation in a pause: status %d", status)
		}
		e.SetWeightVersion("w2")
		post(e, "/continue_generation", `{}`)
		wg.Wait()
		if parked.Meta.Finish["type"] != "stop" || parked.Meta.WeightVersion != "w2" {
			t.Errorf("parked behind the pause: %v, version %q", parked.Meta.Finish, parked.Meta.WeightVersion)
		}
	})
}

func TestLateDisconnectHoldsTheSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memhttp.New()
		defer n.Close()
		e := engine(sglangtest.Options{Policy: says(strings.Repeat("x", 100)), PerToken: time.Second, DisconnectPoll: 4 * time.Second})
		ctx, cancel := context.WithCancel(context.Background())
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.Handle("e", e)+"/generate", bytes.NewReader([]byte(`{"input_ids":[1]}`)))
		if err != nil {
			t.Fatal(err)
		}
		go n.Client().Do(req)
		time.Sleep(2500 * time.Millisecond)
		cancel()
		time.Sleep(3 * time.Second)
		if e.Live() != 1 {
			t.Error("the slot is free before the engine's next poll")
		}
		time.Sleep(2 * time.Second)
		if g := e.Log()[0]; e.Live() != 0 || !g.Left || g.Wasted == 0 {
			t.Errorf("%d live after the poll; %+v", e.Live(), g)
		}
	})
}
