//go:build linux

package e2btest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A machine is one sandbox, seen from outside: an init in its own namespaces
// with an envd below it, reached by a unix socket.
type machine struct {
	id, token, template, dir string
	req                      createRequest
	opts                     Options
	started                  time.Time
	ready                    chan struct{} // closed when the template's script has run
	log                      *log.Logger   // of the proxy

	mu    sync.Mutex
	init  *exec.Cmd
	proxy *httputil.ReverseProxy
	relay net.Listener // what is let out, when nothing else is
	timer *time.Timer
	endAt time.Time
	dead  bool
}

// live sets the end of the machine's life.
func (m *machine) live(d time.Duration, end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.timer != nil {
		m.timer.Stop()
	}
	m.endAt = time.Now().Add(d)
	m.timer = time.AfterFunc(d, end)
}

func (m *machine) end() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.endAt
}

// boot starts the machine and runs its template's script.
func (m *machine) boot(script string) error {
	if m.opts.Envd != "" {
		m.token = ""
		target, err := url.Parse(m.opts.Envd)
		if err != nil {
			return err
		}
		return m.connect(target, (&net.Dialer{}).DialContext)
	}
	if err := m.start(); err != nil {
		return err
	}
	defer close(m.ready)
	if script == "" {
		return nil
	}
	m.mu.Lock()
	client := &http.Client{Transport: m.proxy.Transport}
	m.mu.Unlock()
	defer client.CloseIdleConnections()
	resp, err := client.Post("http://envd/e2btest/setup", "text/plain", strings.NewReader(script))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("template script: %s", b)
	}
	return nil
}

// start starts init and envd over the machine's files.
func (m *machine) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return errors.New("sandbox was killed")
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	sock := filepath.Join(m.dir, "envd.sock")
	os.Remove(sock)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: sock, Net: "unix"})
	if err != nil {
		return err
	}
	defer l.Close() // envd has its own
	l.SetUnlinkOnClose(false)
	file, err := l.File()
	if err != nil {
		return err
	}
	defer file.Close()
	cfg := childConfig{Dir: m.dir, Token: m.token, Env: m.req.EnvVars, NoRetention: m.opts.NoRetention, TagBug: m.opts.TagBug, Space: m.opts.Space}
	if cfg.Isolated = m.isolated(); cfg.Isolated {
		if err := m.letOut(&cfg); err != nil {
			return err
		}
	}
	if err := m.spawn(cfg, file); err != nil {
		return err
	}
	return m.connect(&url.URL{Scheme: "http", Host: "envd"}, func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", sock)
	})
}

// isolated reports whether the sandbox may not reach the network at large.
func (m *machine) isolated() bool {
	return !m.opts.IgnoreNetwork && (m.req.InternetAccess != nil && !*m.req.InternetAccess ||
		m.req.Network != nil && strings.Contains(strings.Join(m.req.Network.DenyOut, " "), "0.0.0.0/0"))
}

// letOut relays what the sandbox may reach: the allowed addresses, at the
// ports that the options name.
func (m *machine) letOut(cfg *childConfig) error {
	if m.req.Network == nil || len(m.req.Network.AllowOut) == 0 {
		return nil
	}
	cfg.Allow, cfg.Ports = m.req.Network.AllowOut, m.opts.RelayPorts
	if m.relay != nil {
		return nil
	}
	l, err := net.Listen("unix", filepath.Join(m.dir, relaySocket))
	if err != nil {
		return err
	}
	m.relay = l
	go serveRelay(l)
	return nil
}

func (m *machine) spawn(cfg childConfig, listener *os.File) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	b, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	flags := syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS
	if cfg.Isolated {
		flags |= syscall.CLONE_NEWNET
	}
	// The shell is process 1: it reaps whatever is orphaned, and ends with envd.
	m.init = exec.Command("/bin/sh", "-c", `"$@" & wait`, "sh", self, childFlag, string(b))
	m.init.Dir = "/"
	m.init.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	m.init.ExtraFiles = []*os.File{listener}
	m.init.Stderr = os.Stderr
	m.init.SysProcAttr = &syscall.SysProcAttr{Cloneflags: uintptr(flags), Setsid: true}
	return m.init.Start()
}

