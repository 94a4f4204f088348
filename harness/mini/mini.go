// Package mini is a small coding agent that runs in this process: a loop that
// asks the model, over the adapter's HTTP endpoint like any client, with one
// tool, bash, whose commands it runs in the sandbox. It needs nothing in the
// sandbox but a shell, and works where the sandbox cannot dial back. Its version
// is this module's.
package mini

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
)

// Options of a Harness. The zero value means the defaults.
type Options struct {
	MaxTurns       int           // model turns; defaults to 100
	CommandTimeout time.Duration // of one bash command; defaults to 2 min
	MaxOutput      int           // bytes of a command's output that the model sees; defaults to 16 KiB
	Client         *http.Client  // defaults to one without a timeout
}

// Harness is the agent. It is safe for concurrent use.
type Harness struct{ opts Options }

// New returns the agent.
func New(o Options) *Harness {
	if o.MaxTurns == 0 {
		o.MaxTurns = 100
	}
	if o.CommandTimeout == 0 {
		o.CommandTimeout = 2 * time.Minute
	}
	if o.MaxOutput == 0 {
		o.MaxOutput = 16 << 10
	}
	if o.Client == nil {
		o.Client = &http.Client{Transport: &http.Transport{Proxy: nil}} // a proxy of the trainer's must not catch the loopback
	}
	return &Harness{opts: o}
}

// DialsBack reports false: the model calls leave from this process.
func (h *Harness) DialsBack() bool { return false }

// Install makes the agent user; there is nothing else to put into the sandbox.
func (h *Harness) Install(ctx context.Context, sb sandbox.Sandbox) error {
	return sandbox.EnsureUser(ctx, sb)
}

const systemPrompt = "You are a software engineer who works in a shell. Use the bash tool to look around, to edit files " +
	"and to run commands; each command starts in the work directory. When the task is done, answer without calling the tool."

// Run lets the model work until it answers without a tool call.
func (h *Harness) Run(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
	work, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if job.Stop != nil {
		go func() {
			select {
			case <-job.Stop:
				cancel(errStopped)
			case <-work.Done():
			}
		}()
	}
	a := &agent{opts: h.opts, sb: sb, job: job, messages: []json.RawMessage{
		message("system", systemPrompt), message("user", job.Prompt),
	}}
	outcome, err := a.loop(work)
	report := harness.Report{Outcome: outcome, Version: "mini", Turns: a.turns, Log: harness.LastLines([]byte(a.last), 12)}
	if outcome == harness.Unreachable {
		report.Log = fmt.Sprintf("the adapter at %s does not serve this process (%s): check that it listens and that its engine answers", job.BaseURL, report.Log)
	}
	switch stopped := errors.Is(context.Cause(work), errStopped); {
	case stopped:
		report.Outcome, report.Exit.State = harness.Budget, sandbox.TimedOut
	case err != nil:
		return report, err
	case outcome != harness.Finished:
		report.Exit.Code = 1
	}
	return report, quiesce(ctx, sb)
}

var errStopped = errors.New("time budget spent")

// quiesce ends whatever the agent's commands left running: a detached job of
// the agent user has nothing of that user alive when it returns.
func quiesce(ctx context.Context, sb sandbox.Sandbox) error {
	_, err := sandbox.RunDetached(ctx, sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: ":", User: sandbox.AgentUser}})
	if err != nil {
		return fmt.Errorf("end the agent's processes: %w", err)
	}
	return nil
}

// An agent is one run.
type agent struct {
	opts     Options
	sb       sandbox.Sandbox
	job      harness.Job
	messages []json.RawMessage
	turns    int
	last     string // what the model said last, or why the run ended
}

// maxCut is how many answers in a row may be cut short without a call before
// the agent gives up.
const maxCut = 3

func (a *agent) loop(ctx context.Context) (harness.Outcome, error) {
	cut := 0
	for a.turns < a.opts.MaxTurns {
		reply, err := a.ask(ctx)
		if err != nil {
			a.last = err.Error()
			return outcomeOf(err), nil
		}
		a.turns++
		a.last = reply.Content
		a.messages = append(a.messages, reply.raw)
		switch {
		case len(reply.ToolCalls) > 0:
			cut = 0
		case reply.finish != "length":
			return harness.Finished, nil
		case cut == maxCut:
			return harness.GaveUp, nil
		default:
			cut++
			a.messages = append(a.messages, message("user", "Your answer was cut. Go on, in smaller steps."))
		}
		for _, call := range reply.ToolCalls {
			result, err := a.call(ctx, call)
			if err != nil {
				return harness.Crashed, err
			}
			a.messages = append(a.messages, toolResult(call.ID, result))
		}
	}
	return harness.MaxTurns, nil
}
