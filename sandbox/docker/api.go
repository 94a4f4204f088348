package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agentrl-go/agentrl/internal/retry"
	"github.com/agentrl-go/agentrl/sandbox"
)

// An apiError is a refusal by the daemon.
type apiError struct {
	status  int
	message string
	class   error
}

func (e *apiError) Error() string {
	s := fmt.Sprintf("%d: %s", e.status, e.message)
	if e.class != nil {
		s = e.class.Error() + ": " + s
	}
	return s
}

func (e *apiError) Unwrap() error { return e.class }

// A transportError is an exchange that did not end.
type transportError struct {
	err  error
	sent bool
}

func (e *transportError) Error() string { return e.err.Error() }
func (e *transportError) Unwrap() error { return e.err }

// transient reports whether a daemon that starts again may answer otherwise.
// A socket that does not exist will not.
func transient(err error) bool {
	if errors.Is(err, sandbox.ErrCut) {
		return true
	}
	t := (*transportError)(nil)
	return errors.As(err, &t) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission)
}

// undelivered reports whether the request certainly changed nothing.
func undelivered(err error) bool {
	t := (*transportError)(nil)
	return errors.As(err, &t) && !t.sent && transient(err) && !errors.Is(err, sandbox.ErrCut)
}

// do does one request; a bad status is an *apiError. The host is not used.
func (p *Provider) do(ctx context.Context, method, path string, body io.Reader, header ...string) (*http.Response, error) {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	req, err := http.NewRequestWithContext(httptrace.WithClientTrace(ctx, trace), method, "http://docker"+path, body)
	if err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return nil, p.explain(ctx, err, sent.Load())
	}
	if resp.StatusCode >= 300 {
		defer drain(resp.Body)
		return nil, refusal(resp)
	}
	return resp, nil
}

// explain says what to do where there is no daemon.
func (p *Provider) explain(ctx context.Context, err error, sent bool) error {
	if cause := context.Cause(ctx); cause != nil {
		return &transportError{err: cause, sent: sent}
	}
	if uerr := (*url.Error)(nil); errors.As(err, &uerr) {
		err = uerr.Err
	}
	if op := (*net.OpError)(nil); errors.As(err, &op) && op.Op == "dial" {
		hint := "start the Docker daemon, or name its socket"
		if errors.Is(err, os.ErrPermission) {
			hint = "this user may not use the socket: add it to the group docker, or run rootless Podman"
		}
		err = fmt.Errorf("no container daemon at %s (%s): %w", p.opts.Socket, hint, err)
	}
	return &transportError{err: err, sent: sent}
}

func refusal(resp *http.Response) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // a cut body still has its status
	return parseRefusal(resp.StatusCode, b)
}

// parseRefusal reads {"message": …}; Podman adds a cause.
func parseRefusal(status int, body []byte) *apiError {
	var v struct{ Message, Cause string }
	e := &apiError{status: status, message: strings.TrimSpace(string(bytes.ToValidUTF8(body, []byte("?"))))}
	if json.Unmarshal(body, &v) == nil && v.Message != "" {
		e.message = v.Message
	}
	if len(e.message) > 500 {
		e.message = strings.ToValidUTF8(e.message[:500], "") + "…"
	}
	low := strings.ToLower(e.message)
	switch {
	case strings.Contains(low, "no such container") || strings.Contains(low, "is not running") || strings.Contains(low, "container state improper"):
		e.class = sandbox.ErrGone
	case strings.Contains(low, "no space left on device"):
		e.class = sandbox.ErrNoSpace
	case status == http.StatusBadRequest, strings.Contains(low, "unable to find user"):
		e.class = sandbox.ErrInvalid
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.class = sandbox.ErrUnauthorized
	}
	return e
}

// call does one short request with JSON either way, or none.
func (p *Provider) call(ctx context.Context, method, path string, in, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.CallTimeout, fmt.Errorf("daemon did not answer within %v: %w", p.opts.CallTimeout, sandbox.ErrUnresponsive))
	defer cancel()
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	resp, err := p.do(ctx, method, path, body, "Content-Type", "application/json")
	if err != nil {
		return err
	}
	defer drain(resp.Body)
	if out == nil {
		return nil
	}
	if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
		return &transportError{err: fmt.Errorf("%s: answer: %w", path, err), sent: true}
	}
	return nil
}

func drain(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, 64<<10)
	_ = body.Close()
}

// List implements sandbox.Reaper. It lists stopped containers too.
func (p *Provider) List(ctx context.Context, labels map[string]string) ([]sandbox.Listed, error) {
	want := []string{"agentrl=sandbox"}
	for k, v := range labels {
		want = append(want, labelPrefix+k+"="+v)
	}
	filters, err := json.Marshal(map[string][]string{"label": want})
	if err != nil {
		return nil, err
	}
	var found []struct {
		Names   []string
		Labels  map[string]string
		Created int64
	}
	if err := p.call(ctx, http.MethodGet, "/containers/json?"+query("all", "true", "filters", string(filters)), nil, &found); err != nil {
		return nil, fmt.Errorf("docker: list: %w", err)
	}
	var all []sandbox.Listed
	for _, f := range found {
		if len(f.Names) == 0 {
			continue
		}
		c := sandbox.Listed{ID: strings.TrimPrefix(f.Names[0], "/"), Labels: make(map[string]string), Created: time.Unix(f.Created, 0)}
		for k, v := range f.Labels {
			if name, ok := strings.CutPrefix(k, labelPrefix); ok {
				c.Labels[name] = v
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// Kill implements sandbox.Reaper: as Close of the sandbox, and within ctx.
func (p *Provider) Kill(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.CloseTimeout, fmt.Errorf("not removed within %v", p.opts.CloseTimeout))
	defer cancel()
	err := retry.Do(ctx, retry.Policy{Retries: 20, Base: 100 * time.Millisecond, Cap: 3 * time.Second}, func(int) error {
		return p.kill(ctx, id)
	}, func(err error) retry.Verdict {
		// A removal in progress is a conflict, a busy device a server error.
		e := (*apiError)(nil)
		return retry.Verdict{Again: transient(err) || errors.As(err, &e) && (e.status == http.StatusConflict || e.status >= 500)}
	})
	if err != nil {
		return fmt.Errorf("docker: kill %s: %w", id, err)
	}
	return nil
}

// kill removes a container; one that is not there is removed.
func (p *Provider) kill(ctx context.Context, id string) error {
	err := p.call(ctx, http.MethodDelete, "/containers/"+url.PathEscape(id)+"?"+query("force", "true", "v", "true"), nil, nil)
	if errors.Is(err, sandbox.ErrGone) || isStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}

func isStatus(err error, status int) bool {
	e := (*apiError)(nil)
	return errors.As(err, &e) && e.status == status
}
