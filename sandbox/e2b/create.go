package e2b

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"time"

	"github.com/agentrl-go/agentrl/internal/retry"
	"github.com/agentrl-go/agentrl/sandbox"
)

// createLabel is on every create, with a value used once: whether a create
// whose reply was lost made a sandbox is found out by listing it.
const createLabel = "agentrl-create"

// Three layers between here and the store unescape a label in the list call,
// and not every server has all three; these characters mean the same to each.
var labelPattern = regexp.MustCompile(`^[A-Za-z0-9._-]*$`)

// creation is one sandbox to be made.
type creation struct {
	template Template
	labels   map[string]string
	lifetime time.Duration
	egress   *network
	internet *bool
	env      map[string]string

	// suspects are the labels of creates that were not answered and not found:
	// a server that places slowly may still make them.
	suspects []string
}

// network is the part of a create that restricts the sandbox's own calls.
type network struct {
	AllowOut []string `json:"allowOut,omitempty"`
	DenyOut  []string `json:"denyOut,omitempty"`
}

// made is what the control plane says of a sandbox.
type made struct {
	SandboxID       string            `json:"sandboxID"`
	TemplateID      string            `json:"templateID"`
	Domain          *string           `json:"domain"`
	EnvdVersion     string            `json:"envdVersion"` // any text: other servers have their own
	EnvdAccessToken string            `json:"envdAccessToken"`
	State           string            `json:"state"`
	Metadata        map[string]string `json:"metadata"`
	StartedAt       time.Time         `json:"startedAt"`
	EndAt           time.Time         `json:"endAt"`
}

func (p *Provider) createBody(ctx context.Context, spec sandbox.Spec) (creation, error) {
	c := creation{labels: spec.Labels, lifetime: spec.Lifetime}
	if err := checkLabels(spec.Labels); err != nil {
		return c, err
	}
	if c.lifetime <= 0 {
		c.lifetime = p.opts.Lifetime
	}
	var err error
	if c.template, err = p.opts.Images.Resolve(ctx, spec.Image); err != nil {
		return c, err
	}
	c.env = maps.Clone(c.template.Env)
	if c.env == nil {
		c.env = make(map[string]string)
	}
	maps.Copy(c.env, spec.Env)
	return c, c.restrict(spec)
}

func checkLabels(labels map[string]string) error {
	for k, v := range labels {
		if k == "" || !labelPattern.MatchString(k) || !labelPattern.MatchString(v) {
			return fmt.Errorf("label %q=%q: %w: want [A-Za-z0-9._-] only", k, v, sandbox.ErrInvalid)
		}
	}
	return nil
}

func (c *creation) restrict(spec sandbox.Spec) error {
	switch spec.Egress {
	case sandbox.EgressOpen:
	case sandbox.EgressOff:
		c.internet = new(bool)
		c.egress = &network{DenyOut: []string{"0.0.0.0/0"}}
	case sandbox.EgressAdapter:
		u, err := url.Parse(spec.Adapter)
		if err != nil || u.Hostname() == "" {
			return fmt.Errorf("egress %q needs the adapter's URL, got %q: %w", spec.Egress, spec.Adapter, sandbox.ErrInvalid)
		}
		host := u.Hostname()
		if ip := net.ParseIP(host); ip == nil && u.Port() != "" && u.Port() != "80" && u.Port() != "443" {
			return fmt.Errorf("egress %q to %s: %w: E2B passes a host name on ports 80 and 443 only; give the adapter's IP address", spec.Egress, u.Host, sandbox.ErrInvalid)
		}
		c.egress = &network{AllowOut: []string{host}, DenyOut: []string{"0.0.0.0/0"}}
	default:
		return fmt.Errorf("egress %q: %w: want %q, %q or %q", spec.Egress, sandbox.ErrInvalid, sandbox.EgressOpen, sandbox.EgressAdapter, sandbox.EgressOff)
	}
	return nil
}

// wire is the create's JSON. The lifetime is always sent: the servers'
// defaults are 15 s and 300 s.
func (c creation) wire(label string, v2 bool) map[string]any {
	metadata := make(map[string]string)
	maps.Copy(metadata, c.template.Metadata)
	maps.Copy(metadata, c.labels)
	metadata[createLabel] = label
	body := map[string]any{
		"templateID": c.template.ID,
		"timeout":    seconds(c.lifetime),
		"metadata":   metadata,
	}
	if !v2 {
		body["secure"] = true // v2 always is
	}
	if c.internet != nil {
		body["allow_internet_access"] = *c.internet
	}
	if c.egress != nil {
		body["network"] = c.egress
	}
	return body
}

// seconds rounds up: a lifetime of 0 is refused.
func seconds(d time.Duration) int { return max(int((d+time.Second-1)/time.Second), 1) }

// create makes one sandbox. Each try has its own label, so that a late
// success of an earlier one is found by it and by nothing else.
func (p *Provider) create(ctx context.Context, c *creation) (made, error) {
	var m made
	err := retry.Do(ctx, p.opts.Wait, func(int) (err error) {
		m, err = p.createOnce(ctx, c)
		return err
	}, func(err error) retry.Verdict {
		if errors.As(err, new(*lostCreateError)) {
			return retry.Verdict{}
		}
		return retry.Verdict{Again: transient(err), After: wait(err)}
	})
	if err != nil && len(c.suspects) > 0 && !errors.As(err, new(*lostCreateError)) {
		err = &lostCreateError{c.suspects[0], err}
	}
	return m, err
}

