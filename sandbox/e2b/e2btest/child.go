//go:build linux

package e2btest

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
)

// childFlag is the first argument of an envd. A program that does not call
// RunChild refuses it as an unknown flag.
const childFlag = "-e2btest-envd"

// childConfig is an envd's second argument.
type childConfig struct {
	Dir         string // the machine's own: upper layer, sockets
	Token       string
	Env         map[string]string
	Isolated    bool
	Allow       []string // addresses that are relayed to outside
	Ports       []int    // at these ports
	NoRetention bool
	TagBug      bool
	Space       string
}

// RunChild does nothing, except in a process that a Server started as an envd:
// there it serves and does not return. It must be called first in TestMain or main.
func RunChild() {
	if len(os.Args) < 3 || os.Args[1] != childFlag {
		return
	}
	if err := runChild(os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "e2btest: envd:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runChild(config string) error {
	// A shell's background command has these ignored, and would hand that down.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT, syscall.SIGQUIT)
	var cfg childConfig
	if err := json.Unmarshal([]byte(config), &cfg); err != nil {
		return err
	}
	file := os.NewFile(3, "listener")
	l, err := net.FileListener(file)
	if err != nil {
		return err
	}
	file.Close()
	if err := isolate(cfg); err != nil {
		return err
	}
	if err := enter(cfg.Dir); err != nil {
		return err
	}
	e := &envd{cfg: cfg, procs: make(map[int]*process)}
	return http.Serve(l, e)
}

// enter makes the machine's file system its root: an overlay over this
// machine's, with an empty /tmp, its own /proc, and the devices.
func enter(dir string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	root, upper, work := filepath.Join(dir, "root"), filepath.Join(dir, "upper"), filepath.Join(dir, "work")
	for _, d := range []string{root, upper, work, filepath.Join(upper, "tmp")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := os.Chmod(filepath.Join(upper, "tmp"), os.ModeSticky|0o777); err != nil {
		return err
	}
	if err := syscall.Setxattr(filepath.Join(upper, "tmp"), "trusted.overlay.opaque", []byte("y"), 0); err != nil {
		return fmt.Errorf("opaque /tmp: %w", err)
	}
	opts := "lowerdir=/,upperdir=" + upper + ",workdir=" + work
	if err := syscall.Mount("overlay", root, "overlay", 0, opts); err != nil {
		return fmt.Errorf("overlay: %w", err)
	}
	if err := syscall.Mount("/dev", filepath.Join(root, "dev"), "", syscall.MS_BIND|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("bind /dev: %w", err)
	}
	if err := syscall.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := syscall.Chroot(root); err != nil {
		return err
	}
	return os.Chdir("/")
}

// isolate sets up the empty network: the loopback, and on it the addresses
// that are relayed to outside.
func isolate(cfg childConfig) error {
	if !cfg.Isolated {
		return nil
	}
	if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("loopback: %w: %s", err, out)
	}
	for _, addr := range cfg.Allow {
		if ip := net.ParseIP(addr); ip != nil && !ip.IsLoopback() {
			if out, err := exec.Command("ip", "addr", "add", addr+"/32", "dev", "lo").CombinedOutput(); err != nil {
				return fmt.Errorf("address %s: %w: %s", addr, err, out)
			}
		}
		for _, port := range cfg.Ports {
			if err := relayOut(net.JoinHostPort(addr, strconv.Itoa(port)), filepath.Join(cfg.Dir, relaySocket)); err != nil {
				return err
			}
		}
	}
	return nil
}

// envd is the daemon in one sandbox.
type envd struct {
	cfg childConfig

	mu    sync.Mutex
	procs map[int]*process
}

// ServeHTTP implements http.Handler.
func (e *envd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/health" && r.Method == http.MethodGet {
		w.WriteHeader(204)
		return
	}
	if r.URL.Path == "/e2btest/setup" {
		setup(w, r)
		return
	}
	if e.cfg.Token != "" && r.Header.Get("X-Access-Token") != e.cfg.Token {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.WriteHeader(401)
		fmt.Fprint(w, `{"code":401,"message":"unauthorized access, please provide a valid access token or method signing if supported"}`)
		return
	}
	switch name := filepath.Base(r.URL.Path); {
	case r.URL.Path == "/files":
		e.files(w, r)
	case r.URL.Path == "/metrics":
		writeJSON(w, 200, map[string]any{"ts": 0, "cpu_count": 2, "cpu_used_pct": 0, "mem_total": 1 << 29, "mem_used": 1 << 27})
	case r.URL.Path == "/envs":
		writeJSON(w, 200, e.cfg.Env)
	case filepath.Dir(r.URL.Path) == "/process.Process":
		e.processCall(w, r, name)
	case filepath.Dir(r.URL.Path) == "/filesystem.Filesystem":
		e.filesystemCall(w, r, name)
	default:
		http.Error(w, "404 page not found", 404)
	}
}

// setup runs the template's script before anybody else gets at the machine.
func setup(w http.ResponseWriter, r *http.Request) {
	script, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), 500)
		return
	}
	cmd := exec.Command("/bin/sh", "-ec", string(script))
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "HOME=/root")
	if out, err := cmd.CombinedOutput(); err != nil {
		http.Error(w, fmt.Sprintf("%v: %s", err, out), 500)
	}
}
