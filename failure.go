package agentrl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

// A Stage is one step of a rollout.
type Stage string

// Stages in the order of a rollout. StageCreate, StageInstall and StageClose
// come again for each boot attempt; the evaluation has no install.
const (
	StageParse    Stage = "parse"
	StageOpen     Stage = "open"
	StageQueue    Stage = "queue" // waiting for a boot slot, for the creation rate or for a place among the live sandboxes
	StageCreate   Stage = "create"
	StageInstall  Stage = "install"
	StagePrepare  Stage = "prepare"
	StageRun      Stage = "run"
	StageSeal     Stage = "seal"
	StageDiff     Stage = "diff"
	StageClose    Stage = "close"
	StageEvaluate Stage = "evaluate"
	StageFinish   Stage = "finish"
	StageDrop     Stage = "drop"
)

// A StageError says in which stage a rollout failed. Only the orchestrator
// makes one; stages return plain wrapped errors.
type StageError struct {
	Stage Stage
	Err   error
}

func (e *StageError) Error() string { return string(e.Stage) + ": " + e.Err.Error() }

// Unwrap returns what the stage itself reported.
func (e *StageError) Unwrap() error { return e.Err }

var (
	// ErrWallClock: the guard over the whole call expired.
	ErrWallClock = errors.New("wall clock guard expired")
	// ErrNoSamples: the session left nothing to train on.
	ErrNoSamples = errors.New("session has no trainable turn")
	// ErrUnavailable: the circuit breaker is open; it wraps the failure that opened it.
	ErrUnavailable = errors.New("rollouts are suspended by the circuit breaker")
	// ErrClosed: the Generator was closed.
	ErrClosed = errors.New("generator is closed")

	errCancelled        = errors.New("the caller's context ended")
	errQueueTimeout     = errors.New("waited too long for a sandbox slot")
	errAgentUnreachable = errors.New("agent could not reach the adapter")
	errAgentBroken      = errors.New("agent did not start")
	errJobLost          = errors.New("agent vanished without an exit status")
)

// FailureClass says whose fault a failed rollout is.
type FailureClass string

// Classes of failures. ClassPolicy is the class of outcomes that are the
// agent's own: those are graded, never aborted.
const (
	ClassData      FailureClass = "data"
	ClassSandbox   FailureClass = "sandbox"
	ClassHarness   FailureClass = "harness"
	ClassEngine    FailureClass = "engine"
	ClassAdapter   FailureClass = "adapter"
	ClassGrader    FailureClass = "grader"
	ClassTimeout   FailureClass = "timeout"
	ClassConfig    FailureClass = "config"
	ClassCancelled FailureClass = "cancelled"
	ClassPolicy    FailureClass = "policy"
)

// Codes of failures: a closed list. The comment says what a trainer should do.
const (
	CodeMissingImage        = "missing_image_or_workdir" // fix or drop the row
	CodeUnevaluatable       = "unevaluatable"            // fix or drop the row
	CodeBadRow              = "bad_row"                  // fix or drop the row
	CodeImageNotFound       = "image_not_found"          // build or push the image, or drop the row
	CodeMissingWorkdir      = "missing_workdir"          // wrong image for the row, or images are not routed
	CodeBootFailed          = "boot_failed"              // retry; look at the backend when it repeats
	CodeInstallFailed       = "install_failed"           // retry; look at the harness's files when it repeats
	CodePrepareFailed       = "prepare_failed"           // retry once; the row's set-up commands fail when it repeats
	CodeSandboxGone         = "sandbox_gone"             // retry; raise the lifetime when it repeats
	CodeSandboxUnresponsive = "sandbox_unresponsive"     // retry
	CodeJobLost             = "job_lost"                 // retry; out of memory when it repeats
	CodeRateLimited         = "rate_limited"             // retry; lower AGENTRL_CREATES_PER_SEC
	CodeNoCapacity          = "no_capacity"              // retry; lower AGENTRL_MAX_SANDBOXES
	CodeQueueTimeout        = "queue_timeout"            // retry; raise AGENTRL_QUEUE_TIMEOUT or lower the concurrency
	CodeAgentUnreachable    = "agent_unreachable"        // check ADAPTER_PUBLIC_HOST and the sandbox's network
	CodeAgentBroken         = "agent_broken"             // check the harness in this image
	CodeEngineUnavailable   = "engine_unavailable"       // retry; the engine does not answer
	CodeEngineError         = "engine_error"             // read the message: the engine refused or broke
	CodeEngineAborted       = "engine_aborted"           // retry: the engine aborted the generation
	CodeEngineBadOutput     = "engine_bad_output"        // the engine's answer failed a check: look at the engine
	CodeSessionConflict     = "session_conflict"         // two live calls for one session id
	CodeSessionEmpty        = "session_empty"            // the agent made no trainable turn
	CodeCaptureIncomplete   = "capture_incomplete"       // retry: a turn was lost
	CodeInvariant           = "invariant"                // a bug of ours or of the engine: report it
	CodeGraderError         = "grader_error"             // retry; look at the row's grader when it repeats
	CodeBaseBroken          = "base_broken"              // the row is broken: quarantine it
	CodeEvalTimeout         = "eval_timeout"             // raise SWE_EVAL_TIMEOUT_SEC, or quarantine the row
	CodeCaptureFailed       = "capture_failed"           // retry: the patch could not be taken
	CodeWallClockTimeout    = "wall_clock_timeout"       // retry; look at the stuck stage when it repeats
	CodeUnauthorized        = "unauthorized"             // fix the key; opens the breaker at once
	CodeMisconfigured       = "misconfigured"            // fix the configuration; opens the breaker at once
	CodeCancelled           = "cancelled"                // the caller's own doing
)

