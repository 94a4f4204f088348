package docker

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/internal/endmark"
	"github.com/agentrl-go/agentrl/internal/retry"
	"github.com/agentrl-go/agentrl/sandbox"
)

const (
	maxScript = 96 << 10  // bytes of a script in the argument list, where Linux takes 128 KiB
	maxOutput = 512 << 20 // bytes of a command's stdout or stderr
	maxFrame  = 64 << 20
)

type execConfig struct {
	AttachStdout, AttachStderr bool
	Cmd                        []string
	Env                        []string
	User                       string
	WorkingDir                 string
}

// Exec implements sandbox.Sandbox. A connection that breaks is ErrCut unless
// the command is Replayable. When ctx ends, Exec returns and the command goes
// on. The image needs /bin/sh.
func (s *Sandbox) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Result, error) {
	if err := cmd.Check(); err != nil {
		return sandbox.Result{}, fmt.Errorf("docker: exec: %w", err)
	}
	var res sandbox.Result
	err := s.try(ctx, "exec", cmd.Replayable, func(ctx context.Context) error {
		cmd := cmd
		if len(cmd.Script) > maxScript {
			path := "/tmp/.agentrl-script-" + nonce(16)
			if err := s.put(ctx, path, cmd.User, strings.NewReader(cmd.Script)); err != nil {
				return fmt.Errorf("upload script: %w", err)
			}
			cmd.Script = fmt.Sprintf(`eval "$(cat %s && rm -f %s)"`, path, path)
		}
		var err error
		res, err = s.run(ctx, cmd)
		return err
	})
	if err != nil {
		return sandbox.Result{}, err
	}
	return res, nil
}

// run runs the command once.
func (s *Sandbox) run(ctx context.Context, cmd sandbox.Cmd) (sandbox.Result, error) {
	mark := endmark.New(maxOutput)
	id, err := s.prepare(ctx, cmd, mark)
	if err != nil {
		return sandbox.Result{}, err
	}
	resp, err := s.p.do(ctx, http.MethodPost, "/exec/"+id+"/start", strings.NewReader(`{"Detach":false,"Tty":false}`), "Content-Type", "application/json")
	if err != nil && transient(err) && !undelivered(err) {
		return sandbox.Result{}, fmt.Errorf("%w: %w", sandbox.ErrCut, err)
	}
	if err != nil {
		return sandbox.Result{}, err
	}
	defer resp.Body.Close()
	err = demultiplex(resp.Body, mark)
	switch {
	case mark.Done():
		return finished(mark)
	case ctx.Err() != nil:
		return sandbox.Result{}, fmt.Errorf("%w: %w", sandbox.ErrCut, context.Cause(ctx))
	case err != nil:
		return sandbox.Result{}, err
	}
	return s.unmarked(ctx, id, mark)
}

func finished(mark *endmark.Mark) (sandbox.Result, error) {
	var res sandbox.Result
	var err error
	res.Stdout, res.Stderr = mark.Output()
	if res.Code, res.Signal, err = mark.Status(); err != nil {
		return sandbox.Result{}, fmt.Errorf("%w: %w", sandbox.ErrCut, err)
	}
	return res, nil
}

// prepare makes the exec; until it is started nothing runs.
func (s *Sandbox) prepare(ctx context.Context, cmd sandbox.Cmd, mark *endmark.Mark) (string, error) {
	shell, env := s.login(cmd)
	cfg := execConfig{AttachStdout: true, AttachStderr: true, Cmd: mark.Argv(shell, cmd.Script), Env: env, User: user(cmd.User), WorkingDir: cmd.Dir}
	if cfg.WorkingDir == "" {
		cfg.WorkingDir = "/"
	}
	var made struct{ ID string }
	err := s.p.call(ctx, http.MethodPost, "/containers/"+s.name+"/exec", cfg, &made)
	if t := (*transportError)(nil); errors.As(err, &t) {
		t.sent = false // made or not, it does not run
	}
	if err == nil && made.ID == "" {
		err = fmt.Errorf("daemon made an exec without an id")
	}
	return made.ID, err
}

// home leads to the user's own home: the daemon gives one only where the
// image's environment has none, which may be root's.
const home = `HOME=$(eval "echo ~$USER"); export HOME; exec "$@"`

// login is the shell and the environment of the command's user.
func (s *Sandbox) login(cmd sandbox.Cmd) (shell, env []string) {
	given := maps.Clone(s.env)
	maps.Copy(given, cmd.Env)
	name := user(cmd.User)
	for _, k := range []string{"USER", "LOGNAME"} {
		if _, ok := given[k]; !ok {
			env = append(env, k+"="+name)
		}
	}
	for k, v := range given {
		env = append(env, k+"="+v)
	}
	slices.Sort(env)
	shell = s.p.opts.Shell
	if _, ok := given["HOME"]; !ok && given["USER"] == "" && userName.MatchString(name) {
		shell = append([]string{"/bin/sh", "-c", home, "sh"}, shell...)
	}
	return shell, env
}

