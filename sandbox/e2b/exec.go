package e2b

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/internal/endmark"
	"github.com/agentrl-go/agentrl/sandbox"
)

const (
	maxScript = 96 << 10  // bytes of a script in the argument list, where Linux takes 128 KiB
	maxOutput = 512 << 20 // bytes of a command's stdout or stderr
	linger    = 200 * time.Millisecond
)

// startRequest starts a process. stdin is on by default, hence the field.
type startRequest struct {
	Process struct {
		Cmd  string            `json:"cmd"`
		Args []string          `json:"args"`
		Envs map[string]string `json:"envs,omitempty"`
		Cwd  string            `json:"cwd"`
	} `json:"process"`
	Stdin bool `json:"stdin"`
}

// Exec implements sandbox.Sandbox. A stream that was cut is ErrCut unless the
// command is Replayable; then it is run again, up to Options.Retries times.
// When ctx ends, Exec returns and the command goes on: a command whose end
// matters runs under sandbox.RunDetached.
func (s *Sandbox) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Result, error) {
	if err := cmd.Check(); err != nil {
		return sandbox.Result{}, fmt.Errorf("e2b: exec: %w", err)
	}
	var res sandbox.Result
	err := s.try(ctx, "exec", cmd.Replayable, func(ctx context.Context) error {
		script, err := s.shipScript(ctx, cmd)
		if err != nil {
			return err
		}
		cmd := cmd
		cmd.Script = script
		res, err = s.start(ctx, cmd)
		return err
	})
	if err != nil {
		return sandbox.Result{}, err
	}
	return res, nil
}

// shipScript makes a script that fits the argument list: a long one goes into
// a file of the user's, which the shell reads and removes before it runs it.
func (s *Sandbox) shipScript(ctx context.Context, cmd sandbox.Cmd) (string, error) {
	if len(cmd.Script) <= maxScript {
		return cmd.Script, nil
	}
	path := "/tmp/.agentrl-script-" + nonce()
	if err := s.upload(ctx, path, cmd.User, strings.NewReader(cmd.Script)); err != nil {
		var t *transportError
		if errors.As(err, &t) {
			t.sent = false // of the command, nothing was
		}
		return "", fmt.Errorf("upload script: %w", err)
	}
	return fmt.Sprintf(`eval "$(cat %s && rm -f %s)"`, path, path), nil
}

var errSilent = errors.New("the stream fell silent")

