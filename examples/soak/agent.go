//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
)

// An agent is a harness whose agents run in this process and do what their
// plans say. It is safe for concurrent use.
type agent struct {
	boxes  *e2btest.Server
	client *http.Client
	plans  sync.Map // workdir → *plan
}

func newAgent(boxes *e2btest.Server) *agent {
	return &agent{boxes: boxes, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
}

func (a *agent) set(workdir string, p *plan) { a.plans.Store(workdir, p) }

// DialsBack reports false: the agents run in this process.
func (a *agent) DialsBack() bool { return false }

// Install does nothing.
func (a *agent) Install(context.Context, sandbox.Sandbox) error { return nil }

// Run does what the plan of the job's work directory says.
func (a *agent) Run(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
	held, _ := a.plans.Load(job.Workdir)
	p := held.(*plan)
	report := harness.Report{Outcome: harness.Finished, Version: "soak"}
	history := []json.RawMessage{message("user", job.Prompt)}
	for turn := range p.turns {
		if p.leave && turn == 0 {
			a.leave(ctx, job, history)
		}
		answer, err := a.ask(ctx, job, history, p.stream, 0)
		if err != nil && ctx.Err() != nil {
			return report, context.Cause(ctx)
		}
		if err != nil {
			report.Outcome, report.Log, report.Exit.Code = harness.OutcomeOf(err.Error()), err.Error(), 1
			return report, nil
		}
		report.Turns++
		history = append(append(history, answer.raw), next(answer)...)
	}
	return a.finish(ctx, sb, job, p, report, history)
}

// finish is what the agent does after its turns.
func (a *agent) finish(ctx context.Context, sb sandbox.Sandbox, job harness.Job, p *plan, report harness.Report, history []json.RawMessage) (harness.Report, error) {
	text := p.want
	switch p.end {
	case nothing:
		return report, nil
	case crash:
		report.Outcome, report.Exit.Code = harness.Crashed, 137
		return report, nil
	case vanish:
		a.leave(ctx, job, history)
		report.Outcome, report.Exit.Code = harness.Crashed, 1
		return report, nil
	case budget:
		select {
		case <-job.Stop:
		case <-ctx.Done():
			return report, context.Cause(ctx)
		}
		report.Outcome, report.Exit.State = harness.Budget, sandbox.TimedOut
		return report, nil
	case killed:
		a.boxes.Kill(sb.ID())
	case wrong:
		text = "no idea"
	}
	path := job.Workdir + "/" + answerFile
	if p.image == light {
		return report, sb.WriteFile(ctx, path, sandbox.AgentUser, strings.NewReader(text))
	}
	exit, err := sandbox.RunDetached(ctx, sb, sandbox.Detached{Stop: job.Stop, Cmd: sandbox.Cmd{
		Script: `sleep 60 & printf %s "$TEXT" > "$FILE"`, User: sandbox.AgentUser, Env: map[string]string{"TEXT": text, "FILE": path}}})
	report.Exit = exit
	return report, err
}

// leave asks for a long turn and is gone before it ends.
func (a *agent) leave(ctx context.Context, job harness.Job, history []json.RawMessage) {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	_, _ = a.ask(ctx, job, history, true, slowTurn)
}

// A reply is the model's message, as it is sent back in the next request.
type reply struct {
	Content   string `json:"content"`
	Reasoning string `json:"reasoning_content,omitempty"`
	Calls     []call `json:"tool_calls,omitempty"`
	raw       json.RawMessage
}

type call struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// ask asks for one turn. limit is the length of the answer; 0 leaves it to the trainer.
func (a *agent) ask(ctx context.Context, job harness.Job, history []json.RawMessage, stream bool, limit int) (reply, error) {
	tools := json.RawMessage(`[{"type":"function","function":{"name":"bash","parameters":{"type":"object","properties":{"command":{"type":"string"}}}}}]`)
	request := map[string]any{"model": job.Model, "messages": history, "tools": tools, "stream": stream}
	if limit > 0 {
		request["max_tokens"] = limit
	}
	body, err := json.Marshal(request)
	if err != nil {
		return reply{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, job.BaseURL+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+job.Token)
	res, err := a.client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(res.Body)
		return reply{}, fmt.Errorf("HTTP %d: %.300s", res.StatusCode, text)
	}
	if stream {
		return readStream(res.Body)
	}
	var answer struct {
		Choices []struct{ Message json.RawMessage }
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || len(answer.Choices) == 0 {
		return reply{}, fmt.Errorf("stream disconnected: %v, %d choices", err, len(answer.Choices))
	}
	r := reply{raw: answer.Choices[0].Message}
	return r, json.Unmarshal(r.raw, &r)
}

// readStream puts a streamed answer together.
func readStream(body io.Reader) (reply, error) {
	var r reply
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		switch {
		case !ok:
			continue
		case data == "[DONE]":
			raw, err := json.Marshal(map[string]any{"role": "assistant", "content": r.Content, "reasoning_content": r.Reasoning, "tool_calls": r.Calls})
			r.raw = raw
			return r, err
		}
		var chunk struct{ Choices []struct{ Delta reply } }
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			return r, err
		}
		for _, c := range chunk.Choices {
			r.add(c.Delta)
		}
	}
	return r, fmt.Errorf("stream disconnected: %v", lines.Err())
}

func (r *reply) add(delta reply) {
	r.Content += delta.Content
	r.Reasoning += delta.Reasoning
	for _, c := range delta.Calls {
		for len(r.Calls) <= c.Index {
			r.Calls = append(r.Calls, call{Index: len(r.Calls), Type: "function"})
		}
		at := &r.Calls[c.Index]
		at.ID += c.ID
		at.Function.Name += c.Function.Name
		at.Function.Arguments += c.Function.Arguments
	}
}

// next is what follows an answer: the results of its calls, or a word.
func next(answer reply) []json.RawMessage {
	if len(answer.Calls) == 0 {
		return []json.RawMessage{message("user", "Go on.")}
	}
	var out []json.RawMessage
	for _, c := range answer.Calls {
		raw, _ := json.Marshal(map[string]string{"role": "tool", "tool_call_id": c.ID, "content": "README.md"}) // strings always marshal
		out = append(out, raw)
	}
	return out
}

func message(role, text string) json.RawMessage {
	raw, _ := json.Marshal(map[string]string{"role": role, "content": text}) // strings always marshal
	return raw
}
