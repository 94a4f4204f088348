// Package docker runs sandboxes as containers of a Docker daemon, or of
// Podman's compatible service, spoken with by net/http on its socket. Images
// are references that the daemon already has: nothing is pulled.
package docker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/internal/netprobe"
	"github.com/agentrl-go/agentrl/internal/retry"
	"github.com/agentrl-go/agentrl/sandbox"
)

// HostName is the name by which every sandbox with an open network reaches the
// machine that the daemon runs on.
const HostName = "host.docker.internal"

// labelPrefix keeps the labels of a Spec apart from the image's own.
const labelPrefix = "agentrl."

// Options say which daemon, and how large a sandbox may grow.
type Options struct {
	Socket   string        // "" for /var/run/docker.sock; Podman's is /run/podman/podman.sock or in $XDG_RUNTIME_DIR/podman
	Lifetime time.Duration // of a sandbox whose Spec names none; 0 for a day

	Memory    int64   // bytes; 0 for no limit
	CPUs      float64 // 1.5 is one and a half; 0 for no limit
	Processes int64   // at once; 0 for 4096, negative for no limit

	Network string // daemon's network for an open sandbox; "" for its default
	// AdapterNetwork is a network of the daemon on which the adapter is
	// reached and nothing else, for EgressAdapter. "" makes the way to the
	// adapter from here, which needs root on the daemon's own machine.
	AdapterNetwork string
	// Outside are host:port that a restricted sandbox must not reach; proven
	// from inside after boot. nil for two public resolvers.
	Outside []string

	Shell        []string      // what runs a script, which is appended; nil for {"/bin/sh", "-c"}
	Retries      int           // of what may be repeated while the daemon is away; 0 for 6, negative for none
	CallTimeout  time.Duration // of one short request; 0 for 60 s
	CloseTimeout time.Duration // of Close; 0 for 30 s
	Logger       *slog.Logger  // nil: slog.Default()
}

func (o Options) withDefaults() Options {
	if o.Socket == "" {
		o.Socket = "/var/run/docker.sock"
	}
	o.Socket = strings.TrimPrefix(o.Socket, "unix://")
	if o.Lifetime <= 0 {
		o.Lifetime = 24 * time.Hour
	}
	if o.Processes == 0 {
		o.Processes = 4096
	}
	if o.Outside == nil {
		o.Outside = netprobe.Outside()
	}
	if len(o.Shell) == 0 {
		o.Shell = []string{"/bin/sh", "-c"}
	}
	if o.Retries == 0 {
		o.Retries = 6
	}
	if o.CallTimeout <= 0 {
		o.CallTimeout = time.Minute
	}
	if o.CloseTimeout <= 0 {
		o.CloseTimeout = 30 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// A Provider creates containers at one daemon. It is safe for concurrent use.
// It is a sandbox.Reaper.
type Provider struct {
	opts Options
	http *http.Client
}

// New makes a Provider. It does not talk to the daemon: see Ping.
func New(o Options) *Provider {
	o = o.withDefaults()
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &Provider{opts: o, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", o.Socket)
		},
		MaxIdleConnsPerHost: 64,
		IdleConnTimeout:     30 * time.Second,
		DisableCompression:  true,
	}}}
}

// Ping reports whether a daemon answers, and what to do if none does.
func (p *Provider) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	resp, err := p.do(ctx, http.MethodGet, "/_ping", nil)
	if err != nil {
		return err
	}
	drain(resp.Body)
	return nil
}

// Close lets go of idle connections. Sandboxes stay as they are.
func (p *Provider) Close() error {
	p.http.CloseIdleConnections()
	return nil
}

var labelPattern = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)

// Create starts a container of the image. Its first process does nothing, and
// ends the container when the lifetime is over. See sandbox.Provider.
func (p *Provider) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	s, err := p.make(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("docker: create: %w", err)
	}
	if err := s.boot(ctx, spec); err != nil {
		if cerr := s.Close(); cerr != nil {
			// Neither error's kind is shown: it would read as if nothing had been left.
			return nil, fmt.Errorf("%w: docker: boot %s: %v; it is left alive: %v", sandbox.ErrUnresponsive, s.name, err, cerr)
		}
		return nil, sandbox.NothingLeft(fmt.Errorf("docker: boot %s: %w", s.name, err))
	}
	return s, nil
}

