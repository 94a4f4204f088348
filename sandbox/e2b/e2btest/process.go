//go:build linux

package e2btest

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	chunk     = 32 << 10 // bytes that envd reads of an output at once
	retention = 30 * time.Second
)

// rpcError is an error of Connect's.
type rpcError struct {
	code, message string
}

func (e *rpcError) Error() string { return e.message }

func rpcErrorf(code, format string, args ...any) *rpcError {
	return &rpcError{code, fmt.Sprintf(format, args...)}
}

// httpStatus is the status of a unary call's error.
func (e *rpcError) httpStatus() int {
	switch e.code {
	case "not_found":
		return 404
	case "already_exists":
		return 409
	case "invalid_argument":
		return 400
	case "unauthenticated":
		return 401
	case "unimplemented":
		return 501
	case "deadline_exceeded":
		return 504
	}
	return 500
}

// processConfig is a process as requests and List have it.
type processConfig struct {
	Cmd  string            `json:"cmd"`
	Args []string          `json:"args,omitempty"`
	Envs map[string]string `json:"envs,omitempty"`
	Cwd  string            `json:"cwd,omitempty"`
}

type selector struct {
	PID int    `json:"pid"`
	Tag string `json:"tag"`
}

// A process is one command and those who watch it.
type process struct {
	config processConfig
	tag    string
	pid    int
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	ended  chan struct{} // closed after end is set

	mu       sync.Mutex
	watchers map[*watcher]struct{}
	end      map[string]any
}

// A watcher is one attached stream. Output waits for it, as a full pipe does.
type watcher struct {
	events chan map[string]any
	gone   chan struct{}
}

func (p *process) watch() *watcher {
	w := &watcher{events: make(chan map[string]any), gone: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.watchers[w] = struct{}{}
	return w
}

func (p *process) leave(w *watcher) {
	p.mu.Lock()
	delete(p.watchers, w)
	p.mu.Unlock()
	close(w.gone)
}

// tell hands an event to whoever watches; with nobody it is lost.
func (p *process) tell(event map[string]any) {
	p.mu.Lock()
	var all []*watcher
	for w := range p.watchers {
		all = append(all, w)
	}
	p.mu.Unlock()
	for _, w := range all {
		select {
		case w.events <- event:
		case <-w.gone:
		}
	}
}

func (e *envd) processCall(w http.ResponseWriter, r *http.Request, name string) {
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", "POST")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	switch name {
	case "Start", "Connect":
		e.stream(w, r, name)
	case "List", "SendSignal", "SendInput", "CloseStdin", "Update":
		e.unary(w, r, map[string]func(*http.Request, []byte) (any, error){
			"List": e.listProcesses, "SendSignal": e.sendSignal, "SendInput": e.sendInput, "CloseStdin": e.closeStdin,
			"Update": func(*http.Request, []byte) (any, error) { return nil, rpcErrorf("unimplemented", "no terminals here") },
		}[name])
	default:
		_, _ = io.Copy(io.Discard, r.Body)
		http.Error(w, "404 page not found", 404)
	}
}

// unary answers one call; an error is an HTTP status and a body with its code.
func (e *envd) unary(w http.ResponseWriter, r *http.Request, fn func(*http.Request, []byte) (any, error)) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	out, err := fn(r, body)
	if err == nil {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(out)
		return
	}
	rerr := (*rpcError)(nil)
	if !errors.As(err, &rerr) {
		rerr = &rpcError{"internal", err.Error()}
	}
	writeJSON(w, rerr.httpStatus(), map[string]string{"code": rerr.code, "message": rerr.message})
}

// stream answers Start and Connect; an error is the last frame of a 200.
func (e *envd) stream(w http.ResponseWriter, r *http.Request, name string) {
	if r.Header.Get("Content-Type") != "application/connect+json" {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Accept-Post", "application/connect+json, application/connect+proto")
		w.WriteHeader(415)
		return
	}
	body, err := readFrame(r.Body)
	out := &streamWriter{w: w, space: e.cfg.Space}
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body) // or the client's leaving would not be seen
	}
	if err != nil {
		out.end(rpcErrorf("invalid_argument", "%v", err))
		return
	}
	w.Header().Set("Content-Type", "application/connect+json")
	if name == "Start" {
		err = e.start(out, r, body)
	} else {
		err = e.connect(out, r, body)
	}
	out.end(err)
}

