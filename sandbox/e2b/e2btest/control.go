//go:build linux

package e2btest

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// createRequest is the part of a create that the double acts on.
type createRequest struct {
	TemplateID     string            `json:"templateID"`
	Timeout        *int              `json:"timeout"`
	Metadata       map[string]string `json:"metadata"`
	EnvVars        map[string]string `json:"envVars"`
	Secure         bool              `json:"secure"`
	InternetAccess *bool             `json:"allow_internet_access"`
	Network        *struct {
		AllowOut []string `json:"allowOut"`
		DenyOut  []string `json:"denyOut"`
	} `json:"network"`
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func apiError(w http.ResponseWriter, status int, code, message string) {
	body := map[string]any{"code": status, "message": message}
	if code != "" {
		body["error_code"] = code
	}
	writeJSON(w, status, body)
}

// route sends a request to the control plane or to a sandbox.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/sandboxes") || strings.HasPrefix(r.URL.Path, "/v2/sandboxes") {
		if r.Header.Get("X-API-KEY") != s.opts.Key {
			apiError(w, 401, "", "Invalid API key, please visit the dashboard to get a valid one")
			return
		}
		s.control(w, r)
		return
	}
	s.gateway(w, r)
}

func (s *Server) control(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v2")
	v2 := path != r.URL.Path
	id, action, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(path, "/sandboxes"), "/"), "/")
	switch {
	case id == "" && r.Method == http.MethodPost:
		if v2 && s.opts.NoV2 || !v2 && s.opts.NoV1 {
			apiError(w, 404, "", "no matching operation was found")
			return
		}
		s.create(w, r, v2)
	case id == "" && r.Method == http.MethodGet:
		s.list(w, r)
	case action == "" && r.Method == http.MethodGet:
		s.withMachine(w, id, func(m *machine) { writeJSON(w, 200, m.detail(true)) })
	case action == "" && r.Method == http.MethodDelete:
		s.withMachine(w, id, func(m *machine) { s.destroy(m); w.WriteHeader(204) })
	case action == "timeout" || action == "connect" || action == "refreshes":
		s.withMachine(w, id, func(m *machine) { s.setTimeout(w, r, m, action) })
	default:
		apiError(w, 404, "", "no matching operation was found")
	}
}

func (s *Server) withMachine(w http.ResponseWriter, id string, fn func(m *machine)) {
	m := s.machine(id)
	if m == nil {
		apiError(w, 404, "", fmt.Sprintf("Sandbox %q doesn't exist or you don't have access to it", id))
		return
	}
	fn(m)
}

func (s *Server) create(w http.ResponseWriter, r *http.Request, v2 bool) {
	var req createRequest
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		apiError(w, 400, "", "Error when parsing request: "+err.Error())
		return
	}
	timeout := 15
	if v2 {
		timeout, req.Secure = 300, true
	}
	if req.Timeout != nil {
		timeout = *req.Timeout
	}
	if timeout <= 0 {
		apiError(w, 400, "", "Timeout must be greater than 0")
		return
	}
	if timeout > 24*3600 {
		apiError(w, 400, "", "Timeout cannot be greater than 24 hours")
		return
	}
	script, ok := s.template(req)
	if !ok {
		apiError(w, 404, "", fmt.Sprintf("template '%s' not found", req.TemplateID))
		return
	}
	m, refused := s.admit(w, req)
	if refused {
		return
	}
	if err := s.boot(m, script); err != nil {
		s.destroy(m)
		apiError(w, 500, "sandbox_create_failed", "Failed to create sandbox: "+err.Error())
		return
	}
	m.live(time.Duration(timeout)*time.Second, func() { s.destroy(m) })
	writeJSON(w, 201, m.detail(true))
}

// template is the script that makes what a create asks for.
func (s *Server) template(req createRequest) (script string, ok bool) {
	script, ok = s.opts.Templates[req.TemplateID]
	if !ok && req.TemplateID != "base" {
		return "", false
	}
	if image := req.Metadata[s.opts.ImageKey]; s.opts.ImageKey != "" && image != "" {
		script, ok = s.opts.Images[image]
		return script, ok
	}
	return script, true
}

