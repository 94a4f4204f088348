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
	"strings"
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

const bashTool = `{"type":"function","function":{"name":"bash","description":"Run a command in the work directory and return its output and exit status.",` +
	`"parameters":{"type":"object","properties":{"command":{"type":"string","description":"The command."}},"required":["command"]}}}`

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

// call answers one tool call. What the model got wrong is an answer; the error
// is the sandbox's.
func (a *agent) call(ctx context.Context, call toolCall) (string, error) {
	var args struct {
		Command *string `json:"command"`
	}
	switch err := json.Unmarshal([]byte(call.Function.Arguments), &args); {
	case call.Function.Name != "bash":
		return fmt.Sprintf("There is no tool %q; the only one is bash.", call.Function.Name), nil
	case err != nil:
		return "The arguments are no valid JSON: " + err.Error(), nil
	case args.Command == nil:
		return `The argument "command" is missing.`, nil
	}
	return a.bash(ctx, *args.Command)
}

// runner runs $AGENTRL_COMMAND by bash where there is one, within the timeout
// where there is one.
const runner = `command -v bash >/dev/null && set -- bash -c "$AGENTRL_COMMAND" || set -- sh -c "$AGENTRL_COMMAND"
unset AGENTRL_COMMAND
command -v timeout >/dev/null && exec timeout -k 5 "$AGENTRL_TIMEOUT" "$@" 2>&1
exec "$@" 2>&1`

func (a *agent) bash(ctx context.Context, command string) (string, error) {
	secs := int(a.opts.CommandTimeout.Seconds())
	res, err := a.sb.Exec(ctx, sandbox.Cmd{Script: runner, User: sandbox.AgentUser, Dir: a.job.Workdir, Env: map[string]string{
		"AGENTRL_COMMAND": command, "AGENTRL_TIMEOUT": fmt.Sprint(max(secs, 1)),
	}})
	if err != nil {
		return "", fmt.Errorf("bash: %w", err)
	}
	out := shorten(string(res.Stdout)+string(res.Stderr), a.opts.MaxOutput)
	switch {
	case res.Code == 124:
		out += fmt.Sprintf("\n[the command was ended after %v]", a.opts.CommandTimeout)
	case res.Signal != "":
		out += "\n[killed by " + res.Signal + "]"
	case res.Code != 0:
		out += fmt.Sprintf("\n[exit status %d]", res.Code)
	case out == "":
		out = "[no output]"
	}
	return out, nil
}

// shorten keeps both ends of a long output.
func shorten(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	head, tail := s[:limit/2], s[len(s)-limit/2:]
	return fmt.Sprintf("%s\n[%d bytes left out]\n%s",
		strings.ToValidUTF8(head, ""), len(s)-limit, strings.ToValidUTF8(tail, ""))
}
