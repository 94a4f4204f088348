package agentrl

import (
	"time"

	"github.com/agentrl-go/agentrl/adapter"
)

// Hooks are optional functions that see a rollout happen: the seam for metrics
// and traces. They are called from the rollout's own goroutine, Turn from the
// turn's; several rollouts call them at once. They must not block.
type Hooks struct {
	StageStart  func(StageInfo)
	StageDone   func(StageInfo)
	Turn        func(TurnInfo)
	RolloutDone func(RolloutInfo)
}

// A StageInfo is one stage of one rollout; Duration and Err are set when it is done.
type StageInfo struct {
	InstanceID string // "" before the row was parsed
	Session    string // "" before the row was parsed
	Attempt    int    // of the rollout, from 1
	Stage      Stage
	Role       string // RoleAgent or RoleGrader in the stages of a sandbox, else ""
	Sandbox    string // id, once it is created
	Start      time.Time
	Duration   time.Duration
	Err        error
}

// Roles of a sandbox.
const (
	RoleAgent  = "agent"
	RoleGrader = "grader"
)

// A TurnInfo is one model turn of one rollout.
type TurnInfo struct {
	InstanceID string
	Attempt    int
	adapter.TurnInfo
}

// A RolloutInfo is one rollout that is over. Failure is the zero value when it
// was not aborted.
type RolloutInfo struct {
	InstanceID string
	Session    string
	Attempt    int
	Samples    []Sample
	Outcome    string // of the evaluation; "" when there was none
	Reward     float64
	Patch      []byte // as captured; nil before the diff
	Start      time.Time
	Duration   time.Duration
	Failure    Failure
	Err        error
}
