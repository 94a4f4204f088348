//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

// answerFile is what the agent writes.
const answerFile = "ANSWER"

// protocol reads rows whose answer is one file with the text of
// metadata.want. The grader's work directory is the agent's sibling: sandboxes
// that share a machine see each other's files.
type protocol struct{}

// Parse implements swe.Protocol.
func (protocol) Parse(row swe.Row) (swe.Task, error) {
	f := row.Fields()
	t := task{}
	for key, at := range map[string]*string{"instance_id": &t.id, "image": &t.image, "workdir": &t.workdir, "want": &t.want} {
		var err error
		if *at, err = f.Text(key); err != nil {
			return nil, err
		}
	}
	return t, nil
}

type task struct{ id, image, workdir, want string }

func (t task) grader() string { return strings.Replace(t.workdir, "agent", "grader", 1) }

// Spec implements swe.Task.
func (t task) Spec() swe.Spec {
	return swe.Spec{InstanceID: t.id, ProblemStatement: "Write the number.",
		Agent:  sandbox.Spec{Image: t.image, Workdir: t.workdir},
		Grader: sandbox.Spec{Image: t.image, Workdir: t.grader()}}
}

// Prepare removes what the last rollout left in the directory.
func (t task) Prepare(ctx context.Context, sb sandbox.Sandbox) error {
	return t.sh(ctx, sb, `rm -f "$DIR/`+answerFile+`" "$DIR"/.agentrl-*`, t.workdir)
}

// Diff implements swe.Task: the answer is the patch.
func (t task) Diff(ctx context.Context, sb sandbox.Sandbox) (swe.Patch, error) {
	r, err := sb.ReadFile(ctx, t.workdir+"/"+answerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return swe.Patch{BaseTree: "base", ResultTree: "base"}, nil
	}
	if err != nil {
		return swe.Patch{}, err
	}
	defer r.Close()
	answer, err := io.ReadAll(r)
	return swe.Patch{Bytes: answer, BaseTree: "base", ResultTree: "answered", Files: []swe.FileChange{{Path: answerFile, Status: "A"}}}, err
}

// Evaluate writes the answer down in the grader's directory and compares.
func (t task) Evaluate(ctx context.Context, sb sandbox.Sandbox, patch swe.Patch) (swe.Evaluation, error) {
	if err := sb.WriteFile(ctx, t.grader()+"/"+answerFile, "", strings.NewReader(string(patch.Bytes))); err != nil {
		return swe.Evaluation{}, err
	}
	got, err := sandbox.Output(ctx, sb, sandbox.Cmd{Script: `cat "$DIR/` + answerFile + `"`, Env: map[string]string{"DIR": t.grader()}, Replayable: true})
	switch {
	case err != nil:
		return swe.Evaluation{}, err
	case strings.TrimSpace(got) == t.want:
		return swe.Verdict(swe.Solved, "the answer is right"), nil
	}
	return swe.Verdict(swe.Failed, "the answer is wrong"), nil
}

func (t task) sh(ctx context.Context, sb sandbox.Sandbox, script, dir string) error {
	res, err := sb.Exec(ctx, sandbox.Cmd{Script: script, Env: map[string]string{"DIR": dir}, Replayable: true})
	if err == nil && !res.Ok() {
		err = fmt.Errorf("exit %d: %s", res.Code, res.Stderr)
	}
	return err
}
