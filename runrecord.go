package agentrl

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/swe"
)

// RunRecordVersion is the version of the records that this package writes. It
// reads those of its own version; a field that it does not know is skipped.
const RunRecordVersion = 1

// A RunRecord is what one rollout left in Config.RunDir: all that a person, a
// report or another grading needs to know of it, in one JSON file. What a
// failed rollout did not come to is nil or zero.
type RunRecord struct {
	Version    int       `json:"version"` // RunRecordVersion
	RunID      string    `json:"run_id"`  // Config.RunID
	Mode       string    `json:"mode"`    // "generate" or "evaluate"
	InstanceID string    `json:"instance_id"`
	Session    string    `json:"session"` // "" when none was opened
	Attempt    int       `json:"attempt"` // from 1
	Start      time.Time `json:"start"`
	Seconds    float64   `json:"seconds"` // from the call to its end

	Agent   string         `json:"agent"`   // the harness's name, Config.Agent
	Sandbox string         `json:"sandbox"` // the backend's name; "" when it was injected
	Args    Args           `json:"args"`
	Params  SamplingParams `json:"params"`
	Row     Sample         `json:"row"` // what the rollout started from: a valid base again

	Stages []StageRecord `json:"stages"` // in the order in which they ended
	Turns  []TurnRecord  `json:"turns"`  // in the order in which they ended, failed ones too

	Messages []MessageRecord      `json:"messages"` // the conversations as a tree: parents before their children
	Toolsets [][]ToolRecord       `json:"toolsets"`
	Segments []trajectory.Segment `json:"segments"` // token sequences with proofs, weight versions and why they were split
	Pieces   map[int32]string     `json:"pieces"`   // the text of each id in Segments, decoded alone
	Rewrites map[string]int       `json:"rewrites"`
	Counts   map[string]int       `json:"counts"` // turns, side_calls, abandoned
	Budget   string               `json:"budget"` // the adapter's budget that was spent: "turns", "tokens", "time" or ""
	Report   *AgentRecord         `json:"report"`
	Patch    *swe.Patch           `json:"patch"`      // Bytes is base64, as encoding/json has it
	Eval     *swe.Evaluation      `json:"evaluation"` // the last one, with the end of the tests' output
	Reward   float64              `json:"reward"`     // what the samples carry, before it is split
	Outcome  string               `json:"outcome"`    // of the evaluation; "aborted" for a failure
	Samples  int                  `json:"samples"`    // that were returned to be trained on
	Failure  *FailureRecord       `json:"failure"`
	Omitted  []string             `json:"omitted,omitempty"` // parts that were left out: the record was too big, or JSON cannot hold them (NaN)
}

// A StageRecord is one stage that was run.
type StageRecord struct {
	Stage   Stage     `json:"stage"`
	Role    string    `json:"role,omitempty"`    // RoleAgent or RoleGrader in the stages of a sandbox
	Sandbox string    `json:"sandbox,omitempty"` // its id
	Start   time.Time `json:"start"`
	Seconds float64   `json:"seconds"`
	Err     string    `json:"error,omitempty"`
}

// A TurnRecord is one model turn.
type TurnRecord struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"` // "main", "subagent", "compaction" or "sidecall"
	Agent     string    `json:"agent,omitempty"`
	Prompt    int       `json:"prompt_tokens"`
	Output    int       `json:"output_tokens"`
	Cached    int       `json:"cached_tokens"`
	Finish    string    `json:"finish"` // "stop", "length"; "" of a failed one
	IllFormed bool      `json:"ill_formed,omitempty"`
	Start     time.Time `json:"start"`
	Seconds   float64   `json:"seconds"`
	Err       string    `json:"error,omitempty"`
}

// A MessageRecord is one message of a conversation. A segment's conversation
// is the path from the message of its last turn up to a first message.
type MessageRecord struct {
	Role       string       `json:"role"`
	Content    string       `json:"content,omitempty"`
	Reasoning  string       `json:"reasoning,omitempty"`
	Calls      []CallRecord `json:"calls,omitempty"`
	Turn       string       `json:"turn,omitempty"` // the turn that sampled it; "" when the client brought it
	Parent     int          `json:"parent"`         // index in Messages; -1 for a first message
	Toolset    int          `json:"toolset"`        // index in Toolsets of what its turn was offered; -1 without a turn
	Superseded bool         `json:"superseded,omitempty"`
}

// A CallRecord is a tool call; Arguments is JSON as the model wrote it, valid or not.
type CallRecord struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// A ToolRecord is a tool that the client offered; Parameters is its schema as it came.
type ToolRecord struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Parameters  string `json:"parameters,omitempty"`
}

