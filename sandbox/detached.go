package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/internal/retry"
)

// A Detached is a command that outlives the connection that started it.
type Detached struct {
	Cmd                  // Replayable is not looked at: the job is started once, whatever is lost
	Log  string          // file in the sandbox for its output, stdout and stderr together, made anew and owned by the user; "" discards it
	Stop <-chan struct{} // closed to end it: TERM, five seconds later KILL; nil never
}

// State is how a detached command ended.
type State int

const (
	Exited   State = iota
	TimedOut       // Stop was closed before it exited
	Lost           // it vanished without an exit status: killed from outside, out of memory
)

// String returns the state's name.
func (s State) String() string {
	switch s {
	case Exited:
		return "exited"
	case TimedOut:
		return "timed out"
	case Lost:
		return "lost"
	}
	return "state " + strconv.Itoa(int(s))
}

// An Exit is the end of a detached command. Code is its exit status, 0 unless
// State is Exited; a code of 128+n may be a signal's.
type Exit struct {
	State State
	Code  int
}

// A DetachedRunner is a Sandbox with a way of its own to run detached
// commands. It keeps the contract of RunDetached.
type DetachedRunner interface {
	RunDetached(ctx context.Context, d Detached) (Exit, error)
}

// RunDetached runs the command to its end, through cut connections: each step
// is a command that may be repeated, the job is started once. An end is seen
// within 0.3 s, a loss within two seconds.
//
// On return nothing of the job runs, however it ended. For an unprivileged
// user's job that means everything that this user runs in the sandbox. For
// root's job it is the job's PID namespace where util-linux and the rights
// allow one; else its process groups and sessions and whatever still carries
// its mark in the environment, which a daemon that clears its environment
// escapes. Where all commands run as one user (OneUserVar) root's rule holds
// for every job. If something cannot be killed, that is an error.
//
// The sandbox needs sh, /proc, setsid and coreutils or busybox; another user
// than root also one of setpriv, runuser, chroot --userspec and su. What is
// missing is named in the error. The job's own files are root's, out of the
// user's reach, and removed at the end.
//
// When ctx ends the job is killed at once and the error is the context's
// cause. A sandbox that does not exist any more is ErrGone. Other errors say
// that the sandbox stopped answering; what the job did is then unknown.
func RunDetached(ctx context.Context, sb Sandbox, d Detached) (Exit, error) {
	if r, ok := sb.(DetachedRunner); ok {
		return r.RunDetached(ctx, d)
	}
	j, err := newJob(sb, d)
	if err != nil {
		return Exit{}, err
	}
	exit, err := j.run(ctx)
	if err != nil && ctx.Err() != nil {
		j.abandon(ctx)
		return Exit{}, context.Cause(ctx)
	}
	return exit, err
}

// The patience of a job: how long it may go on after TERM, and how long a
// killing is allowed to take once nobody waits for its result.
const (
	stopGrace     = 5 * time.Second
	abandonWithin = 20 * time.Second
)

// lostReply is the patience with commands whose outcome is unknown. A backend
// repeats its own requests; this is for replies lost above it.
var lostReply = retry.Policy{Retries: 6, Base: 200 * time.Millisecond, Cap: 5 * time.Second}

type job struct {
	sb     Sandbox
	d      Detached
	id     string // unguessable
	header string // the variables that all of its scripts begin with
}

func newJob(sb Sandbox, d Detached) (*job, error) {
	if strings.ContainsRune(d.Script, 0) {
		return nil, fmt.Errorf("a script cannot hold a NUL byte: %w", ErrInvalid)
	}
	if d.Log != "" && !strings.HasPrefix(d.Log, "/") {
		return nil, fmt.Errorf("log %q is not an absolute path: %w", d.Log, ErrInvalid)
	}
	user := d.User
	if user == "root" {
		user = ""
	}
	id := rand.Text()
	return &job{sb: sb, d: d, id: id, header: jobHeader(id, user, d.Log)}, nil
}

