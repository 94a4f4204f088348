package agentrl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
)

// RecordingVersion is the version of the recordings that this package writes
// and replays.
const RecordingVersion = 1

// A Recording is everything that came to one rollout from outside: what the
// agent asked the adapter, what the engine answered, what the sandboxes did,
// and how long it took. Replay makes the rollout from it again.
type Recording struct {
	Version int            `json:"version"`
	Mode    string         `json:"mode"` // "generate" or "evaluate"
	Start   time.Time      `json:"start"`
	Config  Config         `json:"config"` // without keys, environments and directories
	Args    Args           `json:"args"`
	Params  SamplingParams `json:"params"`
	Base    Sample         `json:"base"`
	Session string         `json:"session"`

	Boxes    []*boxTape               `json:"boxes"`    // in the order of creation; failed creations too
	Agent    agentTape                `json:"agent"`    // the harness
	Requests []*requestTape           `json:"requests"` // in the order of arrival
	Events   []eventTape              `json:"events"`   // how the requests overlapped
	Engine   []*engineTape            `json:"engine"`   // in the order of posting
	Clock    map[string]time.Duration `json:"clock"`    // by what was measured
	Samples  []json.RawMessage        `json:"samples"`  // what the call returned
}

// A boxTape is one creation of a sandbox and all calls of it but those that
// the harness made.
type boxTape struct {
	Role  string     `json:"role"`
	ID    string     `json:"id"`
	Err   *errTape   `json:"error"` // of the creation
	Calls []callTape `json:"calls"`
	Close *errTape   `json:"close"`
}

// A callTape is one call of a sandbox.
type callTape struct {
	Op     string         `json:"op"`   // exec, write, read or detached
	What   string         `json:"what"` // the script or the path
	Result sandbox.Result `json:"result"`
	Exit   sandbox.Exit   `json:"exit"`
	Data   []byte         `json:"data"` // that was read
	Err    *errTape       `json:"error"`
}

// An agentTape is what the harness did.
type agentTape struct {
	DialsBack bool           `json:"dials_back"`
	Installs  []*errTape     `json:"installs"` // nil entries went well
	Ran       bool           `json:"ran"`
	Report    harness.Report `json:"report"`
	Err       *errTape       `json:"error"`
}

// A requestTape is one request for a turn. tokenMark stands for the session's token.
type requestTape struct {
	At     float64     `json:"at"` // seconds from the start
	Turn   string      `json:"turn"`
	Method string      `json:"method"`
	URL    string      `json:"url"`
	Header http.Header `json:"header"`
	Body   []byte      `json:"body"`
	Gone   bool        `json:"gone"` // the client left before it was over
}

const tokenMark = "{{session token}}"

// An eventTape is the arrival of a request, its answer, or the end of the
// agent's run (Request -1).
type eventTape struct {
	Request int  `json:"request"`
	End     bool `json:"end"`
}

// An engineTape is one generation.
type engineTape struct {
	Input    []int32         `json:"input_ids"`
	Sampling map[string]any  `json:"sampling"`
	Response sglang.Response `json:"response"`
	Failed   *sglang.Error   `json:"failed"` // without its Err
	Err      *errTape        `json:"error"`  // Err of Failed, or another error
}

// An errTape is an error by its text and by what it is.
type errTape struct {
	Text      string                  `json:"text"`
	Is        []string                `json:"is"` // names in knownErrors
	Rate      *sandbox.RateLimitError `json:"rate_limit,omitempty"`
	Capacity  *sandbox.CapacityError  `json:"capacity,omitempty"`
	Permanent bool                    `json:"permanent,omitempty"` // another sandbox would fail in the same way
}

// knownErrors are what callers of stages tell apart.
var knownErrors = map[string]error{
	"gone": sandbox.ErrGone, "unresponsive": sandbox.ErrUnresponsive, "unauthorized": sandbox.ErrUnauthorized, "invalid": sandbox.ErrInvalid,
	"no image": sandbox.ErrNoImage, "no workdir": sandbox.ErrNoWorkdir, "no space": sandbox.ErrNoSpace, "cut": sandbox.ErrCut, "no such file": fs.ErrNotExist,
}

func tapeError(err error) *errTape {
	if err == nil {
		return nil
	}
	t := &errTape{Text: err.Error()}
	for name, known := range knownErrors {
		if errors.Is(err, known) {
			t.Is = append(t.Is, name)
		}
	}
	slices.Sort(t.Is)
	_ = errors.As(err, &t.Rate) // nil where it is none
	_ = errors.As(err, &t.Capacity)
	var p interface{ Permanent() bool }
	t.Permanent = errors.As(err, &p) && p.Permanent()
	return t
}

// err is the error again; nil for none.
func (t *errTape) err() error {
	if t == nil {
		return nil
	}
	return &replayedError{t}
}

type replayedError struct{ tape *errTape }

func (e *replayedError) Error() string { return e.tape.Text }

// Permanent reports what the recorded error reported.
func (e *replayedError) Permanent() bool { return e.tape.Permanent }

// Unwrap returns the errors of a type of their own that the recorded one wrapped.
func (e *replayedError) Unwrap() []error {
	var typed []error
	if e.tape.Rate != nil {
		typed = append(typed, e.tape.Rate)
	}
	if e.tape.Capacity != nil {
		typed = append(typed, e.tape.Capacity)
	}
	return typed
}

// Is reports whether the recorded error was target.
func (e *replayedError) Is(target error) bool {
	for _, name := range e.tape.Is {
		if knownErrors[name] == target {
			return true
		}
	}
	return false
}

// ReadRecording reads a recording.
func ReadRecording(path string) (*Recording, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rec, err := parseRecording(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return rec, nil
}

// parseRecording refuses what a replay could not follow.
func parseRecording(data []byte) (*Recording, error) {
	var rec Recording
	if err := json.Unmarshal(data, &rec); err != nil {
		return nil, fmt.Errorf("not a recording, or one that is cut short: %w", err)
	}
	if rec.Version != RecordingVersion {
		return nil, fmt.Errorf("recording of version %d, this program replays %d", rec.Version, RecordingVersion)
	}
	for i, e := range rec.Events {
		if e.Request < -1 || e.Request >= len(rec.Requests) {
			return nil, fmt.Errorf("event %d is of request %d of %d", i, e.Request, len(rec.Requests))
		}
	}
	if slices.Contains(rec.Boxes, nil) || slices.Contains(rec.Requests, nil) || slices.Contains(rec.Engine, nil) {
		return nil, errors.New("a sandbox, request or generation is null")
	}
	return &rec, nil
}
