// Package e2b runs sandboxes at E2B and at servers compatible with it: a
// control plane over REST creates and destroys them, and a daemon in each
// (envd) runs commands and moves files. It is spoken with net/http alone: the
// streams carry JSON in five-byte frames, and a Connect library would turn
// every deadline into the header by which envd kills the process.
//
// What the package promises beside sandbox.Sandbox:
//
//   - A command is run again only if it is Replayable or provably never
//     reached envd.
//   - Every create carries a label of its own. When the reply is lost, the
//     sandbox is found by it and adopted, never left running unknown.
//   - A "sandbox was not found" from the gateway counts as gone only when the
//     control plane agrees.
package e2b

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agentrl-go/agentrl/internal/netprobe"
	"github.com/agentrl-go/agentrl/internal/retry"
	"github.com/agentrl-go/agentrl/sandbox"
)

// CreatePath chooses between the two create calls that servers know.
type CreatePath string

const (
	CreateAuto CreatePath = ""   // v1, and v2 where the server has no v1
	CreateV1   CreatePath = "v1" // POST /sandboxes
	CreateV2   CreatePath = "v2" // POST /v2/sandboxes
)

// Options say how to reach a server. Only APIKey is needed for E2B itself.
type Options struct {
	APIKey     string // sent as it is; its form is the server's business
	Domain     string // "" for "e2b.app"
	APIURL     string // control plane, may have a path; "" for https://api.{Domain}
	SandboxURL string // one address for every envd, routed by headers, may have a path; "" to derive it from the domain

	Images   ImageResolver // nil: MetadataImages with ImageMetadataKey if that is set, else NamedImages
	Lifetime time.Duration // of a sandbox whose Spec names none; 0 for an hour
	Shell    []string      // what runs a script, which is appended; nil for {"/bin/sh", "-c"}. {"/bin/bash", "-l", "-c"} is what E2B's own SDK does

	// ImageMetadataKey is the metadata key under which a server expects the
	// image ("e2b.agents.kruise.io/image"); Size is sent beside it under the
	// key's own prefix + "/size". Used when Images is nil.
	ImageMetadataKey string
	Size             string // "" for "md"

	// Outside are host:port that a sandbox with restricted egress must not
	// reach; proven from inside after boot. nil for two public resolvers.
	Outside []string

	CreatePath CreatePath
	Retries    int // of requests that may be repeated; 0 for 6, negative for none

	CreateTimeout time.Duration // of one create; 0 for 95 s: the server's own clock runs 75 s, and giving up earlier leaks
	BootTimeout   time.Duration // from the create's reply until envd answers; 0 for 60 s
	CallTimeout   time.Duration // of one short request, and of the silence in an upload or download; 0 for 60 s
	PingInterval  time.Duration // at which envd shows that a stream lives; 0 for 10 s, at least 1 s. A stream is cut after 3.5 of it
	CloseTimeout  time.Duration // of Close, all its retries together; 0 for 30 s

	Wait   retry.Policy                                                      // of the waits between tries; the zero value is 1 s to 32 s. Its Retries is not used
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error) // nil: net.Dialer
	Logger *slog.Logger                                                      // nil: slog.Default()
}

func (o Options) withDefaults() Options {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	if o.Domain == "" {
		o.Domain = "e2b.app"
	}
	if o.APIURL == "" {
		o.APIURL = "https://api." + o.Domain
	}
	o.APIURL = strings.TrimRight(o.APIURL, "/")
	o.SandboxURL = strings.TrimRight(o.SandboxURL, "/")
	if o.Size == "" {
		o.Size = "md"
	}
	if o.Images == nil && o.ImageMetadataKey != "" {
		o.Images = MetadataImages{Key: o.ImageMetadataKey, Size: o.Size}
	}
	if o.Images == nil {
		o.Images = NamedImages{}
	}
	def(&o.Lifetime, time.Hour)
	if len(o.Shell) == 0 {
		o.Shell = []string{"/bin/sh", "-c"}
	}
	if o.Outside == nil {
		o.Outside = netprobe.Outside()
	}
	if o.Retries == 0 {
		o.Retries = 6
	}
	def(&o.CreateTimeout, 95*time.Second)
	def(&o.BootTimeout, time.Minute)
	def(&o.CallTimeout, time.Minute)
	def(&o.PingInterval, 10*time.Second)
	o.PingInterval = max(o.PingInterval, time.Second)
	def(&o.CloseTimeout, 30*time.Second)
	o.Wait.Retries = max(o.Retries, 0)
	if o.Dial == nil {
		o.Dial = (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 15 * time.Second}).DialContext
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o
}

