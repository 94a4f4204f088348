package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/adapter/sglang"
)

// A place is where the engine is and what it says of itself.
type place struct {
	info    sglang.Info
	workers []string // URLs of servers: the URL itself, or a router's workers
	said    struct {
		Version   string `json:"version"`
		Context   int    `json:"context_length"`
		ToolCalls string `json:"tool_call_parser"`
		Reasoning string `json:"reasoning_parser"`
	}
}

// engine reaches the server, or the router and its workers.
func (d *doctor) engine(ctx context.Context) {
	if d.o.args.SGLangURL == "" {
		d.fail("give -sglang the URL of the server or router", "no engine is named")
		return
	}
	var err error
	if d.client, err = sglang.New(d.o.args.SGLangURL, sglang.Options{Attempts: 2}); err != nil {
		d.fail("correct -sglang", "%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := d.client.Health(ctx); err != nil {
		d.fail("start the engine, or correct -sglang and what lies between", "%s: %v", d.o.args.SGLangURL, err)
		return
	}
	if d.at.info, err = d.client.Info(ctx); err != nil {
		d.fail("start the engine, or correct -sglang and what lies between", "%s: %v", d.o.args.SGLangURL, err)
		return
	}
	base := strings.TrimRight(d.o.args.SGLangURL, "/")
	if err := get(ctx, base+"/server_info", &d.at.said); err != nil {
		d.warn("nothing: other checks tell", "it does not describe itself: %v", err)
	}
	d.at.workers = []string{base}
	kind := "server"
	if d.at.info.Router {
		kind = "router"
		if d.at.workers, err = workersOf(ctx, base); err != nil || len(d.at.workers) == 0 {
			d.fail("start the workers, or register them at the router", "the router lists no worker (%v)", err)
			return
		}
	}
	d.fine("a %s with %d workers serves %q, version %q", kind, len(d.at.workers), d.at.info.Model, d.at.said.Version)
}

// contextLength compares the engine's with what the trainer asks for.
func (d *doctor) contextLength(context.Context) {
	has, want := d.at.info.MaxContext, d.o.args.MaxContextLen
	switch {
	case has == 0:
		d.warn("give -max-context", "the engine does not say its context length")
	case want > has:
		d.warn("start the engine with a longer --context-length, or lower the trainer's limit", "the trainer asks for %d tokens, the engine has %d: the engine's count", want, has)
	default:
		d.fine("%d tokens, the trainer's limit is %d (0 is none)", has, want)
	}
}

// engineParsers compares names: the adapter parses by itself, but a server that
// was started with others is likely to serve another model.
func (d *doctor) engineParsers(context.Context) {
	said, args := d.at.said, d.o.args
	switch {
	case said.ToolCalls != "" && said.ToolCalls != args.ToolCallParser:
		d.warn("give the name that fits the model", "the server was started with --tool-call-parser %s, here it is %q", said.ToolCalls, args.ToolCallParser)
	case said.Reasoning != "" && said.Reasoning != args.ReasoningParser:
		d.warn("give the name that fits the model", "the server was started with --reasoning-parser %s, here it is %q", said.Reasoning, args.ReasoningParser)
	default:
		d.fine("the server names no others")
	}
}

// weightVersion sees whether samples can say which weights sampled them.
func (d *doctor) weightVersion(ctx context.Context) {
	var info struct {
		Version string `json:"weight_version"`
	}
	if err := get(ctx, strings.TrimRight(d.o.args.SGLangURL, "/")+"/model_info", &info); err != nil || info.Version == "" {
		d.warn("start the server with --weight-version, and have the trainer set it at each update", "the engine names no weight version (%v): samples will not say which weights sampled them", err)
		return
	}
	d.fine("%q", info.Version)
}

// probe is a prompt of the checkpoint's own template, some hundred tokens long.
func (d *doctor) probe() ([]int32, error) {
	c := conversations()[0]
	c.messages[0].Content += strings.Repeat(" Work with care and say what you do.", 40)
	text, err := d.tmpl.Render(c.messages, c.tools, renderOptions)
	if err != nil {
		return nil, err
	}
	return d.tok.AppendEncode(nil, text), nil
}

// generation asks for a few tokens; the client checks all that is in the answer.
func (d *doctor) generation(ctx context.Context) {
	prompt, err := d.probe()
	if err != nil {
		d.fail("the chat template refuses an ordinary conversation: serve another", "%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	resp, err := d.client.Generate(ctx, sglang.Request{InputIDs: prompt, Sampling: map[string]any{"max_new_tokens": 8, "temperature": 0.0}})
	if err != nil {
		d.fail("read the engine's log", "%v", err)
		return
	}
	d.fine("%d tokens with logprobs for a prompt of %d", len(resp.OutputIDs), len(prompt))
}

// aborts sees whether a generation can be taken out of the engine: at a weight
// update it has to be idle.
func (d *doctor) aborts(ctx context.Context) {
	prompt, err := d.probe()
	if err != nil {
		d.fail("", "%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	stop := make(chan struct{})
	timer := time.AfterFunc(time.Second, func() { close(stop) })
	defer timer.Stop()
	start := time.Now()
	resp, err := d.client.Generate(ctx, sglang.Request{
		InputIDs: prompt, Interrupt: stop, RoutingKey: "agentrl-doctor",
		Sampling: map[string]any{"max_new_tokens": 4096, "min_new_tokens": 4096, "ignore_eos": true},
	})
	const do = "let /abort_request through to each worker: without it an orphan holds up the next weight update"
	switch {
	case err != nil:
		d.fail(do, "%v", err)
	case resp.Finish.Type == "abort" && len(resp.OutputIDs) > 0:
		d.fine("a generation was ended %v after it was begun, %d tokens were kept", time.Since(start).Round(100*time.Millisecond), len(resp.OutputIDs))
	case resp.Finish.Type == "length" && time.Since(start) < 3*time.Second:
		d.fine("the engine was done with 4096 tokens before the abort")
	case resp.Finish.Type == "length":
		d.fail(do, "a generation was sampled to its end, %v after it was begun, though it was to end after one second", time.Since(start).Round(100*time.Millisecond))
	default:
		d.fail(do, "an aborted generation came back with %d tokens and finish %q: the abort did not reach the engine", len(resp.OutputIDs), resp.Finish.Type)
	}
}

// prefixCache sees whether a session's second turn finds what the first left.
func (d *doctor) prefixCache(ctx context.Context) {
	prompt, err := d.probe()
	if err != nil {
		d.fail("", "%v", err)
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cached := len(prompt)
	for i := range 2 * len(d.at.workers) { // a router that sends them anywhere may be lucky once
		resp, err := d.client.Generate(ctx, sglang.Request{InputIDs: prompt, RoutingKey: "agentrl-doctor", Sampling: map[string]any{"max_new_tokens": 1}})
		if err != nil {
			d.fail("read the engine's log", "%v", err)
			return
		}
		if i > 0 {
			cached = min(cached, resp.CachedTokens)
		}
	}
	if cached == 0 {
		d.warn("give a router --policy consistent_hashing (or cache_aware), and servers their prefix cache", "the same prompt with the same routing key found nothing cached: every turn will be computed from its beginning")
		return
	}
	d.fine("%d of %d tokens were cached when they came again", cached, len(prompt))
}

// tokenIDs compares ours with the server's own rendering and tokenizing.
func (d *doctor) tokenIDs(ctx context.Context) {
	worker := d.at.workers[0]
	same := 0
	for _, c := range conversations() {
		text, err := d.tmpl.Render(c.messages, c.tools, renderOptions)
		if err != nil {
			continue // the template's own refusal: the server's is the same
		}
		ours := d.tok.AppendEncode(nil, text)
		theirs, err := tokenize(ctx, worker, c)
		switch {
		case err != nil:
			d.warn("nothing, if the server is older than /tokenize with messages; else read its log", "%s: the server's ids are not known: %v", c.name, err)
			return
		case !slices.Equal(ours, theirs):
			at := 0
			for at < min(len(ours), len(theirs)) && ours[at] == theirs[at] {
				at++
			}
			d.fail("give -checkpoint the very directory that the server serves, with its --chat-template", "%s: %d ids here, %d at the server; they differ from id %d on: here %q, there %q",
				c.name, len(ours), len(theirs), at, d.excerpt(ours, at), d.excerpt(theirs, at))
			return
		}
		same++
	}
	d.fine("%d conversations with messages and tools come out as the same ids", same)
}

func (d *doctor) excerpt(ids []int32, at int) string {
	return d.tok.Decode(ids[min(at, len(ids)):min(at+8, len(ids))])
}

func tokenize(ctx context.Context, worker string, c conversation) ([]int32, error) {
	body, err := json.Marshal(map[string]any{"messages": c.wireMessages(), "tools": c.wireTools(), "add_special_tokens": false})
	if err != nil {
		return nil, err
	}
	var answer struct {
		Tokens []int32 `json:"tokens"`
	}
	err = call(ctx, http.MethodPost, worker+"/tokenize", body, &answer)
	return answer.Tokens, err
}

func workersOf(ctx context.Context, router string) ([]string, error) {
	var list struct {
		Workers []struct {
			URL string `json:"url"`
		} `json:"workers"`
	}
	err := get(ctx, router+"/workers", &list)
	var urls []string
	for _, w := range list.Workers {
		url, _, _ := strings.Cut(w.URL, "@") // a data-parallel rank may follow
		urls = append(urls, strings.TrimRight(url, "/"))
	}
	return urls, err
}

func get(ctx context.Context, url string, v any) error {
	return call(ctx, http.MethodGet, url, nil, v)
}

func call(ctx context.Context, method, url string, body []byte, v any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 8<<20))
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d: %.200s", url, res.StatusCode, data)
	}
	return json.Unmarshal(data, v)
}