// connect waits for envd and makes the proxy to it.
func (m *machine) connect(target *url.URL, dial func(ctx context.Context, network, addr string) (net.Conn, error)) error {
	tr := &http.Transport{DialContext: dial, DisableCompression: true, DisableKeepAlives: true}
	m.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     tr,
		FlushInterval: -1,
		ErrorLog:      m.log,
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
				refuse(w, GatewayClosed, m.id)
				return
			}
			panic(http.ErrAbortHandler) // envd died under the request
		},
	}
	client := &http.Client{Transport: tr}
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		req, _ := http.NewRequestWithContext(ctx, http.MethodGet, target.String()+"/health", nil)
		resp, err := client.Do(req)
		cancel()
		if err == nil {
			resp.Body.Close()
			return nil
		}
	}
	return errors.New("envd of the double did not start: does the program call e2btest.RunChild first?")
}

// restart ends every process, envd too, and starts envd over the same files.
func (m *machine) restart() error {
	m.stop()
	return m.start()
}

func (m *machine) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.init == nil {
		return
	}
	_ = m.init.Process.Kill() // process 1: the kernel kills the rest
	_ = m.init.Wait()
	m.init = nil
}

func (m *machine) kill() {
	m.mu.Lock()
	m.dead = true
	if m.timer != nil {
		m.timer.Stop()
	}
	if m.relay != nil {
		m.relay.Close()
	}
	m.mu.Unlock()
	m.stop()
}

// gateway hands a request to the envd that its headers or host name.
func (s *Server) gateway(w http.ResponseWriter, r *http.Request) {
	id, port := r.Header.Get("E2b-Sandbox-Id"), r.Header.Get("E2b-Sandbox-Port")
	if label, _, ok := strings.Cut(r.Host, "."); ok && id == "" {
		port, id, _ = strings.Cut(label, "-")
	}
	if id == "" || port == "" {
		http.Error(w, "missing header", 400)
		return
	}
	if port != "49983" {
		refuse(w, GatewayClosed, id)
		return
	}
	m := s.machine(id)
	if m == nil {
		refuse(w, GatewayNotFound, id)
		return
	}
	if r.URL.Path == "/init" || strings.HasPrefix(r.URL.Path, "/e2btest/") {
		http.Error(w, "404 page not found", 404)
		return
	}
	s.inspect(r)
	m.mu.Lock()
	proxy := m.proxy
	m.mu.Unlock()
	if proxy == nil {
		refuse(w, GatewayClosed, id)
		return
	}
	// Else the server swallows what is left of the body once the answer begins,
	// while the proxy still reads it.
	_ = http.NewResponseController(w).EnableFullDuplex()
	proxy.ServeHTTP(w, r)
}

// inspect notes what a real envd would have died of, and other mistakes.
func (s *Server) inspect(r *http.Request) {
	if v := r.Header.Get("Keepalive-Ping-Interval"); v != "" {
		if n, err := strconv.Atoi(v); err == nil && n < 1 {
			s.violation("%s: Keepalive-Ping-Interval %q crashes envd", r.URL.Path, v)
			r.Header.Del("Keepalive-Ping-Interval")
		}
	}
	if v := r.Header.Get("Connect-Timeout-Ms"); v == "0" {
		s.violation("%s: Connect-Timeout-Ms 0 leaves an orphan", r.URL.Path)
	}
	if r.Header.Get("Connect-Accept-Encoding") != "" {
		s.violation("%s: Connect-Accept-Encoding asks for compressed frames", r.URL.Path)
	}
	if strings.Contains(r.Header.Get("Accept"), "text/html") {
		s.violation("%s: Accept asks for a page", r.URL.Path)
	}
}
