// Package harness is the contract between agentrl and the coding agents that it
// runs: install one in a sandbox, run it on a task, say how it ended.
package harness

import (
	"context"

	"github.com/agentrl-go/agentrl/sandbox"
)

// A Harness runs one kind of coding agent. It is stateless between calls and
// safe for concurrent use.
type Harness interface {
	// DialsBack reports whether the agent's model calls leave the sandbox: then
	// the adapter needs an address that sandboxes can reach.
	DialsBack() bool
	// Install puts the agent into the sandbox and checks that it starts.
	Install(ctx context.Context, sb sandbox.Sandbox) error
	// Run runs the agent on the job until it ends or Stop is closed; on return
	// nothing of it runs any more. An agent that gives up or crashes is a
	// Report; an error means that the sandbox or the harness itself failed.
	Run(ctx context.Context, sb sandbox.Sandbox, job Job) (Report, error)
}

// A Job is one task for an agent.
type Job struct {
	Workdir    string          // absolute, in the sandbox
	Prompt     string          // the task instruction
	BaseURL    string          // of the adapter, as the agent reaches it; no trailing slash, no /v1
	Token      string          // the session's secret
	Model      string          // label that the agent sends
	MaxContext int             // tokens of prompt and answer together; 0 for unknown
	MaxTurn    int             // tokens of one answer; 0 for unknown
	Stop       <-chan struct{} // closed when the agent's time budget is spent
}

// Outcome is how the agent's run ended, as the agent itself says.
type Outcome string

const (
	Finished         Outcome = "finished"          // it says that it is done
	GaveUp           Outcome = "gave_up"           // it ended itself for a reason that is none of the others: cut again and again, an error of its own
	MaxTurns         Outcome = "max_turns"         // the turns or tokens that it may take are spent
	ContextExhausted Outcome = "context_exhausted" // its conversation does not fit the model any more
	Refused          Outcome = "refused"           // the adapter or the model would not answer it
	Crashed          Outcome = "crashed"           // it ended without a word
	Unreachable      Outcome = "unreachable"       // it could not reach the model
	Budget           Outcome = "budget"            // killed when its time budget was spent
)

// A Report says how a run ended.
type Report struct {
	Exit     sandbox.Exit // as the agent's program exited; Code is 1 where it failed and exited with 0
	Outcome  Outcome
	Version  string   // of the agent
	Log      string   // the last lines of its log
	Turns    int      // model turns, as the agent counts them; 0 when it does not say
	Sessions []string // the agent's own session ids, nested agents included
}