// admit applies the limits and makes the sandbox's entry.
func (s *Server) admit(w http.ResponseWriter, req createRequest) (_ *machine, refused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rate := float64(s.opts.CreatesPerSec); rate > 0 {
		now := time.Now()
		s.tokens = min(rate, s.tokens+rate*now.Sub(s.refilled).Seconds())
		s.refilled = now
		if s.tokens < 1 {
			refuse(w, TooFast, "")
			return nil, true
		}
		s.tokens--
	}
	if s.closed || s.opts.MaxLive > 0 && len(s.sandboxes) >= s.opts.MaxLive {
		refuse(w, TooMany, "")
		return nil, true
	}
	m := &machine{
		id: "i" + random(9), token: "", req: req, started: time.Now(), opts: s.opts,
		template: req.TemplateID, ready: make(chan struct{}), log: log.New(&s.aborts, "", 0),
	}
	m.dir = filepath.Join(s.dir, m.id)
	if req.Secure {
		m.token = "ea_" + random(16)
	}
	s.sandboxes[m.id] = m
	s.stats.Creates++
	s.stats.PeakLive = max(s.stats.PeakLive, len(s.sandboxes))
	return m, false
}

func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func (m *machine) detail(secrets bool) map[string]any {
	m.mu.Lock()
	defer m.mu.Unlock()
	d := map[string]any{
		"templateID": m.template, "sandboxID": m.id, "clientID": "6532622b", "envdVersion": m.opts.Version,
		"domain": nil, "metadata": m.req.Metadata, "state": "running", "cpuCount": 2, "memoryMB": 512, "diskSizeMB": 512,
		"startedAt": m.started.UTC().Format(time.RFC3339Nano), "endAt": m.endAt.UTC().Format(time.RFC3339Nano),
	}
	if secrets && m.token != "" {
		d["envdAccessToken"] = m.token
	}
	return d
}

func (s *Server) setTimeout(w http.ResponseWriter, r *http.Request, m *machine, action string) {
	var req struct{ Timeout, Duration int }
	err := json.NewDecoder(r.Body).Decode(&req)
	if action == "connect" && req.Timeout == 0 {
		req.Timeout = 300 // v2 may be called without
	}
	if err != nil || req.Timeout <= 0 && req.Duration <= 0 {
		apiError(w, 400, "", "Timeout must be greater than 0")
		return
	}
	d := time.Duration(max(req.Timeout, req.Duration)) * time.Second
	if d > 24*time.Hour {
		apiError(w, 400, "", "Max instance length exceeded")
		return
	}
	if action == "timeout" || time.Now().Add(d).After(m.end()) { // the other two only extend
		m.live(d, func() { s.destroy(m) })
	}
	if action == "connect" {
		writeJSON(w, 200, m.detail(true))
		return
	}
	w.WriteHeader(204)
}

// list answers pages of at most 100, filtered by metadata.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	want, err := metadataFilter(r.URL.Query().Get("metadata"))
	if err != nil {
		apiError(w, 400, "", err.Error())
		return
	}
	limit, err := strconv.Atoi(r.URL.Query().Get("limit"))
	if err != nil || limit <= 0 || limit > 100 {
		limit = 100
	}
	s.mu.Lock()
	var all []*machine
	for _, m := range s.sandboxes {
		if hasAll(m.req.Metadata, want) {
			all = append(all, m)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *machine) int { return strings.Compare(a.id, b.id) })
	after := r.URL.Query().Get("nextToken")
	page := []map[string]any{}
	for i, m := range all {
		if m.id <= after {
			continue
		}
		page = append(page, m.detail(false))
		if len(page) == limit && i < len(all)-1 {
			w.Header().Set("X-Next-Token", m.id)
			break
		}
	}
	w.Header().Set("X-Total-Running", strconv.Itoa(len(all)))
	writeJSON(w, 200, page)
}

// metadataFilter reads the filter: beside the query's own unescaping, the
// whole and then each key and value are unescaped once more.
func metadataFilter(raw string) (map[string]string, error) {
	whole, err := url.QueryUnescape(raw)
	if err != nil {
		return nil, fmt.Errorf("error when unescaping query: %w", err)
	}
	want := make(map[string]string)
	for pair := range strings.SplitSeq(whole, "&") {
		if pair == "" {
			continue
		}
		k, v, ok := strings.Cut(pair, "=")
		if !ok {
			return nil, fmt.Errorf("invalid key value pair in query: %q", pair)
		}
		key, kerr := url.QueryUnescape(k)
		value, verr := url.QueryUnescape(v)
		if kerr != nil || verr != nil {
			return nil, fmt.Errorf("error when unescaping pair %q", pair)
		}
		want[key] = value
	}
	return want, nil
}

func hasAll(have, want map[string]string) bool {
	for k, v := range want {
		if have[k] != v {
			return false
		}
	}
	return true
}