// A Failure is the classification of an error. Retryable says whether another
// call with the same sample makes sense.
type Failure struct {
	Code      string
	Class     FailureClass
	Retryable bool
}

// failures is the closed list: code to class and retryable.
func failureOfCode(code string) Failure {
	switch code {
	case CodeMissingImage, CodeUnevaluatable, CodeBadRow, CodeImageNotFound, CodeMissingWorkdir:
		return Failure{code, ClassData, false}
	case CodeBootFailed, CodeInstallFailed, CodePrepareFailed, CodeSandboxGone, CodeSandboxUnresponsive,
		CodeJobLost, CodeRateLimited, CodeNoCapacity, CodeQueueTimeout:
		return Failure{code, ClassSandbox, true}
	case CodeAgentUnreachable:
		return Failure{code, ClassHarness, true}
	case CodeAgentBroken:
		return Failure{code, ClassHarness, false}
	case CodeEngineUnavailable, CodeEngineAborted, CodeEngineBadOutput:
		return Failure{code, ClassEngine, true}
	case CodeEngineError:
		return Failure{code, ClassEngine, false}
	case CodeSessionConflict, CodeCaptureIncomplete:
		return Failure{code, ClassAdapter, true}
	case CodeSessionEmpty, CodeInvariant:
		return Failure{code, ClassAdapter, false}
	case CodeGraderError, CodeCaptureFailed:
		return Failure{code, ClassGrader, true}
	case CodeBaseBroken, CodeEvalTimeout:
		return Failure{code, ClassGrader, false}
	case CodeWallClockTimeout:
		return Failure{code, ClassTimeout, true}
	case CodeUnauthorized, CodeMisconfigured:
		return Failure{code, ClassConfig, false}
	case CodeCancelled:
		return Failure{code, ClassCancelled, true}
	}
	return Failure{CodeInvariant, ClassAdapter, false}
}

// FailureOf classifies an error of a rollout: the one place that does. What the
// error is decides first, the stage it came from where that says nothing. A
// failure that says of itself that it is permanent is not retryable.
func FailureOf(err error) Failure {
	if err == nil {
		return Failure{}
	}
	f := classify(err)
	if permanent(err) {
		f.Retryable = false
	}
	return f
}

func classify(err error) Failure {
	for _, known := range causes {
		if errors.Is(err, known.err) {
			return failureOfCode(known.code)
		}
	}
	if code := codeOfType(err); code != "" {
		return failureOfCode(code)
	}
	var stage *StageError
	if errors.As(err, &stage) {
		return failureOfCode(codeOfStage(stage.Stage))
	}
	return failureOfCode(CodeInvariant)
}

// causes are the errors that decide by themselves, most decisive first.
var causes = []struct {
	err  error
	code string
}{
	{ErrWallClock, CodeWallClockTimeout},
	{errCancelled, CodeCancelled},
	{ErrClosed, CodeCancelled},
	{sandbox.ErrUnauthorized, CodeUnauthorized},
	{errQueueTimeout, CodeQueueTimeout},
	{errAgentUnreachable, CodeAgentUnreachable},
	{errAgentBroken, CodeAgentBroken},
	{errJobLost, CodeJobLost},
	{ErrNoSamples, CodeSessionEmpty},
	{swe.ErrNoImage, CodeMissingImage},
	{swe.ErrUnevaluable, CodeUnevaluatable},
	{sandbox.ErrNoImage, CodeImageNotFound},
	{sandbox.ErrNoWorkdir, CodeMissingWorkdir},
	{sandbox.ErrGone, CodeSandboxGone},
	{sandbox.ErrUnresponsive, CodeSandboxUnresponsive},
	{adapter.ErrSessionLive, CodeSessionConflict},
}

