// Package shell runs any command line as the agent. The command finds the
// model's endpoint in its environment, under the names that the common SDKs
// read and under AGENTRL_* names:
//
//	OPENAI_BASE_URL     BaseURL/v1        OPENAI_API_KEY        the session's token
//	ANTHROPIC_BASE_URL  BaseURL           ANTHROPIC_AUTH_TOKEN  the session's token
//	AGENTRL_BASE_URL    BaseURL           AGENTRL_TOKEN         the session's token
//	AGENTRL_MODEL       the model label   AGENTRL_PROMPT        the task instruction
//	AGENTRL_PROMPT_FILE a file with the task instruction, whatever its length: one of
//	                    over 96 KiB fits no variable, and AGENTRL_PROMPT is not set
//
// What was run with it: a loop of some twenty lines of Python over chat
// completions.
package shell

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
)

// Harness runs one command line, by the sandbox's sh, in the work directory,
// as the agent user.
type Harness struct {
	command string
	install string
}

// New returns a harness for the command. Setup is a command that Install runs
// as root beforehand; "" for none.
func New(command, setup string) (*Harness, error) {
	if command == "" {
		return nil, errors.New("harness shell: no command line: set AGENTRL_SHELL_COMMAND to what runs the agent")
	}
	return &Harness{command: command, install: setup}, nil
}

// DialsBack reports true: the command runs in the sandbox.
func (h *Harness) DialsBack() bool { return true }

// Install runs the setup command.
func (h *Harness) Install(ctx context.Context, sb sandbox.Sandbox) error {
	if err := sandbox.EnsureUser(ctx, sb); err != nil {
		return fmt.Errorf("agent user: %w", err)
	}
	if h.install == "" {
		return nil
	}
	_, err := sandbox.Output(ctx, sb, sandbox.Cmd{Script: h.install})
	return err
}

// These files are outside the work directory, where the agent's git status
// would show them.
const (
	logFile    = "/tmp/agentrl-shell.log"
	promptFile = "/tmp/agentrl-shell.prompt"
)

// maxVariable is the longest prompt for a variable. Linux takes 128 KiB.
const maxVariable = 96 << 10

// Run runs the command as a detached job. Its exit status is the outcome: 0 is
// Finished, anything else GaveUp, but for an adapter that is not reached.
func (h *Harness) Run(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
	prompt := harness.PromptText(job.Prompt)
	if err := sb.WriteFile(ctx, promptFile, sandbox.AgentUser, strings.NewReader(prompt)); err != nil {
		return harness.Report{}, fmt.Errorf("write %s: %w", promptFile, err)
	}
	env := map[string]string{
		"OPENAI_BASE_URL": job.BaseURL + "/v1", "OPENAI_API_KEY": job.Token,
		"ANTHROPIC_BASE_URL": job.BaseURL, "ANTHROPIC_AUTH_TOKEN": job.Token,
		"AGENTRL_BASE_URL": job.BaseURL, "AGENTRL_TOKEN": job.Token, "AGENTRL_MODEL": job.Model,
	}
	if len(prompt) <= maxVariable {
		env["AGENTRL_PROMPT"] = prompt
	}
	script := harness.Direct(job.BaseURL) + "\nexport AGENTRL_PROMPT_FILE=" + sandbox.Path(promptFile) + "\n" + h.command
	exit, err := harness.RunWatched(ctx, sb, sandbox.Detached{
		Cmd: sandbox.Cmd{Script: script, User: sandbox.AgentUser, Dir: job.Workdir, Env: env}, Log: logFile, Stop: job.Stop,
	}, job.BaseURL)
	var unreachable *harness.UnreachableError
	if err != nil && !errors.As(err, &unreachable) {
		return harness.Report{}, fmt.Errorf("run command: %w", err)
	}
	report := harness.Report{Exit: exit, Outcome: harness.Finished, Version: "shell"}
	switch {
	case exit.State == sandbox.TimedOut:
		report.Outcome = harness.Budget
	case exit.State == sandbox.Lost:
		report.Outcome = harness.Crashed
	case exit.Code != 0:
		report.Outcome = harness.GaveUp
	}
	if tail, err := sandbox.Tail(ctx, sb, logFile, 4096); err == nil {
		report.Log = harness.LastLines(tail, 12)
	}
	report.Unreached(unreachable)
	return report, nil
}
