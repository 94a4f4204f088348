// Package swetest has a swe.Protocol that needs nothing but a sandbox's files:
// the agent's work is one file, and it is right when it holds what the row wants.
package swetest

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

// AnswerFile is the file, below the work directory, that an agent writes.
const AnswerFile = "ANSWER"

// Protocol reads rows with metadata instance_id, image, workdir,
// problem_statement (or the prompt) and want, the right content of AnswerFile.
// The zero value is ready; it is safe for concurrent use.
type Protocol struct {
	// Bend, if set, is called before each call with its name ("parse",
	// "prepare", "diff", "evaluate") and, but for parse, its sandbox. An error
	// of its becomes the call's.
	Bend func(ctx context.Context, call string, sb sandbox.Sandbox) error
}

// Parse implements swe.Protocol.
func (p *Protocol) Parse(row swe.Row) (swe.Task, error) {
	if err := p.bend(context.Background(), "parse", nil); err != nil {
		return nil, err
	}
	f := row.Fields()
	values := map[string]string{}
	for _, key := range []string{"instance_id", "image", "workdir", "problem_statement", "want"} {
		text, err := f.Text(key)
		if err != nil {
			return nil, err
		}
		values[key] = text
	}
	switch {
	case values["image"] == "" || values["workdir"] == "":
		return nil, swe.ErrNoImage
	case values["want"] == "":
		return nil, swe.Unevaluable("no_grader")
	case values["problem_statement"] == "":
		values["problem_statement"] = swe.PromptText(row.Prompt)
	}
	if values["instance_id"] == "" {
		values["instance_id"] = "unknown"
	}
	return &task{p, values}, nil
}

func (p *Protocol) bend(ctx context.Context, call string, sb sandbox.Sandbox) error {
	if p.Bend == nil {
		return nil
	}
	return p.Bend(ctx, call, sb)
}

type task struct {
	p   *Protocol
	row map[string]string
}

// Spec implements swe.Task.
func (t *task) Spec() swe.Spec {
	box := sandbox.Spec{Image: t.row["image"], Workdir: t.row["workdir"]}
	return swe.Spec{InstanceID: t.row["instance_id"], ProblemStatement: t.row["problem_statement"], Agent: box, Grader: box}
}

// Prepare writes the problem statement.
func (t *task) Prepare(ctx context.Context, sb sandbox.Sandbox) error {
	if err := t.p.bend(ctx, "prepare", sb); err != nil {
		return err
	}
	return sb.WriteFile(ctx, t.row["workdir"]+"/"+swe.ProblemFile, sandbox.AgentUser, strings.NewReader(t.row["problem_statement"]))
}

// Diff returns AnswerFile's content as the patch, an empty patch without one.
func (t *task) Diff(ctx context.Context, sb sandbox.Sandbox) (swe.Patch, error) {
	if err := t.p.bend(ctx, "diff", sb); err != nil {
		return swe.Patch{}, err
	}
	answer, err := t.read(ctx, sb, AnswerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return swe.Patch{BaseTree: "base", ResultTree: "base"}, nil
	}
	if err != nil {
		return swe.Patch{}, err
	}
	files := []swe.FileChange{{Path: AnswerFile, Status: "A"}}
	return swe.Patch{Bytes: []byte(answer), BaseTree: "base", ResultTree: "base+" + answer, Files: files}, nil
}

// Evaluate grades in a sandbox that has to be fresh: one with a problem
// statement or an answer in it is an error.
func (t *task) Evaluate(ctx context.Context, sb sandbox.Sandbox, patch swe.Patch) (swe.Evaluation, error) {
	if err := t.p.bend(ctx, "evaluate", sb); err != nil {
		return swe.Evaluation{}, err
	}
	if patch.Empty() {
		return swe.Verdict(swe.EmptyPatch, "the patch is empty"), nil
	}
	for _, name := range []string{swe.ProblemFile, AnswerFile} {
		if _, err := t.read(ctx, sb, name); !errors.Is(err, fs.ErrNotExist) {
			return swe.Evaluation{}, fmt.Errorf("the evaluation's sandbox is not fresh: it has %s (%v)", name, err)
		}
	}
	if err := sb.WriteFile(ctx, t.row["workdir"]+"/"+AnswerFile, "", strings.NewReader(string(patch.Bytes))); err != nil {
		return swe.Evaluation{}, err
	}
	answer, err := t.read(ctx, sb, AnswerFile)
	if err != nil {
		return swe.Evaluation{}, err
	}
	if strings.TrimSpace(answer) == t.row["want"] {
		return swe.Verdict(swe.Solved, "the answer is right"), nil
	}
	return swe.Verdict(swe.Failed, "the answer is wrong"), nil
}

func (t *task) read(ctx context.Context, sb sandbox.Sandbox, name string) (string, error) {
	r, err := sb.ReadFile(ctx, t.row["workdir"]+"/"+name)
	if err != nil {
		return "", err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	return string(data), err
}
