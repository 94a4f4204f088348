// Package swe is the contract for software engineering tasks: what a dataset
// row asks for, how a workspace is prepared, how an agent's patch is captured,
// and how it is graded. Protocols (row formats with their graders) are
// sub-packages.
package swe

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

// ErrUnevaluable marks a row that could never earn a reward. The text that
// follows it in an error is the reason.
var ErrUnevaluable = errors.New("unevaluatable")

// ErrNoImage marks a row without an image or a work directory.
var ErrNoImage = errors.New("missing_image_or_workdir")

// A Row is one dataset row: the parts of a sample that a protocol reads.
type Row struct {
	Prompt   json.RawMessage // a string or a list of chat messages; nil for none
	Label    json.RawMessage // nil for none
	Metadata map[string]json.RawMessage
}

// A Protocol reads rows. It is stateless and safe for concurrent use.
type Protocol interface {
	// Parse checks a row as far as that can be done without a sandbox. Its
	// error wraps ErrNoImage, ErrUnevaluable, or is a *RowError.
	Parse(row Row) (Task, error)
}

// A RowError says what is wrong with a row.
type RowError struct {
	Key  string // path of the field, "metadata.swepro.fail_to_pass"
	Got  string // what was given, shortened
	Want string // the rule and the way out
}

func (e *RowError) Error() string { return e.Key + ": got " + e.Got + ", want " + e.Want }

// A Task is one row, ready to be worked on. It is immutable and safe for
// concurrent use; nothing of its hidden part is reachable from the agent's side.
type Task interface {
	Spec() Spec
	// Prepare sets the agent's workspace up, and only the agent's.
	Prepare(ctx context.Context, sb sandbox.Sandbox) error
	// Diff captures what the agent changed. The agent is dead.
	Diff(ctx context.Context, sb sandbox.Sandbox) (Patch, error)
	// Evaluate grades a patch in a fresh sandbox, which it prepares itself. An
	// error is the infrastructure's: the grading may be done again elsewhere.
	Evaluate(ctx context.Context, sb sandbox.Sandbox, patch Patch) (Evaluation, error)
}

// A Spec is what the orchestrator needs to know of a task.
type Spec struct {
	InstanceID       string
	ProblemStatement string
	Agent            sandbox.Spec // image, workdir, env, egress of the agent's sandbox
	Grader           sandbox.Spec // of the evaluation's
}

// A Patch is what an agent changed, as `git diff --binary` bytes.
type Patch struct {
	Bytes      []byte
	BaseTree   string // tree id of the workspace before the agent
	ResultTree string // and after; "" for a foreign patch (gold, stored)
	BaseList   []byte // the files of BaseTree, as `git ls-tree -r -z` lists them; some 90 bytes a file
	Files      []FileChange
	Skipped    []Skipped
	Flags      CaptureFlags
	Scrub      string // what the history scrub counted before the agent began; "" without one
}

// Empty reports whether the patch changes nothing.
func (p Patch) Empty() bool { return len(p.Bytes) == 0 }

// A FileChange is one path of a patch.
type FileChange struct {
	Path   string
	Status string // A, M, D, T as git words it
}

// A Skipped is a path that was left out of a patch, and why.
type Skipped struct{ Path, Reason string }

// CaptureFlags say what was unusual about a capture.
type CaptureFlags struct {
	BaseDirty    bool // the workspace differed from HEAD before the agent
	HeadMoved    bool // the agent committed, reset or changed branch
	GitDestroyed bool // the agent's .git was missing or broken afterwards
	Nested       bool // repositories inside the work tree were flattened
}

// Outcome of an evaluation.
type Outcome string

const (
	Solved        Outcome = "solved"
	Failed        Outcome = "failed"
	Partial       Outcome = "partial"
	PatchRejected Outcome = "patch_rejected" // of a foreign patch
	EmptyPatch    Outcome = "empty_patch"    // not graded: reward 0, applied, kept
	EvalTimeout   Outcome = "eval_timeout"
	NoEvidence    Outcome = "no_evidence"
	GraderError   Outcome = "grader_error"
	BaseBroken    Outcome = "base_broken"
)

// An Evaluation is the verdict over a patch.
type Evaluation struct {
	Reward  float64
	Applied bool // the patch applied cleanly
	Outcome Outcome
	Keep    bool   // whether the rollout is worth training on; false aborts it as exception:<outcome>
	Reason  string // in words, for people

	ExitCode int           // of the tests
	Duration time.Duration // of the tests
	LogTail  string        // the end of their output
	Tamper   []string      // signals of reward hacking, by name

	F2P, P2P Bucket // by test, where the row lists tests

	Apply ApplyReport       // how the patch was applied
	Tools map[string]string // the grading sandbox's programs, by name: path
}
