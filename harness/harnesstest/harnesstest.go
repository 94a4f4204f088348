// Package harnesstest has harnesses for tests: Fake, which does what a function
// says, and Agent, which dials the adapter like a real CLI.
package harnesstest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
)

// A Fake is a harness that behaves as its functions say; a nil one succeeds.
// It is safe for concurrent use.
type Fake struct {
	Dials     bool
	OnInstall func(ctx context.Context, sb sandbox.Sandbox) error
	OnRun     func(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error)

	installs, runs atomic.Int64
}

// DialsBack reports Dials.
func (f *Fake) DialsBack() bool { return f.Dials }

// Install calls OnInstall.
func (f *Fake) Install(ctx context.Context, sb sandbox.Sandbox) error {
	f.installs.Add(1)
	if f.OnInstall == nil {
		return nil
	}
	return f.OnInstall(ctx, sb)
}

// Run calls OnRun.
func (f *Fake) Run(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
	f.runs.Add(1)
	if f.OnRun == nil {
		return harness.Report{Outcome: harness.Finished, Version: "fake", Turns: 1}, nil
	}
	return f.OnRun(ctx, sb, job)
}

// Installs counts the calls of Install so far.
func (f *Fake) Installs() int { return int(f.installs.Load()) }

// Runs counts the calls of Run so far.
func (f *Fake) Runs() int { return int(f.runs.Load()) }

// An Agent asks the adapter for Turns turns over chat completions, sending the
// whole history each time as clients do, and ends. It calls no tool itself:
// every call that the model makes is answered with the text Result.
type Agent struct {
	Turns  int
	Result string       // defaults to "ok"
	Client *http.Client // nil means http.DefaultClient
	AtEnd  func()       // if set, called after the last turn, before Run returns
}

// DialsBack reports false: it runs in this process.
func (a *Agent) DialsBack() bool { return false }

// Install does nothing.
func (a *Agent) Install(context.Context, sandbox.Sandbox) error { return nil }

// Run talks to the adapter.
func (a *Agent) Run(ctx context.Context, _ sandbox.Sandbox, job harness.Job) (harness.Report, error) {
	history := []json.RawMessage{textMessage("user", job.Prompt)}
	report := harness.Report{Outcome: harness.Finished, Version: "harnesstest"}
	for range a.Turns {
		reply, err := a.ask(ctx, job, history)
		if err != nil {
			if ctx.Err() != nil {
				return report, context.Cause(ctx)
			}
			report.Outcome, report.Log, report.Exit.Code = harness.Unreachable, err.Error(), 1
			return report, nil
		}
		report.Turns++
		history = append(history, reply.raw)
		for _, call := range reply.ToolCalls {
			history = append(history, toolMessage(call.ID, a.result()))
		}
		if len(reply.ToolCalls) == 0 {
			history = append(history, textMessage("user", "Go on."))
		}
	}
	if a.AtEnd != nil {
		a.AtEnd()
	}
	return report, nil
}

func (a *Agent) result() string {
	if a.Result == "" {
		return "ok"
	}
	return a.Result
}

type reply struct {
	ToolCalls []struct {
		ID string `json:"id"`
	} `json:"tool_calls"`
	raw json.RawMessage
}

func (a *Agent) ask(ctx context.Context, job harness.Job, history []json.RawMessage) (reply, error) {
	body, err := json.Marshal(map[string]any{"model": job.Model, "messages": history})
	if err != nil {
		return reply{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, job.BaseURL+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Authorization", "Bearer "+job.Token)
	client := a.Client
	if client == nil {
		client = http.DefaultClient
	}
	res, err := client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{}, err
	}
	var answer struct {
		Choices []struct {
			Message json.RawMessage `json:"message"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(data, &answer); err != nil || res.StatusCode != http.StatusOK || len(answer.Choices) == 0 {
		return reply{}, fmt.Errorf("HTTP %d: %.200s", res.StatusCode, data)
	}
	r := reply{raw: answer.Choices[0].Message}
	return r, json.Unmarshal(r.raw, &r)
}

func textMessage(role, text string) json.RawMessage {
	raw, _ := json.Marshal(map[string]string{"role": role, "content": text}) // strings always marshal
	return raw
}

func toolMessage(id, text string) json.RawMessage {
	raw, _ := json.Marshal(map[string]string{"role": "tool", "tool_call_id": id, "content": text}) // strings always marshal
	return raw
}
