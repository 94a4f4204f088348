package agentrl

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
)

// A LiveRollout is what one rollout is doing at one moment.
type LiveRollout struct {
	InstanceID string    `json:"instance_id"` // "unknown" before the row was parsed
	Session    string    `json:"session"`     // "" before it was opened
	Attempt    int       `json:"attempt"`
	Mode       string    `json:"mode"` // "generate" or "evaluate"; "" for Grade
	Start      time.Time `json:"start"`
	Stage      Stage     `json:"stage"` // "" before the first
	Role       string    `json:"role"`
	Since      time.Time `json:"since"`   // when the stage began
	Sandbox    string    `json:"sandbox"` // id of its live sandbox
	Turns      int       `json:"turns"`   // that ended
	Failed     int       `json:"failed_turns"`
	Sampled    int       `json:"sampled"` // tokens
	LastTurn   time.Time `json:"last_turn"`
	LastError  string    `json:"last_error"` // of the last failed turn
}

// Live lists the rollouts that are running, the longest-running first. It may
// be called at any time.
func (g *Generator) Live() []LiveRollout {
	g.live.mu.Lock()
	calls := make([]*rollout, 0, len(g.live.calls))
	for r := range g.live.calls {
		calls = append(calls, r)
	}
	g.live.mu.Unlock()
	out := make([]LiveRollout, len(calls))
	for i, r := range calls {
		out[i] = r.snapshot()
	}
	slices.SortFunc(out, func(a, b LiveRollout) int {
		if c := a.Start.Compare(b.Start); c != 0 {
			return c
		}
		return strings.Compare(a.Session, b.Session)
	})
	return out
}

// progress is what a rollout's turns came to so far.
type progress struct {
	turns, failed, sampled int
	last                   time.Time
	err                    string
}

func (r *rollout) progressed(t adapter.TurnInfo) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turns.turns++
	r.turns.sampled += t.Output
	r.turns.last = t.Start.Add(t.Duration)
	if t.Err != nil {
		r.turns.failed++
		r.turns.err = t.Err.Error()
	}
}

func (r *rollout) snapshot() LiveRollout {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := LiveRollout{
		InstanceID: r.now.InstanceID, Session: r.now.Session, Attempt: r.attempt, Mode: r.export.mode, Start: r.born,
		Stage: r.now.Stage, Role: r.now.Role, Since: r.now.Start, Sandbox: r.now.Sandbox,
		Turns: r.turns.turns, Failed: r.turns.failed, Sampled: r.turns.sampled, LastTurn: r.turns.last, LastError: r.turns.err,
	}
	if l.InstanceID == "" {
		l.InstanceID = "unknown"
	}
	if l.Stage == "" {
		l.Since = l.Start
	}
	return l
}

// An admin serves the live view of the Generators that share an address.
type admin struct {
	addr   string
	at     net.Addr
	server *http.Server

	mu    sync.Mutex
	all   []*Generator
	runID string // of the latest
}

// adminAddr is AdminAddr with its host, "" for none. The agents' port is refused.
func (c Config) adminAddr() (string, error) {
	if c.AdminAddr == "" {
		return "", nil
	}
	addr := c.AdminAddr
	if !strings.Contains(addr, ":") {
		addr = ":" + addr
	}
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return "", fmt.Errorf("AGENTRL_ADMIN_ADDR=%q: want HOST:PORT or PORT", c.AdminAddr)
	}
	if port == strconv.Itoa(c.AdapterPort) && c.AdapterPort != 0 {
		return "", fmt.Errorf("AGENTRL_ADMIN_ADDR=%q has the port that agents reach, ADAPTER_PORT: take another, since it shows everything to whoever reaches it", c.AdminAddr)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port), nil
}