// streamWriter writes frames.
type streamWriter struct {
	w     http.ResponseWriter
	space string
}

func (s *streamWriter) frame(flags byte, body []byte) error {
	head := binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(body)))
	if _, err := s.w.Write(append(head, body...)); err != nil {
		return err
	}
	return http.NewResponseController(s.w).Flush()
}

func (s *streamWriter) event(e map[string]any) error {
	b, err := json.Marshal(map[string]any{"event": e})
	if err != nil {
		return err
	}
	if s.space != "" && !strings.Contains(string(b), `"data"`) {
		b = []byte(strings.ReplaceAll(string(b), `",`, `",`+s.space))
	}
	return s.frame(0, b)
}

func (s *streamWriter) end(err error) {
	s.w.Header().Set("Content-Type", "application/connect+json")
	body := []byte("{}")
	if err != nil {
		rerr := (*rpcError)(nil)
		if !errors.As(err, &rerr) {
			rerr = &rpcError{"internal", err.Error()}
		}
		body, _ = json.Marshal(map[string]any{"error": map[string]string{"code": rerr.code, "message": rerr.message}})
	}
	_ = s.frame(2, body)
}

// startRequest is a Start.
type startRequest struct {
	Process processConfig `json:"process"`
	Tag     string        `json:"tag"`
	Stdin   *bool         `json:"stdin"`
	PTY     any           `json:"pty"`
}

func (e *envd) start(out *streamWriter, r *http.Request, body []byte) error {
	var req startRequest
	if err := json.Unmarshal(body, &req); err != nil {
		return rpcErrorf("invalid_argument", "unmarshal message: %v", err)
	}
	if req.PTY != nil {
		return rpcErrorf("unimplemented", "no terminals here")
	}
	limit, limited, err := timeoutHeader(r.Header.Get("Connect-Timeout-Ms"))
	if err != nil {
		return err
	}
	p, err := e.newProcess(r, req)
	if err != nil {
		return err
	}
	w := p.watch()
	defer p.leave(w)
	if err := e.launch(p); err != nil {
		return err
	}
	if limited && limit == 0 {
		return rpcErrorf("deadline_exceeded", "context deadline exceeded")
	}
	var expired <-chan time.Time
	if limited {
		timer := time.AfterFunc(limit, func() { _ = p.cmd.Process.Kill() }) // the one process, whoever watches
		go func() { <-p.ended; timer.Stop() }()
		expired = time.After(limit)
	}
	return p.follow(out, r, w, expired)
}

// timeoutHeader reads the header by which envd kills a process.
func timeoutHeader(v string) (limit time.Duration, limited bool, err error) {
	if v == "" {
		return 0, false, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || len(v) > 10 || n < 0 {
		return 0, false, rpcErrorf("invalid_argument", "parse timeout: %q", v)
	}
	return time.Duration(n) * time.Millisecond, true, nil
}

// follow sends what the process does until it ends or the client leaves.
func (p *process) follow(out *streamWriter, r *http.Request, w *watcher, expired <-chan time.Time) error {
	if err := out.event(map[string]any{"start": map[string]int{"pid": p.pid}}); err != nil {
		return err
	}
	interval := 90 * time.Second
	if n, err := strconv.Atoi(r.Header.Get("Keepalive-Ping-Interval")); err == nil {
		interval = time.Duration(n) * time.Second
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case ev := <-w.events:
			if err := out.event(ev); err != nil {
				return err
			}
			ticker.Reset(interval)
		case <-p.ended:
			return out.event(p.end)
		case <-ticker.C:
			if err := out.event(map[string]any{"keepalive": struct{}{}}); err != nil {
				return err
			}
		case <-expired:
			return rpcErrorf("deadline_exceeded", "context deadline exceeded")
		case <-r.Context().Done():
			return r.Context().Err()
		}
	}
}

