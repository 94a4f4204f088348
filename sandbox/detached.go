package sandbox

import "context"

// A Detached is a command that outlives the connection that started it.
type Detached struct {
	Cmd
	Log  string          // file in the sandbox for its output, stdout and stderr together; "" for one in the job's own directory
	Stop <-chan struct{} // closed to end it: TERM, then KILL; nil never
}

// State is how a detached command ended.
type State int

const (
	Exited   State = iota
	TimedOut       // Stop was closed before it exited
	Lost           // it vanished without an exit status: killed from outside, out of memory
)

// An Exit is the end of a detached command. Code is its exit status, 0 unless
// State is Exited; a code of 128+n may be a signal's.
type Exit struct {
	State State
	Code  int
}

// RunDetached runs the command to its end, through cut connections.
func RunDetached(ctx context.Context, sb Sandbox, d Detached) (Exit, error) {
	panic("sketch")
}