// A Provider creates sandboxes at one server. It is safe for concurrent use
// and shares its connections among all of them.
// It is a sandbox.Reaper.
type Provider struct {
	opts Options
	api  *http.Client // control plane: HTTP/2 where the server has it
	rpc  *http.Client // envd's calls and streams: HTTP/1.1, so that a broken connection costs one stream
	bulk *http.Client // envd's files: HTTP/1.1

	createV2 atomic.Bool // the server has no v1 create
}

// New makes a Provider. It does not talk to the server.
func New(o Options) (*Provider, error) {
	o = o.withDefaults()
	for name, s := range map[string]string{"API URL": o.APIURL, "sandbox URL": o.SandboxURL} {
		u, err := url.Parse(s)
		if s != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("e2b: %s %q: want http(s)://host[:port][/path]", name, s)
		}
	}
	switch o.CreatePath {
	case CreateAuto, CreateV1, CreateV2:
	default:
		return nil, fmt.Errorf("e2b: create path %q: want %q, %q or empty", o.CreatePath, CreateV1, CreateV2)
	}
	if o.APIKey == "" {
		return nil, fmt.Errorf("e2b: no API key: set E2B_API_KEY: %w", sandbox.ErrUnauthorized)
	}
	return &Provider{
		opts: o,
		api:  &http.Client{Transport: apiTransport(o.Dial)},
		rpc:  &http.Client{Transport: envdTransport(o.Dial)},
		bulk: &http.Client{Transport: envdTransport(o.Dial)},
	}, nil
}

// Close lets go of idle connections. Sandboxes stay as they are.
func (p *Provider) Close() error {
	for _, c := range []*http.Client{p.api, p.rpc, p.bulk} {
		c.CloseIdleConnections()
	}
	return nil
}

// Create boots a sandbox and returns when a command has run in it and the
// work directory was seen. See sandbox.Provider.
func (p *Provider) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	body, err := p.createBody(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("e2b: create: %w", err)
	}
	made, err := p.create(ctx, &body)
	if err != nil {
		err = fmt.Errorf("e2b: create: %w", err)
		if len(body.suspects) == 0 && !errors.As(err, new(*lostCreateError)) {
			err = sandbox.NothingLeft(err)
		}
		return nil, err
	}
	sb := newSandbox(p, made, spec, body.env)
	sb.suspects = body.suspects
	if err := sb.boot(ctx, spec); err != nil {
		if cerr := sb.Close(); cerr != nil {
			// Neither error's kind is shown: it would read as if nothing had been left.
			return nil, fmt.Errorf("%w: e2b: boot %s: %v; it is left alive: %v", sandbox.ErrUnresponsive, sb.id, err, cerr)
		}
		err = fmt.Errorf("e2b: boot %s: %w", sb.id, err)
		if len(body.suspects) > 0 {
			return nil, err // an earlier try's sandbox may still come
		}
		return nil, sandbox.NothingLeft(err)
	}
	return sb, nil
}

// boot waits for envd and proves that the image is the right one: a server
// that does not know the image's metadata key boots its default image and
// says nothing.
func (s *Sandbox) boot(ctx context.Context, spec sandbox.Spec) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.p.opts.BootTimeout,
		fmt.Errorf("envd did not answer within %v: %w", s.p.opts.BootTimeout, sandbox.ErrUnresponsive))
	defer cancel()
	script := ":"
	if spec.Workdir != "" {
		script = `[ -d "$AGENTRL_WORKDIR" ]`
	}
	res, err := s.Exec(ctx, sandbox.Cmd{Script: script, Env: map[string]string{"AGENTRL_WORKDIR": spec.Workdir}, Replayable: true})
	if err != nil {
		return attribute(ctx, err)
	}
	if !res.Ok() {
		return fmt.Errorf("%s in image %s (template %s): %w; see how images are resolved: a server that ignores the image's metadata boots its default one",
			spec.Workdir, spec.Image, s.template, sandbox.ErrNoWorkdir)
	}
	return s.proveEgress(ctx, spec)
}

// attribute puts the cause of an ended context in the place of an error that
// only says that it ended.
func attribute(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	t := (*transportError)(nil)
	switch {
	case cause == nil || errors.Is(err, cause):
		return err
	case errors.Is(err, sandbox.ErrCut):
		return fmt.Errorf("%w: %w", sandbox.ErrCut, cause)
	case errors.As(err, &t):
		return &transportError{err: cause, sent: t.sent}
	}
	return errors.Join(cause, err)
}

// drain empties and closes a body, so that its connection is used again.
func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	_ = body.Close()
}