// openAdmin shows the Generator in the live view, which is started for the
// first one at its address.
func (g *Generator) openAdmin() error {
	addr, err := g.Config.adminAddr()
	if err != nil || addr == "" || g.admin != nil {
		return err
	}
	process.mu.Lock()
	defer process.mu.Unlock()
	a := process.admins[addr]
	if a == nil {
		if a, err = newAdmin(addr); err != nil {
			return err
		}
		process.admins[addr] = a
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all, a.runID = append(a.all, g), g.Config.RunID
	g.admin = a
	if !loopback(a.at.String()) {
		g.logger().Warn("the live view can be reached from other machines, and asks nobody who they are", "address", a.at.String())
	}
	g.logger().Info("live view", "url", "http://"+a.at.String())
	return nil
}

func newAdmin(addr string) (*admin, error) {
	var lc net.ListenConfig
	socket, err := lc.Listen(context.Background(), "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("AGENTRL_ADMIN_ADDR %s: %w: another process may hold it; set another port, or 0 for any free one", addr, err)
	}
	a := &admin{addr: addr, at: socket.Addr()}
	a.server = &http.Server{Handler: a.handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	go func() { _ = a.server.Serve(socket) }() // returns at Close, which is the only way it ends
	return a, nil
}

// closeAdmin takes the Generator out of the live view; the last one ends it.
func (g *Generator) closeAdmin() {
	a := g.admin
	if a == nil {
		return
	}
	process.mu.Lock()
	defer process.mu.Unlock()
	a.mu.Lock()
	a.all = slices.DeleteFunc(a.all, func(have *Generator) bool { return have == g })
	last := len(a.all) == 0
	a.mu.Unlock()
	g.admin = nil
	if last && process.admins[a.addr] == a {
		delete(process.admins, a.addr)
		_ = a.server.Close() // its connections are cut: nobody waits for what they had to say
	}
}

// AdminURL is where the live view of this Generator is served, "" for nowhere.
func (g *Generator) AdminURL() string {
	if g.admin == nil {
		return ""
	}
	return "http://" + g.admin.at.String()
}

func (a *admin) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", a.page)
	mux.HandleFunc("GET /state.json", a.json)
	servePprof(mux)
	return a.local(mux)
}

// local refuses what a page on the web could make a browser ask of a loopback
// address under a name of its own.
func (a *admin) local(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if loopback(a.at.String()) && !loopback(r.Host) {
			http.Error(w, "this is the live view of a process on this machine: ask for it at "+a.at.String(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// loopback reports whether "HOST:PORT" or "HOST" is this machine alone.
func loopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

// An AdminState is the live view as JSON, at /state.json.
type AdminState struct {
	Now        time.Time             `json:"now"`
	Host       string                `json:"host"`
	PID        int                   `json:"pid"`
	RunID      string                `json:"run_id"`
	Goroutines int                   `json:"goroutines"`
	HeapMB     float64               `json:"heap_mib"`
	Breaker    string                `json:"breaker"` // what opened it; "" while it is closed
	Rollouts   []LiveRollout         `json:"rollouts"`
	Sessions   []adapter.LiveSession `json:"sessions"`
	Stages     map[Stage]int         `json:"stages"` // rollouts by stage
	Sandboxes  int                   `json:"sandboxes"`
}

func (a *admin) state() AdminState {
	a.mu.Lock()
	all, runID := slices.Clone(a.all), a.runID
	a.mu.Unlock()
	host, _ := os.Hostname()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	s := AdminState{Now: time.Now(), RunID: runID, Host: host, PID: os.Getpid(), Goroutines: runtime.NumGoroutine(), HeapMB: float64(mem.HeapAlloc) / (1 << 20),
		Rollouts: []LiveRollout{}, Sessions: []adapter.LiveSession{}, Stages: map[Stage]int{}}
	for _, g := range all {
		s.Rollouts = append(s.Rollouts, g.Live()...)
		if server, ok := g.Adapter.(interface{ Live() []adapter.LiveSession }); ok {
			s.Sessions = append(s.Sessions, server.Live()...)
		}
		if g.shared != nil {
			s.Breaker = g.shared.breaker.why()
		}
	}
	for _, r := range s.Rollouts {
		s.Stages[r.Stage]++
		if r.Sandbox != "" {
			s.Sandboxes++
		}
	}
	return s
}

// why says what opened the breaker; "" while it is closed.
func (b *breaker) why() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.cause == nil {
		return ""
	}
	return b.cause.Error()
}

func (a *admin) json(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	_ = enc.Encode(a.state()) // a reader that left
}

//go:embed admin.html
var adminHTML string

var adminPage = template.Must(template.New("admin").Funcs(template.FuncMap{
	"ago": func(now, then time.Time) string {
		if then.IsZero() {
			return ""
		}
		return now.Sub(then).Round(time.Second).String()
	},
}).Parse(adminHTML))

func (a *admin) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_ = adminPage.Execute(w, a.state()) // a reader that left
}
