package e2b

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"
)

const (
	envdPort     = "49983"
	userAgent    = "agentrl-e2b/1"
	maxErrorBody = 64 << 10 // bytes of a refusal that are read
	maxReply     = 16 << 20 // bytes of a control reply that are read
)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// apiTransport is for the control plane. HTTP/2 pings find a dead peer.
func apiTransport(dial dialFunc) *http.Transport {
	t := baseTransport(dial)
	t.ForceAttemptHTTP2 = true
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 15 * time.Second}
	return t
}

// envdTransport is for envd. Under HTTP/2 one broken connection ends every
// stream on it; under HTTP/1.1 it ends one. Compression is off, because a
// length that was announced is how a short file is noticed.
func envdTransport(dial dialFunc) *http.Transport {
	t := baseTransport(dial)
	t.Protocols = new(http.Protocols)
	t.Protocols.SetHTTP1(true)
	t.DisableCompression = true
	return t
}

func baseTransport(dial dialFunc) *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         dial,
		TLSHandshakeTimeout: 30 * time.Second,
		MaxIdleConns:        1024,
		MaxIdleConnsPerHost: 256,
		IdleConnTimeout:     90 * time.Second, // below every idle limit on the way to envd
		WriteBufferSize:     64 << 10,
		ReadBufferSize:      64 << 10,
	}
}

// send does one exchange. The error of a request that did not leave this
// process says so: see undelivered.
func send(c *http.Client, req *http.Request) (*http.Response, error) {
	var sent atomic.Bool
	trace := &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), trace))
	resp, err := c.Do(req)
	if err != nil {
		if uerr := (*url.Error)(nil); errors.As(err, &uerr) {
			err = uerr.Err // the URL names the sandbox and says nothing more
		}
		return nil, attribute(req.Context(), &transportError{err: err, sent: sent.Load()})
	}
	return resp, nil
}

// A transportError is an exchange that the network ended.
type transportError struct {
	err  error
	sent bool
}

func (e *transportError) Error() string {
	if !e.sent {
		return "not sent: " + e.err.Error()
	}
	return e.err.Error()
}

func (e *transportError) Unwrap() error { return e.err }

// control does one call to the control plane; in and out are JSON, or nil.
func (p *Provider) control(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.CallTimeout, fmt.Errorf("control plane did not answer within %v", p.opts.CallTimeout))
	defer cancel()
	return p.controlOnce(ctx, method, path, in, out)
}

func (p *Provider) controlOnce(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.opts.APIURL+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-API-KEY", p.opts.APIKey)
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "application/json")
	if in != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := send(p.api, req)
	if err != nil {
		return nil, err
	}
	defer drain(resp.Body)
	if resp.StatusCode/100 != 2 {
		return nil, readRefusal(resp, fromControl)
	}
	if out == nil {
		return resp.Header, nil
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return nil, attribute(ctx, &transportError{err: fmt.Errorf("read reply: %w", err), sent: true})
	}
	if err := json.Unmarshal(b, out); err != nil {
		return nil, &transportError{err: fmt.Errorf("reply is not the JSON expected: %w: %.200q", err, b), sent: true}
	}
	return resp.Header, nil
}

// envdBase is where a sandbox's envd is reached. The domain is the create
// reply's own where it names one.
func (p *Provider) envdBase(id, domain string) string {
	if p.opts.SandboxURL != "" {
		return p.opts.SandboxURL
	}
	if domain == "" {
		domain = p.opts.Domain
	}
	switch domain {
	case "e2b.app", "e2b.dev", "e2b.pro", "e2b-staging.dev":
		return "https://sandbox." + domain
	}
	return "https://" + envdPort + "-" + url.PathEscape(id) + "." + domain
}

// request makes a request to envd, as user where the call has one.
func (s *Sandbox) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("E2b-Sandbox-Id", s.id)
	req.Header.Set("E2b-Sandbox-Port", envdPort)
	req.Header.Set("User-Agent", userAgent)
	req.Header.Set("Accept", "application/json") // or the gateway answers a person
	if s.token != "" {
		req.Header.Set("X-Access-Token", s.token)
	}
	return req, nil
}

// unary does one short call of envd's.
func (s *Sandbox) unary(ctx context.Context, method string, in, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.p.opts.CallTimeout, fmt.Errorf("envd did not answer within %v", s.p.opts.CallTimeout))
	defer cancel()
	b, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := s.request(ctx, http.MethodPost, method, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Connect-Protocol-Version", "1")
	req.SetBasicAuth("root", "")
	resp, err := send(s.p.rpc, req)
	if err != nil {
		return err
	}
	defer drain(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return readRefusal(resp, fromEnvd)
	}
	b, err = io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return attribute(ctx, &transportError{err: fmt.Errorf("read reply: %w", err), sent: true})
	}
	if err := json.Unmarshal(b, out); err != nil {
		return fmt.Errorf("%s: reply is not the JSON expected: %w: %.200q", method, err, b)
	}
	return nil
}
