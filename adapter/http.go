package adapter

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

// ServeHTTP serves all dialects, /healthz and /v1/models. A request's session is
// found by its token: as its dialect sends it, or in a path /s/TOKEN before the
// dialect's own.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := servedPath(r)
	if serveHealth(w, r, p) {
		return
	}
	if p == "/v1/models" && r.Method == http.MethodGet {
		s.serveModels(w, r)
		return
	}
	methods, ok := s.routes[p]
	if !ok {
		writeError(w, http.StatusNotFound, "no such path: "+p)
		return
	}
	rt, ok := methods[r.Method]
	if !ok {
		w.Header().Set("Allow", strings.Join(methodsOf(methods), ", "))
		writeError(w, http.StatusMethodNotAllowed, r.Method+" is not served at "+p)
		return
	}
	s.serve(w, r, rt)
}

// servedPath is the request's path without a token. Only this one may be logged.
func servedPath(r *http.Request) string {
	_, rest, _ := pathToken(r.URL.Path)
	return path.Clean("/" + rest) // a base URL that ends in a slash makes two
}

// pathToken takes the token and its prefix off a path.
func pathToken(p string) (token, rest string, ok bool) {
	after, ok := strings.CutPrefix(p, "/s/")
	if !ok {
		return "", p, false
	}
	token, rest, _ = strings.Cut(after, "/")
	return token, "/" + rest, true
}

// serveHealth answers what clients and load balancers look for before they
// have anything to ask.
func serveHealth(w http.ResponseWriter, r *http.Request, p string) bool {
	switch {
	case p == "/healthz" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		w.Header().Set("Content-Type", "text/plain")
		w.Write([]byte("ok\n"))
	case r.Method == http.MethodHead && (p == "/" || p == "/api/hello"):
		w.WriteHeader(http.StatusOK)
	default:
		return false
	}
	return true
}

func (s *Server) serveModels(w http.ResponseWriter, r *http.Request) {
	ses := s.byTokenOf(r)
	if ses == nil {
		w.Header().Set("X-Should-Retry", "false")
		writeError(w, http.StatusForbidden, unknownSession().Message)
		return
	}
	model := map[string]any{"id": s.o.Model, "object": "model", "type": "model", "created": 0, "owned_by": "agentrl", "display_name": s.o.Model, "created_at": "1970-01-01T00:00:00Z"}
	if most := s.context(ses.opts.MaxContext); most > 0 {
		model["max_model_len"] = most
	}
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []any{model}, "has_more": false, "first_id": s.o.Model, "last_id": s.o.Model})
}

func methodsOf(m map[string]route) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// writeError answers in a shape that the clients of every protocol read.
func writeError(w http.ResponseWriter, status int, message string) {
	writeJSON(w, status, map[string]any{"type": "error", "error": map[string]any{"type": "invalid_request_error", "message": message}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // the values are ours
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(data)
}

// A Mux shares one listener between several Servers: the token says whose a
// request is. The zero value serves nobody. It is safe for concurrent use.
type Mux struct {
	mu      sync.RWMutex
	servers []*Server
}

// Attach adds a Server.
func (m *Mux) Attach(s *Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.servers, s) {
		m.servers = append(m.servers, s)
	}
}

// Detach takes a Server away; its tokens are unknown from then on.
func (m *Mux) Detach(s *Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.servers = slices.DeleteFunc(slices.Clone(m.servers), func(have *Server) bool { return have == s })
}

// ServeHTTP passes the request to the Server that knows its token.
func (m *Mux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.RLock()
	servers := m.servers
	m.mu.RUnlock()
	for _, s := range servers {
		if s.byTokenOf(r) != nil {
			s.ServeHTTP(w, r)
			return
		}
	}
	if len(servers) > 0 {
		servers[0].ServeHTTP(w, r) // which answers without a session, or refuses
		return
	}
	if !serveHealth(w, r, r.URL.Path) {
		w.Header().Set("X-Should-Retry", "false")
		writeError(w, http.StatusForbidden, unknownSession().Message)
	}
}

// Listen opens the listener of an adapter at addr, "HOST:PORT". Connections
// whose peer has vanished without a word are found out within half a minute.
func Listen(ctx context.Context, addr string) (net.Listener, error) {
	lc := net.ListenConfig{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}}
	return lc.Listen(ctx, "tcp", addr)
}

// HTTPServer returns a server for h, a Server or a Mux, with the limits that
// hold against slow and greedy clients. It has no limit on the duration of an
// answer. What goes wrong on a connection is logged at debug level.
func HTTPServer(h http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
}