// make creates the container. The name is ours, so that a create whose answer
// was lost can be asked about.
func (p *Provider) make(ctx context.Context, spec sandbox.Spec) (*Sandbox, error) {
	body, err := p.container(spec)
	if err != nil {
		return nil, err
	}
	s := newSandbox(p, "agentrl-"+nonce(8), spec)
	sent := false // whether the daemon may have heard of it, in any try
	err = retry.Do(ctx, p.policy(), func(int) error {
		err := p.call(ctx, http.MethodPost, "/containers/create?name="+s.name, body, nil)
		t := (*transportError)(nil)
		sent = sent || errors.As(err, &t) && t.sent || ctx.Err() != nil
		if e := (*apiError)(nil); errors.As(err, &e) && e.status == http.StatusConflict {
			return nil // an earlier try's, whose answer was lost
		}
		return err
	}, again)
	if e := (*apiError)(nil); errors.As(err, &e) && e.status == http.StatusNotFound {
		return nil, fmt.Errorf("%w: %s; the daemon at %s does not have it and nothing is pulled here: %w", sandbox.ErrNoImage, spec.Image, p.opts.Socket, err)
	}
	if err != nil {
		if sent { // a container may have been made
			if cerr := s.Close(); cerr != nil {
				return nil, errors.Join(err, cerr)
			}
		}
		return nil, sandbox.NothingLeft(err)
	}
	return s, nil
}

// idle is process 1: it reaps orphans while it waits, and ends with the
// container's lifetime, which Extend moves. Without date and sleep there is no
// end but Close.
const idle = `trap 'exit 0' TERM INT
[ -e ` + untilFile + ` ] || echo "$0" >` + untilFile + `
while [ "$(date +%s)" -lt "$(cat ` + untilFile + `)" ]; do sleep 5 & wait $!; done`

const untilFile = "/.agentrl-until"

type containerConfig struct {
	Image      string
	User       string
	WorkingDir string
	Entrypoint []string
	Cmd        []string
	Labels     map[string]string
	HostConfig hostConfig
}

type hostConfig struct {
	AutoRemove  bool
	Memory      int64    `json:",omitempty"`
	MemorySwap  int64    `json:",omitempty"`
	NanoCpus    int64    `json:",omitempty"`
	PidsLimit   int64    `json:",omitempty"`
	NetworkMode string   `json:",omitempty"`
	ExtraHosts  []string `json:",omitempty"`
}

func (p *Provider) container(spec sandbox.Spec) (containerConfig, error) {
	if spec.Image == "" {
		return containerConfig{}, fmt.Errorf("%w: no image is named", sandbox.ErrNoImage)
	}
	until := time.Now().Add(p.lifetime(spec)).Unix()
	c := containerConfig{
		Image: spec.Image, User: "0", WorkingDir: "/",
		Entrypoint: []string{"/bin/sh", "-c", idle, strconv.FormatInt(until, 10)},
		Labels:     map[string]string{"agentrl": "sandbox"},
		HostConfig: hostConfig{AutoRemove: true, Memory: p.opts.Memory, MemorySwap: p.opts.Memory, NanoCpus: int64(p.opts.CPUs * 1e9)},
	}
	if p.opts.Processes > 0 {
		c.HostConfig.PidsLimit = p.opts.Processes
	}
	for k, v := range spec.Labels {
		if k == "" || !labelPattern.MatchString(k) || !labelPattern.MatchString(v) {
			return c, fmt.Errorf("label %q=%q: %w: want [A-Za-z0-9._-] only", k, v, sandbox.ErrInvalid)
		}
		c.Labels[labelPrefix+k] = v
	}
	if err := (sandbox.Cmd{Env: spec.Env}).Check(); err != nil {
		return c, fmt.Errorf("environment: %w", err)
	}
	return c, p.network(spec, &c.HostConfig)
}

func (p *Provider) lifetime(spec sandbox.Spec) time.Duration {
	if spec.Lifetime > 0 {
		return spec.Lifetime
	}
	return p.opts.Lifetime
}

// boot starts the container, closes its network as far as asked, and looks for
// the work directory.
func (s *Sandbox) boot(ctx context.Context, spec sandbox.Spec) error {
	err := retry.Do(ctx, s.p.policy(), func(int) error {
		return s.p.call(ctx, http.MethodPost, "/containers/"+s.name+"/start", nil, nil)
	}, again)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if err := s.closeNetwork(ctx, spec); err != nil {
		return err
	}
	if spec.Workdir == "" {
		return nil
	}
	res, err := s.Exec(ctx, sandbox.Cmd{Script: `[ -d "$AGENTRL_WORKDIR" ]`, Env: map[string]string{"AGENTRL_WORKDIR": spec.Workdir}, Replayable: true})
	if err != nil {
		return err
	}
	if !res.Ok() {
		return fmt.Errorf("%s in image %s: %w", spec.Workdir, spec.Image, sandbox.ErrNoWorkdir)
	}
	return nil
}

// policy is patient for as long as a daemon takes to start again.
func (p *Provider) policy() retry.Policy {
	return retry.Policy{Retries: max(p.opts.Retries, 0), Base: 250 * time.Millisecond, Cap: 8 * time.Second}
}

func again(err error) retry.Verdict { return retry.Verdict{Again: transient(err)} }

func nonce(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func query(kv ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(kv); i += 2 {
		q.Set(kv[i], kv[i+1])
	}
	return q.Encode()
}
