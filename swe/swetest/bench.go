package swetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

// A Bench tries protocols out on real sandboxes: each rollout boots one for the
// agent and one for the grading, and makes the same repository in both.
type Bench struct {
	Boxes sandbox.Provider
	Image string // of both sandboxes
	Setup string // makes the repository; run as root in "/" with bash

	// Wrap, if set, stands between the task and a sandbox, to bend it.
	Wrap func(sandbox.Sandbox) sandbox.Sandbox
}

// Box boots a sandbox with the repository. It is closed at the test's end.
func (b *Bench) Box(t testing.TB) sandbox.Sandbox {
	t.Helper()
	sb, err := b.Boxes.Create(t.Context(), sandbox.Spec{Image: b.Image})
	if err != nil {
		t.Fatal("boot:", err)
	}
	t.Cleanup(func() { sb.Close() })
	b.Bash(t, sb, "", b.Setup)
	if b.Wrap != nil {
		return b.Wrap(sb)
	}
	return sb
}

// Bash runs a script as a user and fails the test unless it exits with 0. It
// returns what the script printed.
func (b *Bench) Bash(t testing.TB, sb sandbox.Sandbox, user, script string) string {
	t.Helper()
	if err := sb.WriteFile(t.Context(), "/tmp/bench.sh", "", strings.NewReader(script)); err != nil {
		t.Fatal(err)
	}
	res, err := sb.Exec(t.Context(), sandbox.Cmd{Script: "exec bash /tmp/bench.sh", User: user})
	if err != nil || !res.Ok() {
		t.Fatalf("%s\n%v, exit %d: %s%s", script, err, res.Code, res.Stdout, res.Stderr)
	}
	return string(res.Stdout)
}

// Rollout parses a row (metadata, as JSON), prepares, runs agent as the
// agent's user in the work directory, and grades what it changed.
func (b *Bench) Rollout(t testing.TB, p swe.Protocol, metadata any, agent string) (swe.Patch, swe.Evaluation) {
	t.Helper()
	task := Parse(t, p, metadata)
	patch := b.Solve(t, task, agent)
	e, err := task.Evaluate(t.Context(), b.Box(t), patch)
	if err != nil {
		t.Fatal("evaluate:", err)
	}
	return patch, e
}

// Solve is the agent's half of a rollout.
func (b *Bench) Solve(t testing.TB, task swe.Task, agent string) swe.Patch {
	t.Helper()
	sb := b.Box(t)
	if err := task.Prepare(t.Context(), sb); err != nil {
		t.Fatal("prepare:", err)
	}
	b.Bash(t, sb, sandbox.AgentUser, fmt.Sprintf("cd '%s' || exit 1\numask 022\n%s\n", task.Spec().Agent.Workdir, agent))
	patch, err := task.Diff(t.Context(), sb)
	if err != nil {
		t.Fatal("diff:", err)
	}
	return patch
}

// Parse parses a row that has to be good.
func Parse(t testing.TB, p swe.Protocol, metadata any) swe.Task {
	t.Helper()
	task, err := p.Parse(Row(t, metadata))
	if err != nil {
		t.Fatal("parse:", err)
	}
	return task
}

// Row makes a row of metadata, with a prompt.
func Row(t testing.TB, metadata any) swe.Row {
	t.Helper()
	row := swe.Row{Prompt: json.RawMessage(`"Fix it."`)}
	text, err := json.Marshal(metadata)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &row.Metadata); err != nil {
		t.Fatal(err)
	}
	return row
}