// An AgentRecord is how the agent's run ended.
type AgentRecord struct {
	Outcome  string  `json:"outcome"`   // a harness.Outcome
	ExitCode int     `json:"exit_code"` // -1 when its time was spent
	Version  string  `json:"version"`   // of the agent
	Turns    int     `json:"turns"`     // as the agent counts them
	Seconds  float64 `json:"seconds"`
	Log      string  `json:"log"` // its last lines
}

// A FailureRecord is why a rollout was aborted.
type FailureRecord struct {
	Reason    string       `json:"abort_reason"`
	Stage     Stage        `json:"stage"`
	Class     FailureClass `json:"class"`
	Code      string       `json:"code"`
	Retryable bool         `json:"retryable"`
	Message   string       `json:"message"`
}

// Conversation returns the messages that a segment's last turn ended, in
// order: those that the model saw, and what it then said. It is empty when the
// record has none.
func (r *RunRecord) Conversation(segment int) []MessageRecord {
	turns := r.Segments[segment].Turns
	if len(turns) == 0 {
		return nil
	}
	last := turns[len(turns)-1].ID
	for at, m := range r.Messages {
		if m.Turn == last {
			return r.path(at)
		}
	}
	return nil
}

// path returns the messages from a first one to that at index at.
func (r *RunRecord) path(at int) []MessageRecord {
	var up []MessageRecord
	for ; at >= 0; at = r.Messages[at].Parent {
		up = append(up, r.Messages[at])
	}
	for i, j := 0, len(up)-1; i < j; i, j = i+1, j-1 {
		up[i], up[j] = up[j], up[i]
	}
	return up
}

// check refuses a tree that is none: readers walk it.
func (r *RunRecord) check() error {
	for i, m := range r.Messages {
		if m.Parent < -1 || m.Parent >= i {
			return fmt.Errorf("message %d has parent %d: want -1, or a message before it", i, m.Parent)
		}
		if m.Toolset < -1 || m.Toolset >= len(r.Toolsets) {
			return fmt.Errorf("message %d has toolset %d of %d", i, m.Toolset, len(r.Toolsets))
		}
	}
	return nil
}

// A RunRecordError says which file is no record that this package can read.
type RunRecordError struct {
	Path string
	Err  error
}

func (e *RunRecordError) Error() string { return e.Path + ": " + e.Err.Error() }

// Unwrap returns what is wrong with the file.
func (e *RunRecordError) Unwrap() error { return e.Err }

var (
	// ErrRecordCut: the file ends before its JSON does: its writer died, or the
	// file was copied while it was written.
	ErrRecordCut = errors.New("the record is cut short: its JSON does not end")
	// ErrRecordVersion: the file is a record of another version.
	ErrRecordVersion = errors.New("the record has another version")
)

// ReadRunRecord reads one record. The error is a *RunRecordError.
func ReadRunRecord(path string) (*RunRecord, error) {
	rec, err := readRunRecord(path)
	if err != nil {
		return nil, &RunRecordError{path, err}
	}
	return rec, nil
}

func readRunRecord(path string) (*RunRecord, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseRunRecord(data)
}

func parseRunRecord(data []byte) (*RunRecord, error) {
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) && (len(data) == 0 || syntax.Offset >= int64(len(data))) {
			return nil, ErrRecordCut
		}
		return nil, fmt.Errorf("not a run record: %w", err)
	}
	switch {
	case head.Version == nil:
		return nil, errors.New("not a run record: it has no version")
	case *head.Version != RunRecordVersion:
		return nil, fmt.Errorf("%w: %d, this program reads %d: use the release that wrote it", ErrRecordVersion, *head.Version, RunRecordVersion)
	}
	var rec RunRecord
	if err := json.Unmarshal(data, &rec); err != nil {
		return nil, fmt.Errorf("run record: %w", err)
	}
	return &rec, rec.check()
}

// RunRecordPaths lists the records in a run directory, oldest first.
func RunRecordPaths(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir) // sorted by name, which begins with the time
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if isRecord(e) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, nil
}

func isRecord(e fs.DirEntry) bool {
	return e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".json") && !strings.HasPrefix(e.Name(), ".")
}

// ReadRunDir reads the records of a run directory one after the other, oldest
// first; one is in memory at a time. A file that can't be read is an error in
// its place, a *RunRecordError, and the reading goes on after it. A file that
// retention removes meanwhile is passed over.
func ReadRunDir(dir string) iter.Seq2[*RunRecord, error] {
	return func(yield func(*RunRecord, error) bool) {
		paths, err := RunRecordPaths(dir)
		if err != nil {
			yield(nil, fmt.Errorf("run directory: %w", err))
			return
		}
		for _, path := range paths {
			rec, err := ReadRunRecord(path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if !yield(rec, err) {
				return
			}
		}
	}
}