func codeOfType(err error) string {
	var (
		row      *swe.RowError
		rate     *sandbox.RateLimitError
		capacity *sandbox.CapacityError
		outcome  *outcomeError
		engine   *sglang.Error
		asset    *harness.AssetError
		setUp    *swe.SetupError
		capture  *swe.CaptureError
		panicked *panicError
	)
	switch {
	case errors.As(err, &panicked):
		return CodeInvariant
	case errors.As(err, &row):
		return CodeBadRow
	case errors.As(err, &rate):
		return CodeRateLimited
	case errors.As(err, &capacity):
		return CodeNoCapacity
	case errors.As(err, &outcome):
		return outcome.code()
	case errors.As(err, &setUp):
		return CodePrepareFailed
	case errors.As(err, &capture):
		return CodeCaptureFailed
	case errors.As(err, &asset):
		return CodeMisconfigured
	case errors.As(err, &engine):
		return codeOfEngine(engine.Kind)
	case (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) && !inStage(err):
		return CodeCancelled // in a stage it is a limit of that stage's own: the caller's end is marked
	}
	return ""
}

func codeOfEngine(k sglang.Kind) string {
	switch k {
	case sglang.Unavailable:
		return CodeEngineUnavailable
	case sglang.Aborted:
		return CodeEngineAborted
	case sglang.BadOutput:
		return CodeEngineBadOutput
	case sglang.Unauthorized:
		return CodeUnauthorized
	}
	return CodeEngineError
}

func inStage(err error) bool {
	var stage *StageError
	return errors.As(err, &stage)
}

func codeOfStage(s Stage) string {
	switch s {
	case StageParse:
		return CodeBadRow
	case StageOpen:
		return CodeBadRow // this call's sampling parameters were refused
	case StageQueue, StageCreate:
		return CodeBootFailed
	case StageInstall:
		return CodeInstallFailed
	case StagePrepare:
		return CodePrepareFailed
	case StageRun:
		return CodeAgentBroken
	case StageSeal:
		return CodeCaptureIncomplete
	case StageDiff:
		return CodeCaptureFailed
	case StageEvaluate:
		return CodeGraderError
	}
	return CodeInvariant
}

// An outcomeError is an evaluation that is not worth keeping.
type outcomeError struct{ eval swe.Evaluation }

func (e *outcomeError) Error() string {
	if e.eval.Reason == "" {
		return string(e.eval.Outcome)
	}
	return fmt.Sprintf("%s: %s", e.eval.Outcome, e.eval.Reason)
}

func (e *outcomeError) code() string {
	switch e.eval.Outcome {
	case swe.BaseBroken:
		return CodeBaseBroken
	case swe.EvalTimeout:
		return CodeEvalTimeout
	}
	return CodeGraderError
}

// A panicError is a panic in a stage, a hook or a RewardFunc.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// abortReason words a failure as the metadata's abort_reason.
func abortReason(err error) string {
	f := FailureOf(err)
	var outcome *outcomeError
	switch {
	case f.Code == CodeMissingImage, f.Code == CodeWallClockTimeout:
		return f.Code
	case f.Code == CodeSessionEmpty:
		return "adapter_session_empty"
	case f.Code == CodeUnevaluatable:
		return "unevaluatable:" + unevaluableWhy(err)
	case errors.As(err, &outcome):
		return "exception:" + string(outcome.eval.Outcome)
	}
	return "exception:" + f.Code
}

// unevaluableWhy is what follows the sentinel's own text in the message.
func unevaluableWhy(err error) string {
	_, why, _ := strings.Cut(err.Error(), swe.ErrUnevaluable.Error())
	return strings.TrimLeft(why, ": ")
}

// infrastructure reports whether the class counts for the circuit breaker.
func (c FailureClass) infrastructure() bool {
	switch c {
	case ClassSandbox, ClassHarness, ClassEngine, ClassAdapter, ClassGrader, ClassConfig:
		return true
	}
	return false
}