// A lostCreateError is a create whose outcome could not be found out. It is
// not repeated: the one before may be alive, and its label says which it is.
type lostCreateError struct {
	label string
	err   error
}

func (e *lostCreateError) Error() string {
	return fmt.Sprintf("unknown whether a sandbox with %s=%s was made: %v", createLabel, e.label, e.err)
}

// Unwrap hides what the cause is: a refusal for want of capacity, say, would
// read as if nothing had been made.
func (e *lostCreateError) Unwrap() error { return sandbox.ErrUnresponsive }

func (p *Provider) createOnce(ctx context.Context, c *creation) (made, error) {
	label := nonce()
	patient, done := outlive(ctx, createPatience)
	defer done()
	m, err := p.post(patient, *c, label)
	if err == nil && m.SandboxID == "" {
		err = &transportError{err: errors.New("create's reply has no sandboxID"), sent: true}
	}
	if err == nil || undelivered(err) || !transient(err) {
		return m, err
	}
	// The server may have made it. The caller's context may be what ended the
	// call, so it cannot end the search.
	found, ferr := p.find(context.WithoutCancel(ctx), label)
	switch {
	case ferr != nil:
		return made{}, &lostCreateError{label, errors.Join(err, ferr)}
	case found.SandboxID == "":
		if errors.As(err, new(*transportError)) {
			c.suspects = append(c.suspects, label)
		}
		return made{}, err
	case ctx.Err() != nil:
		if kerr := p.kill(context.WithoutCancel(ctx), found.SandboxID); kerr != nil {
			return made{}, &lostCreateError{label, errors.Join(err, kerr)}
		}
		return made{}, err
	}
	p.opts.Logger.Warn("e2b: adopted the sandbox of a create whose reply was lost", "sandbox", found.SandboxID, "err", err)
	return found, nil
}

// createPatience is how much longer than its caller a create waits for its
// reply: a sandbox that is known can be killed, one that is not has to be
// searched for, and may come after the search.
const createPatience = 10 * time.Second

// outlive returns a context that ends that much later than ctx, for its cause.
func outlive(ctx context.Context, patience time.Duration) (longer context.Context, done func()) {
	longer, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-longer.Done():
		case <-time.After(patience):
			cancel(context.Cause(ctx))
		}
	})
	return longer, func() { stop(); cancel(nil) }
}

// post sends the create, to the other path if the server has not this one.
func (p *Provider) post(ctx context.Context, c creation, label string) (made, error) {
	v2 := p.opts.CreatePath == CreateV2 || p.opts.CreatePath == CreateAuto && p.createV2.Load()
	m, err := p.postTo(ctx, c, label, v2)
	if !noSuchPath(err) {
		return m, err
	}
	if p.opts.CreatePath != CreateAuto {
		return m, fmt.Errorf("%w: the server has no create call %s: %w", sandbox.ErrInvalid, p.opts.CreatePath, err)
	}
	other, oerr := p.postTo(ctx, c, label, !v2)
	if noSuchPath(oerr) {
		return m, fmt.Errorf("%w: the server has no create call, v1 or v2; is %s the control plane? %w", sandbox.ErrInvalid, p.opts.APIURL, err)
	}
	if oerr == nil {
		p.createV2.Store(!v2)
	}
	return other, oerr
}

// noSuchPath tells an unknown path from an unknown template: that one names it.
func noSuchPath(err error) bool {
	e := (*Error)(nil)
	if !errors.As(err, &e) {
		return false
	}
	return e.Status == http.StatusMethodNotAllowed || e.Status == http.StatusNotFound && !templateMissing.MatchString(e.Message)
}

var templateMissing = regexp.MustCompile(`(?i)template|tag|alias|image`)

func (p *Provider) postTo(ctx context.Context, c creation, label string, v2 bool) (made, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.CreateTimeout, fmt.Errorf("create was not answered within %v", p.opts.CreateTimeout))
	defer cancel()
	path := "/sandboxes"
	if v2 {
		path = "/v2/sandboxes"
	}
	var m made
	_, err := p.controlOnce(ctx, http.MethodPost, path, c.wire(label, v2), &m)
	if e := (*Error)(nil); errors.As(err, &e) && e.Status == http.StatusNotFound {
		e.class = sandbox.ErrNoImage
		if noSuchPath(e) {
			e.class = nil
		}
	}
	return m, err
}

// find looks for the sandbox of one create. A server that is still placing it
// lists it only later, so an empty answer is asked for again.
func (p *Provider) find(ctx context.Context, label string) (made, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.CloseTimeout, errors.New("list was not answered in time"))
	defer cancel()
	for i := range 4 {
		if i > 0 {
			if err := retry.Sleep(ctx, p.opts.Wait.Wait(i-1)); err != nil {
				return made{}, err
			}
		}
		list, err := p.list(ctx, map[string]string{createLabel: label})
		if err != nil {
			if i == 3 || !transient(err) {
				return made{}, fmt.Errorf("list: %w", err)
			}
			continue
		}
		if len(list) > 0 {
			return p.get(ctx, list[0].SandboxID)
		}
	}
	return made{}, nil
}

func nonce() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}