// start runs the command once.
func (s *Sandbox) start(ctx context.Context, cmd sandbox.Cmd) (sandbox.Result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	mark := endmark.New(maxOutput)
	req, err := s.startRequest(ctx, cmd, mark)
	if err != nil {
		return sandbox.Result{}, err
	}
	silence := s.p.opts.PingInterval * 7 / 2
	watchdog := time.AfterFunc(max(silence, s.p.opts.CallTimeout), func() { cancel(errSilent) })
	defer watchdog.Stop()
	resp, err := send(s.p.rpc, req)
	if err != nil {
		return sandbox.Result{}, unknown(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return sandbox.Result{}, unknown(readRefusal(resp, fromEnvd))
	}
	if ct := resp.Header.Get("Content-Type"); !strings.HasPrefix(ct, "application/connect+json") {
		b, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return sandbox.Result{}, fmt.Errorf("%w: not envd: answers with %q: %q", sandbox.ErrInvalid, ct, b)
	}
	r := &run{frames: newFrames(resp.Body), mark: mark, wait: func(d time.Duration) { watchdog.Reset(d) }, silence: silence}
	res, err := r.result()
	if err != nil {
		return sandbox.Result{}, attribute(ctx, err)
	}
	return res, nil
}

// unknown marks a failure after which the command may run all the same.
func unknown(err error) error {
	if transient(err) && !undelivered(err) {
		return fmt.Errorf("%w: %w", sandbox.ErrCut, err)
	}
	return err
}

// startRequest makes the call. It carries no Connect-Timeout-Ms: envd kills
// the process by it, and at 0 refuses the call and runs the process still. The
// ping interval is at least 1: at 0 envd crashes.
func (s *Sandbox) startRequest(ctx context.Context, cmd sandbox.Cmd, mark *endmark.Mark) (*http.Request, error) {
	argv := mark.Argv(s.p.opts.Shell, cmd.Script)
	if user(cmd.User) != "root" { // envd's pipes are root's
		argv = mark.PipedArgv(s.p.opts.Shell, cmd.Script)
	}
	var msg startRequest
	msg.Process.Cmd, msg.Process.Args = argv[0], argv[1:]
	msg.Process.Envs = maps.Clone(s.env)
	maps.Copy(msg.Process.Envs, cmd.Env)
	msg.Process.Cwd = cmd.Dir
	if cmd.Dir == "" {
		msg.Process.Cwd = "/" // envd's own default is a home that may be missing
	}
	body, err := frame(msg)
	if err != nil {
		return nil, err
	}
	req, err := s.request(ctx, http.MethodPost, "/process.Process/Start", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/connect+json")
	req.Header.Set("Connect-Protocol-Version", "1")
	req.Header.Set("Keepalive-Ping-Interval", strconv.Itoa(max(int(s.p.opts.PingInterval/time.Second), 1)))
	req.SetBasicAuth(user(cmd.User), "")
	return req, nil
}

func user(name string) string {
	if name == "" {
		return "root"
	}
	return name
}

// A run reads one process's stream.
type run struct {
	frames *frames
	mark   *endmark.Mark

	wait    func(time.Duration) // the next frame must come within
	silence time.Duration

	started bool
	end     *endEvent
}

// result reads to the end mark, and then on for a moment: the stream's own end
// leaves a connection that can be used again.
func (r *run) result() (sandbox.Result, error) {
	done := false
	for {
		flags, payload, err := r.frames.next()
		if err != nil || flags&flagEnd != 0 {
			if err == nil {
				err = endError(payload)
				_, _, _ = r.frames.next() // to the response's end, or the connection is lost
			}
			return r.close(err)
		}
		if done {
			continue
		}
		r.wait(r.silence)
		if err := r.take(payload); err != nil {
			return sandbox.Result{}, err
		}
		if r.mark.Done() || r.end != nil {
			done = true
			r.wait(linger)
		}
	}
}

func (r *run) take(payload []byte) error {
	e, err := parseEvent(payload)
	if err != nil {
		return err
	}
	r.started = r.started || e.started
	if e.end != nil {
		r.end = e.end
	}
	if err := r.mark.Stdout(e.stdout); err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrInvalid, err)
	}
	if err := r.mark.Stderr(e.stderr); err != nil {
		return fmt.Errorf("%w: %w", sandbox.ErrInvalid, err)
	}
	return nil
}

// close makes the result of a stream that ended with err.
func (r *run) close(err error) (sandbox.Result, error) {
	stdout, stderr := r.mark.Output()
	res := sandbox.Result{Stdout: stdout, Stderr: stderr}
	switch {
	case r.mark.Done():
		if res.Code, res.Signal, err = r.mark.Status(); err != nil {
			return sandbox.Result{}, fmt.Errorf("%w: %w", sandbox.ErrCut, err)
		}
		return res, nil
	case r.end != nil: // the wrapper itself was killed, or could not be started
		return r.wrapperEnd(res)
	case err == nil:
		err = fmt.Errorf("%w: it has no end event", sandbox.ErrCut)
	case r.started && !errors.Is(err, sandbox.ErrCut):
		err = fmt.Errorf("%w: %w", sandbox.ErrCut, err)
	}
	return sandbox.Result{}, err
}

func (r *run) wrapperEnd(res sandbox.Result) (sandbox.Result, error) {
	if r.end.Exited && (r.end.ExitCode == 126 || r.end.ExitCode == 127) {
		res.Code = r.end.ExitCode
		return res, nil
	}
	text, _, _ := strings.Cut(strings.TrimPrefix(r.end.Status, "signal: "), " (")
	if res.Signal = endmark.SignalOf(text); res.Signal == "" {
		return res, fmt.Errorf("%w: process ended with exit code %d, status %.100q", sandbox.ErrCut, r.end.ExitCode, r.end.Status)
	}
	return res, nil
}