func (e *envd) connect(out *streamWriter, r *http.Request, body []byte) error {
	var req struct{ Process selector }
	if err := json.Unmarshal(body, &req); err != nil {
		return rpcErrorf("invalid_argument", "unmarshal message: %v", err)
	}
	limit, limited, err := timeoutHeader(r.Header.Get("Connect-Timeout-Ms"))
	if err != nil {
		return err
	}
	p, err := e.find(req.Process)
	if err != nil {
		return err
	}
	w := p.watch()
	defer p.leave(w)
	var expired <-chan time.Time
	if limited {
		expired = time.After(limit)
	}
	return p.follow(out, r, w, expired)
}

// find selects a process. By tag the real one stops at the first process that
// has another tag, in whatever order the map gives them.
func (e *envd) find(sel selector) (*process, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if sel.Tag == "" {
		if p := e.procs[sel.PID]; p != nil {
			return p, nil
		}
		return nil, rpcErrorf("not_found", "process with pid %d not found", sel.PID)
	}
	var found *process
	for _, p := range e.procs {
		if p.tag == sel.Tag {
			found = p
		} else if e.cfg.TagBug && p.tag != "" {
			found = nil
			break
		}
	}
	if found == nil {
		return nil, rpcErrorf("not_found", "process with tag %s not found", sel.Tag)
	}
	return found, nil
}

// requestUser is the user whom a request acts as.
func requestUser(r *http.Request) (*user.User, error) {
	name, _, ok := r.BasicAuth()
	if !ok || name == "" {
		name = "root"
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, rpcErrorf("unauthenticated", "invalid username: '%s'", name)
	}
	return u, nil
}

// newProcess makes a process; launch starts it.
func (e *envd) newProcess(r *http.Request, req startRequest) (*process, error) {
	u, err := requestUser(r)
	if err != nil {
		return nil, err
	}
	cwd := req.Process.Cwd
	if cwd == "" {
		cwd = u.HomeDir
	}
	if info, err := os.Stat(cwd); err != nil || !info.IsDir() {
		return nil, rpcErrorf("invalid_argument", "cwd '%s' does not exist", cwd)
	}
	argv := append([]string{"-c", `echo 100 > /proc/$$/oom_score_adj 2>/dev/null; exec nice -n 0 "${@}"`, "--", req.Process.Cmd}, req.Process.Args...)
	cmd := exec.Command("/bin/sh", argv...)
	cmd.Dir = cwd
	cmd.Env = environment(u, e.cfg.Env, req.Process.Envs)
	if cmd.SysProcAttr, err = credential(u); err != nil {
		return nil, err
	}
	p := &process{config: req.Process, tag: req.Tag, cmd: cmd, ended: make(chan struct{}), watchers: make(map[*watcher]struct{})}
	if req.Stdin == nil || *req.Stdin {
		p.stdin, _ = cmd.StdinPipe()
	}
	return p, nil
}

func environment(u *user.User, defaults, request map[string]string) []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + u.HomeDir, "USER=" + u.Username, "LOGNAME=" + u.Username}
	for _, m := range []map[string]string{defaults, request} {
		for k, v := range m {
			env = append(env, k+"="+v)
		}
	}
	return env
}

func credential(u *user.User) (*syscall.SysProcAttr, error) {
	uid, uerr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gerr := strconv.ParseUint(u.Gid, 10, 32)
	if uerr != nil || gerr != nil {
		return nil, rpcErrorf("internal", "user %s has ids %q, %q", u.Username, u.Uid, u.Gid)
	}
	cred := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	if ids, err := u.GroupIds(); err == nil {
		for _, id := range ids {
			if n, err := strconv.ParseUint(id, 10, 32); err == nil {
				cred.Groups = append(cred.Groups, uint32(n))
			}
		}
	}
	return &syscall.SysProcAttr{Credential: cred}, nil
}

func data(name string, b []byte) map[string]any {
	return map[string]any{"data": map[string]string{name: base64.StdEncoding.EncodeToString(b)}}
}
