//go:build linux

package e2btest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Kind is what goes wrong with a request.
type Kind string

// The kinds of fault. Where it says so, the request is carried out.
const (
	ResetBefore     Kind = "reset before headers" // the connection breaks; nothing was done
	LoseReply       Kind = "lost reply"           // carried out; the connection breaks before the headers
	ResetAfter      Kind = "reset after headers"  // carried out; the connection breaks behind the headers
	CutFrame        Kind = "cut in a frame"       // carried out; the connection breaks after After bytes of the body
	CutUpload       Kind = "cut upload"           // the connection breaks after half of the request's body
	Hang            Kind = "hang"                 // nothing is done, and no byte ever comes
	GatewayNotFound Kind = "502 not found"        // though the sandbox lives
	GatewayClosed   Kind = "502 port not open"
	GatewayText     Kind = "502 text"
	TooFast         Kind = "429 with Retry-After"
	TooMany         Kind = "429 without Retry-After"
	Capacity        Kind = "503"      // of the control plane: sandbox_capacity_unavailable; nothing was made
	Placement       Kind = "504"      // of the control plane: sandbox_placement_timeout; nothing was made
	PlacementMade   Kind = "504 made" // the same, and the sandbox is there
	Conflict        Kind = "409"
	Internal        Kind = "500"
	KillSandbox     Kind = "sandbox killed" // After this time from the request
	RestartEnvd     Kind = "envd restarted" // After this time from the request
	Slow            Kind = "slow"           // carried out, After this time later
)

// A Fault is one thing that goes wrong, for the requests that it matches.
type Fault struct {
	Kind  Kind
	Op    string        // "create", "delete", "get", "list", "Start", "Stat", "Move", "POST /files", "GET /files", …; "" for any
	Body  string        // text in the request's body; "" for any. Only for Start
	Times int           // 0 for once, negative for always
	Bytes int           // for CutFrame; 0 for 40
	After time.Duration // for KillSandbox, RestartEnvd, Slow; 0 for 300 ms
}

// Inject adds a fault. Of several that match a request the first is taken.
func (s *Server) Inject(f Fault) {
	if f.Times == 0 {
		f.Times = 1
	}
	if f.Bytes == 0 {
		f.Bytes = 40
	}
	if f.After == 0 {
		f.After = 300 * time.Millisecond
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// operation names a request as Fault.Op and Stats.Requests do.
func operation(r *http.Request) string {
	path := r.URL.Path
	switch {
	case strings.HasPrefix(path, "/process.Process/"), strings.HasPrefix(path, "/filesystem.Filesystem/"):
		return path[strings.LastIndex(path, "/")+1:]
	case path == "/files":
		return r.Method + " /files"
	case path == "/health", path == "/metrics", path == "/envs":
		return path[1:]
	case strings.HasSuffix(path, "/sandboxes") && r.Method == http.MethodPost:
		return "create"
	case strings.HasSuffix(path, "/sandboxes"):
		return "list"
	case strings.HasSuffix(path, "/timeout"):
		return "timeout"
	case r.Method == http.MethodDelete:
		return "delete"
	}
	return "get"
}

func (s *Server) fault(op string, r *http.Request) *Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stats.Requests[op]++
	for _, f := range s.faults {
		if f.Times == 0 || f.Op != "" && f.Op != op || f.Body != "" && !bodyHas(r, f.Body) {
			continue
		}
		f.Times--
		return f
	}
	return nil
}

// bodyHas looks into a body and puts it back.
func bodyHas(r *http.Request, text string) bool {
	b, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(b))
	return err == nil && bytes.Contains(b, []byte(text))
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	op := operation(r)
	f := s.fault(op, r)
	if f == nil {
		s.route(w, r)
		return
	}
	id := r.Header.Get("E2b-Sandbox-Id")
	switch f.Kind {
	case ResetBefore:
		reset(w)
	case CutUpload:
		s.cutUpload(w, r)
	case Hang:
		hang(r)
	case LoseReply:
		s.route(&discard{header: make(http.Header)}, detached(r))
		reset(w)
	case ResetAfter:
		s.route(&cutWriter{w: w, left: 0}, detached(r))
	case CutFrame:
		s.route(&cutWriter{w: w, left: f.Bytes}, detached(r))
	case PlacementMade:
		s.route(&discard{header: make(http.Header)}, r)
		refuse(w, Placement, id)
	case KillSandbox, RestartEnvd:
		time.AfterFunc(f.After, func() { // also when the request is over by then
			if f.Kind == KillSandbox {
				s.Kill(id)
			} else {
				_ = s.RestartEnvd(id)
			}
		})
		s.route(w, r)
	case Slow:
		time.Sleep(f.After)
		s.route(w, r)
	default:
		refuse(w, f.Kind, id)
	}
}