func (j *job) run(ctx context.Context) (Exit, error) {
	spawn := Cmd{Script: spawnScript(j.id, j.header, j.d), Env: j.d.Env, Dir: j.d.Dir, Replayable: true}
	if _, err := j.step(ctx, spawn); err != nil {
		return Exit{}, fmt.Errorf("start job: %w", err)
	}
	answer, err := j.wait(ctx)
	if err != nil {
		return Exit{}, err
	}
	exit, err := parseAnswer(answer)
	if err != nil {
		return Exit{}, err
	}
	if _, err := j.step(ctx, j.command(cleanScript)); err != nil {
		return Exit{}, fmt.Errorf("remove the job's files: %w", err)
	}
	return exit, nil
}

// wait asks until the job has ended, or has been stopped. A wait that Stop
// interrupts is dropped: asking changes nothing. Stop is a channel of its own
// and not a deadline of ctx, since a budget that is spent is an ordinary end
// and must not look like a sandbox that does not answer.
func (j *job) wait(ctx context.Context) (string, error) {
	type reply struct {
		answer string
		err    error
	}
	for {
		asking, drop := context.WithCancel(ctx)
		replies := make(chan reply, 1)
		go func() {
			answer, err := j.step(asking, j.command(waitScript))
			replies <- reply{answer, err}
		}()
		select {
		case r := <-replies:
			drop()
			if r.err != nil {
				return "", fmt.Errorf("wait for job: %w", r.err)
			}
			if r.answer != answerRunning {
				return r.answer, nil
			}
		case <-j.d.Stop:
			drop()
			<-replies
			answer, err := j.step(ctx, j.command("grace="+seconds(stopGrace)+"\n"+stopScript))
			if err != nil {
				return "", fmt.Errorf("stop job: %w", err)
			}
			return answer, nil
		}
	}
}

// abandon kills the job of a caller who is gone. Its error has no reader: the
// caller closes the sandbox next.
func (j *job) abandon(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abandonWithin)
	defer cancel()
	if _, err := j.step(ctx, j.command("grace=0\n"+stopScript)); err == nil {
		_, _ = j.step(ctx, j.command(cleanScript))
	}
}

func (j *job) command(script string) Cmd {
	return Cmd{Script: j.header + jobFunctions + script, Replayable: true}
}

// step runs one of the job's scripts, again when its outcome is unknown, and
// returns the last line it printed.
func (j *job) step(ctx context.Context, cmd Cmd) (string, error) {
	var out string
	err := retry.Do(ctx, lostReply, func(int) error {
		var err error
		out, err = Output(ctx, j.sb, cmd)
		return err
	}, func(err error) retry.Verdict { return retry.Verdict{Again: unknownOutcome(err)} })
	var exit *ExitError
	if errors.As(err, &exit) {
		return "", scriptError(exit)
	}
	return out[strings.LastIndexByte(out, '\n')+1:], err
}

// unknownOutcome reports whether err leaves open what became of a command.
func unknownOutcome(err error) bool {
	var exit *ExitError
	switch {
	case errors.As(err, &exit):
		return exit.Result.Signal != "" // somebody killed the script, which may be repeated
	case errors.Is(err, context.Canceled), errors.Is(err, ErrGone), errors.Is(err, ErrUnauthorized), errors.Is(err, ErrInvalid):
		return false
	}
	return true
}

// scriptError is what a job's own script said when it gave up, without the
// script, which nobody wants to read in a log.
func scriptError(exit *ExitError) error {
	said := strings.TrimSpace(string(exit.Result.Stderr))
	if said == "" {
		said = fmt.Sprintf("the job's script exited with status %d %s", exit.Result.Code, exit.Result.Signal)
	}
	err := errors.New(clipFront(said, 400))
	if strings.Contains(said, "No space left") {
		return fmt.Errorf("%w: %w", ErrNoSpace, err)
	}
	return err
}

func parseAnswer(answer string) (Exit, error) {
	switch answer {
	case answerStopped:
		return Exit{State: TimedOut}, nil
	case answerLost:
		return Exit{State: Lost}, nil
	}
	code, ok := strings.CutPrefix(answer, answerExit)
	if n, err := strconv.ParseUint(code, 10, 8); ok && err == nil {
		return Exit{Code: int(n)}, nil
	}
	return Exit{}, fmt.Errorf("the job's script answered %q, which is none of its answers", clip(answer, 80))
}

func seconds(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) }