var userName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

func user(name string) string {
	if name == "" {
		return "root"
	}
	return name
}

// demultiplex gives the mark what comes, until the shell has ended or the
// stream has: a header of eight bytes names the stream and the length.
func demultiplex(r io.Reader, mark *endmark.Mark) error {
	br := bufio.NewReaderSize(r, 64<<10)
	buf := make([]byte, 32<<10)
	for !mark.Done() {
		var head [8]byte
		if _, err := io.ReadFull(br, head[:]); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%w: %w", sandbox.ErrCut, err)
		}
		left := binary.BigEndian.Uint32(head[4:])
		if head[0] > 2 || left > maxFrame {
			return fmt.Errorf("%w: not a frame of an exec's stream: % x", sandbox.ErrCut, head)
		}
		take := mark.Stdout
		if head[0] == 2 {
			take = mark.Stderr
		}
		for left > 0 {
			n := min(int(left), len(buf))
			if _, err := io.ReadFull(br, buf[:n]); err != nil {
				return fmt.Errorf("%w: %w", sandbox.ErrCut, err)
			}
			if err := take(buf[:n]); err != nil {
				return fmt.Errorf("%w: %w", sandbox.ErrInvalid, err)
			}
			left -= uint32(n)
		}
	}
	return nil
}

// unmarked asks how an exec ended whose stream has no mark: the wrapper was
// killed or could not start, the container is gone, or the stream was cut.
func (s *Sandbox) unmarked(ctx context.Context, id string, mark *endmark.Mark) (sandbox.Result, error) {
	var v struct {
		Running  bool
		ExitCode *int
	}
	if err := s.p.call(ctx, http.MethodGet, "/exec/"+id+"/json", nil, &v); err != nil {
		return sandbox.Result{}, fmt.Errorf("%w: %w", sandbox.ErrCut, err)
	}
	for i := 0; v.Running && i < 20; i++ { // the daemon may hear of the end after the stream's
		if err := retry.Sleep(ctx, 50*time.Millisecond); err != nil {
			return sandbox.Result{}, fmt.Errorf("%w: %w", sandbox.ErrCut, err)
		}
		if err := s.p.call(ctx, http.MethodGet, "/exec/"+id+"/json", nil, &v); err != nil {
			return sandbox.Result{}, fmt.Errorf("%w: %w", sandbox.ErrCut, err)
		}
	}
	if v.Running || v.ExitCode == nil {
		return sandbox.Result{}, fmt.Errorf("%w before its end", sandbox.ErrCut)
	}
	if *v.ExitCode == 137 && s.ending(ctx) {
		return sandbox.Result{}, fmt.Errorf("%w: it ended under the command", sandbox.ErrGone)
	}
	var res sandbox.Result
	res.Stdout, res.Stderr = mark.Output()
	if text := startFailure(res); text != "" {
		return sandbox.Result{}, fmt.Errorf("%w: %s", sandbox.ErrInvalid, text)
	}
	code := *v.ExitCode
	switch name := endmark.SignalName(code - 128); {
	case name != "":
		res.Signal = name
	case code == 126 || code == 127:
		res.Code = code
	default:
		return sandbox.Result{}, fmt.Errorf("%w: exit status %d without an end mark", sandbox.ErrCut, code)
	}
	return res, nil
}

// ending reports whether the container has ended, or does so within half a
// second: the daemon hears of the end of an exec first.
func (s *Sandbox) ending(ctx context.Context) bool {
	for range 10 {
		if alive, err := s.alive(ctx); err == nil && !alive {
			return true
		}
		if retry.Sleep(ctx, 50*time.Millisecond) != nil {
			return false
		}
	}
	return false
}

// startFailure is the runtime's word on a process that it could not start; it
// comes as the process's output.
func startFailure(res sandbox.Result) string {
	for _, b := range [][]byte{res.Stdout, res.Stderr} {
		if bytes.Contains(b, []byte("runtime exec failed")) || bytes.Contains(b, []byte("unable to find user")) || bytes.Contains(b, []byte("unable to start container process")) {
			return strings.TrimSpace(string(b[:min(len(b), 400)]))
		}
	}
	return ""
}

// alive asks whether the container runs.
func (s *Sandbox) alive(ctx context.Context) (bool, error) {
	var v struct{ State struct{ Running bool } }
	err := s.p.call(ctx, http.MethodGet, "/containers/"+s.name+"/json", nil, &v)
	if errors.Is(err, sandbox.ErrGone) || isStatus(err, http.StatusNotFound) {
		return false, nil
	}
	return v.State.Running, err
}