// refuse answers as the gateway or the control plane does.
func refuse(w http.ResponseWriter, kind Kind, id string) {
	switch kind {
	case GatewayNotFound:
		writeJSON(w, 502, map[string]any{"sandboxId": id, "message": "The sandbox was not found", "code": 502})
	case GatewayClosed:
		writeJSON(w, 502, map[string]any{"sandboxId": id, "message": "The sandbox is running but port is not open", "port": 49983, "code": 502})
	case GatewayText:
		http.Error(w, "Failed to route request to sandbox", http.StatusBadGateway)
	case TooFast:
		w.Header().Set("Retry-After", "1")
		apiError(w, 429, "", "Rate limit exceeded")
	case TooMany:
		apiError(w, 429, "", "you have reached the maximum number of concurrent E2B sandboxes (20)")
	case Capacity:
		apiError(w, 503, "sandbox_capacity_unavailable", "no capacity, please retry shortly")
	case Placement:
		apiError(w, 504, "sandbox_placement_timeout", "Failed to place sandbox: placement timed out after 3 attempt(s), please retry")
	case Conflict:
		apiError(w, 409, "", "The sandbox is still transitioning. Try again in a moment.")
	default:
		apiError(w, 500, "internal_server_error", "Internal error")
	}
}

// reset breaks the connection as a killed peer does.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

// cutUpload hands half of the body on and breaks off both ways.
func (s *Server) cutUpload(w http.ResponseWriter, r *http.Request) {
	half := io.LimitReader(r.Body, max(r.ContentLength/2, 1))
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	r = r.Clone(ctx)
	r.Body = io.NopCloser(io.MultiReader(half, broken{}))
	func() {
		defer func() { _ = recover() }() // the gateway aborts the same request
		s.route(&discard{header: make(http.Header)}, r)
	}()
	reset(w)
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// hang keeps the connection open until the client leaves. The body is read,
// or the client's leaving would not be seen.
func hang(r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// detached is a request that is carried out whatever becomes of its client.
func detached(r *http.Request) *http.Request {
	return r.WithContext(context.WithoutCancel(r.Context()))
}

// discard is the reply that nobody gets.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}
func (d *discard) Flush()                      {}

// cutWriter breaks the connection after left bytes of the body. The handler
// goes on, unheard.
type cutWriter struct {
	w    http.ResponseWriter
	left int
	cut  bool
}

func (c *cutWriter) Header() http.Header { return c.w.Header() }

// EnableFullDuplex is for http.ResponseController.
func (c *cutWriter) EnableFullDuplex() error {
	return http.NewResponseController(c.w).EnableFullDuplex()
}

func (c *cutWriter) WriteHeader(status int) {
	if c.cut || status < 200 {
		return
	}
	c.w.WriteHeader(status)
	if c.left == 0 {
		c.breakOff()
	}
}

func (c *cutWriter) Write(p []byte) (int, error) {
	if c.cut {
		return len(p), nil
	}
	n := min(len(p), c.left)
	_, _ = c.w.Write(p[:n])
	if c.left -= n; c.left == 0 {
		c.breakOff()
	}
	return len(p), nil
}

func (c *cutWriter) Flush() {
	if !c.cut {
		_ = http.NewResponseController(c.w).Flush()
	}
}

func (c *cutWriter) breakOff() {
	c.cut = true
	rc := http.NewResponseController(c.w)
	_ = rc.Flush()
	conn, rw, err := rc.Hijack()
	if err != nil {
		return
	}
	_ = rw.Flush()
	time.Sleep(20 * time.Millisecond) // what was sent arrives; a reset would overtake it
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

var _ interface {
	http.ResponseWriter
	http.Flusher
} = (*cutWriter)(nil)

// readFrame reads the one frame of a stream's request.
func readFrame(r io.Reader) ([]byte, error) {
	br := bufio.NewReader(r)
	var head [5]byte
	if _, err := io.ReadFull(br, head[:]); err != nil {
		return nil, fmt.Errorf("protocol error: incomplete envelope: %w", err)
	}
	n := int(head[1])<<24 | int(head[2])<<16 | int(head[3])<<8 | int(head[4])
	if n > 64<<20 {
		return nil, fmt.Errorf("message size %d is larger than configured max", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(br, b)
	return b, err
}
