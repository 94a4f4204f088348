//go:build linux

package e2btest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Options say what server to be. The zero value is E2B with one template,
// "base", which is this machine's own file system with an empty /tmp.
type Options struct {
	Key       string            // API key; "" for "e2b_00"
	Templates map[string]string // template → script, run as root in /, that makes what it has beside the machine's files
	ImageKey  string            // metadata key that chooses the image, as in compatible servers; "" for none
	Images    map[string]string // image → script, for ImageKey

	// Shared is a template of which all sandboxes are one machine: what they
	// cost is then little, for runs that are about their number. They see each
	// other's files, and a kill leaves what runs in one running. "" for none.
	Shared string

	NoV1, NoV2    bool   // create paths that are not there
	CreatesPerSec int    // more are answered 429 with Retry-After; 0 for no limit
	MaxLive       int    // sandboxes; more are answered 429 without Retry-After; 0 for no limit
	Envd          string // URL of a real envd, which then is every sandbox's: without a machine of its own, unrestricted, not to be restarted
	IgnoreNetwork bool   // the network fields of a create change nothing, as at servers that do not know them
	RelayPorts    []int  // TCP ports at which a sandbox that may reach one address alone reaches it
	Version       string
	NoKeepAlive   bool   // every request dials anew, so that a refused connection can be any request's
	NoRetention   bool   // the end of a process is forgotten at once, as before envd 0.6.12
	TagBug        bool   // selecting a process by tag fails beside another tagged one
	Space         string // put between JSON tokens, as protojson does at random; "" or " "
}

// A Server is the double. Its methods are safe for concurrent use.
type Server struct {
	URL  string // of the control plane and, routed by headers, of every envd
	opts Options

	http   *http.Server
	dir    string // holds the sandboxes' files
	refuse atomic.Int64
	aborts aborts

	sharing sync.Mutex
	shared  *machine // of the template Options.Shared; nil until its first sandbox

	mu        sync.Mutex
	sandboxes map[string]*machine
	faults    []*Fault
	stats     Stats
	tokens    float64 // of the creation rate
	refilled  time.Time
	closed    bool
}

// Stats count what the server saw.
type Stats struct {
	Requests   map[string]int // by operation: "create", "Start", "Move", "GET /files", …
	Creates    int            // sandboxes made
	PeakLive   int            // sandboxes alive at once
	Violations []string       // requests that would have crashed or confused a real server
	Aborts     []string       // streams that broke between the gateway and an envd, other than by a client's leaving
}

// CanRun tells why sandboxes with processes cannot be had here; nil if they can.
func CanRun() error {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		return fmt.Errorf("e2btest: sandboxes need Linux namespaces and an overlay, as root (here: %s, uid %d)", runtime.GOOS, os.Geteuid())
	}
	return nil
}

// Start starts a server on a free port of localhost. Close must be called.
func Start(o Options) (*Server, error) {
	if err := CanRun(); err != nil && o.Envd == "" {
		return nil, err
	}
	if o.Key == "" {
		o.Key = "e2b_00"
	}
	if o.Version == "" {
		o.Version = "0.6.13"
	}
	dir, err := os.MkdirTemp("", "e2btest-")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	s := &Server{
		URL: "http://" + l.Addr().String(), opts: o, dir: dir,
		sandboxes: make(map[string]*machine), stats: Stats{Requests: make(map[string]int)}, tokens: float64(o.CreatesPerSec), refilled: time.Now(),
	}
	s.http = &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	s.http.SetKeepAlivesEnabled(!o.NoKeepAlive)
	go func() { _ = s.http.Serve(l) }() // ends with Close
	return s, nil
}

// Close destroys all sandboxes and ends the server.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	var all []*machine
	for _, m := range s.sandboxes {
		all = append(all, m)
	}
	s.mu.Unlock()
	for _, m := range all {
		s.destroy(m)
	}
	s.endShared()
	err := s.http.Close()
	if rerr := os.RemoveAll(s.dir); err == nil {
		err = rerr
	}
	return err
}

// Key is the API key that the server accepts.
func (s *Server) Key() string { return s.opts.Key }

// Dial connects as net.Dialer does, and refuses while Refuse says so.
func (s *Server) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if s.refuse.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "dial", Net: network, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	s.refuse.Store(0)
	return (&net.Dialer{}).DialContext(ctx, network, addr)
}

// Refuse makes the next n dials fail.
func (s *Server) Refuse(n int) { s.refuse.Store(int64(n)) }

// Stats returns what was counted since the start or the last Reset.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.stats
	out.Requests = make(map[string]int)
	for k, v := range s.stats.Requests {
		out.Requests[k] = v
	}
	out.Aborts = s.aborts.all()
	out.Violations = append([]string(nil), s.stats.Violations...)
	return out
}

// Reset forgets what was counted and which faults were left.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
	s.refuse.Store(0)
	s.stats = Stats{Requests: make(map[string]int), PeakLive: len(s.sandboxes)}
}

// Live names the sandboxes that exist.
func (s *Server) Live() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for id := range s.sandboxes {
		ids = append(ids, id)
	}
	return ids
}

// Kill destroys a sandbox as its end of life does.
func (s *Server) Kill(id string) {
	if m := s.machine(id); m != nil {
		s.destroy(m)
	}
}

// RestartEnvd kills envd and every process with it; the files stay.
func (s *Server) RestartEnvd(id string) error {
	m := s.machine(id)
	if m == nil {
		return fmt.Errorf("e2btest: no sandbox %q", id)
	}
	return m.restart()
}

func (s *Server) machine(id string) *machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sandboxes[id]
}

func (s *Server) destroy(m *machine) {
	s.mu.Lock()
	delete(s.sandboxes, m.id)
	s.mu.Unlock()
	m.kill()
	os.RemoveAll(filepath.Join(s.dir, m.id))
}

func (s *Server) violation(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Violations = append(s.stats.Violations, fmt.Sprintf(format, args...))
}

// aborts collects what the gateway logs.
type aborts struct {
	mu    sync.Mutex
	lines []string
}

// Write implements io.Writer: a line a call.
func (a *aborts) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, strings.TrimSpace(string(p)))
	return len(p), nil
}

func (a *aborts) all() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.lines...)
}
