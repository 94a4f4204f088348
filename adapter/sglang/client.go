package sglang

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	mrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// Options of a Client.
type Options struct {
	// HTTP sends the requests. Defaults to a client of its own without any
	// timeout: while generation is paused the engine answers nothing at all,
	// and a turn may take half an hour.
	HTTP *http.Client
	// Attempts is how often one generation is posted at most. Defaults to 6.
	Attempts int
	// FirstWait is the time before the second attempt; it doubles up to
	// MaxWait, each time jittered by a quarter. Default to 500 ms and 10 s.
	FirstWait time.Duration
	MaxWait   time.Duration
	// Grace is how long the answer to an aborted request is waited for before
	// its connection is closed. Defaults to 500 ms.
	Grace time.Duration
	// AbortTimeout bounds the requests that abort a generation. Defaults to 5 s.
	AbortTimeout time.Duration
	// Header is sent with every request, such as an authorization. Defaults to none.
	Header http.Header
}

func (o Options) withDefaults() Options {
	if o.HTTP == nil {
		o.HTTP = &http.Client{Transport: defaultTransport()}
	}
	if o.Attempts <= 0 {
		o.Attempts = 6
	}
	if o.FirstWait <= 0 {
		o.FirstWait = 500 * time.Millisecond
	}
	if o.MaxWait <= 0 {
		o.MaxWait = 10 * time.Second
	}
	if o.Grace <= 0 {
		o.Grace = 500 * time.Millisecond
	}
	if o.AbortTimeout <= 0 {
		o.AbortTimeout = 5 * time.Second
	}
	return o
}

// defaultTransport keeps as many connections as there are turns in flight:
// net/http's default of two idle ones a host would dial anew at every turn.
func defaultTransport() *http.Transport {
	return &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		MaxIdleConns:        0,
		MaxIdleConnsPerHost: 4096,
		IdleConnTimeout:     90 * time.Second,
		DisableCompression:  true,
	}
}

// maxResponse bounds the bytes of one answer.
const maxResponse = 1 << 30

// A Client speaks to one SGLang server or router. It is safe for concurrent use.
type Client struct {
	base   string
	o      Options
	routed atomic.Pointer[bool] // base is a router's; nil until it matters
}

// New returns a client of the server or router at base, an http or https URL.
func New(base string, o Options) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("SGLang URL %q: want http://HOST:PORT or https://HOST[:PORT]", base)
	}
	return &Client{base: strings.TrimRight(base, "/"), o: o.withDefaults()}, nil
}

// Generate posts one generation and returns the whole answer. Requests that
// the engine did not serve are posted again, each time under a new id. When ctx
// ends, the generation is aborted in the engine before Generate returns; the
// error is then ctx's cause. Any other error is an *Error.
func (c *Client) Generate(ctx context.Context, req Request) (Response, error) {
	wait, failures := c.o.FirstWait, 0
	for attempt := 1; ; attempt++ {
		resp, err := c.attempt(ctx, req)
		if err == nil {
			return resp, nil
		}
		if ctx.Err() != nil {
			return Response{}, context.Cause(ctx)
		}
		var e *Error
		if !errors.As(err, &e) {
			return Response{}, err // the request could not even be written
		}
		e.Attempts = attempt
		if e.Kind == Failed {
			failures++
		}
		if attempt >= c.o.Attempts || !again(e, failures) {
			return Response{}, e
		}
		if interrupted := c.sleep(ctx, req.Interrupt, jitter(wait)); interrupted {
			// Between two attempts the engine holds nothing of this request.
			return Response{Finish: Finish{Type: "abort", Message: "interrupted before it was served"}}, nil
		}
		wait = min(2*wait, c.o.MaxWait)
	}
}

// again reports whether another attempt makes sense after e: whenever the
// engine was not reached or says "later"; once when it broke; never when the
// request is wrong or the answer contradicts itself.
func again(e *Error, failures int) bool {
	return e.Kind == Unavailable || e.Kind == Failed && failures < 2
}

// sleep waits; it reports whether it was cut short by interrupt. A ctx that
// ends is found by the next attempt.
func (c *Client) sleep(ctx context.Context, interrupt <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-interrupt:
		return true
	case <-ctx.Done():
	case <-timer.C:
	}
	return false
}

// jitter spreads d by a quarter to both sides.
func jitter(d time.Duration) time.Duration {
	return d*3/4 + mrand.N(d/2+1)
}

// An outcome is what one posted request came to.
type outcome struct {
	resp Response
	err  error
}

// attempt posts the request once, under an id of its own.
func (c *Client) attempt(ctx context.Context, req Request) (Response, error) {
	if ctx.Err() != nil {
		return Response{}, context.Cause(ctx)
	}
	if err := c.survives(ctx, req); err != nil {
		return Response{}, err
	}
	rid := newID()
	body, err := encode(rid, req)
	if err != nil {
		return Response{}, err
	}
	// The request has a context of its own: when the caller's ends, the engine
	// is told first, and the connection is closed afterwards. An engine notices
	// a closed connection only at its next poll, up to four seconds later.
	conn, hangUp := context.WithCancel(context.WithoutCancel(ctx))
	defer hangUp()
	done := make(chan outcome, 1)
	go func() {
		resp, err := c.post(conn, body, req)
		done <- outcome{resp, err}
	}()
	select {
	case out := <-done:
		if out.err != nil && mayRun(out.err) {
			c.abort(ctx, rid)
		}
		return out.resp, out.err
	case <-ctx.Done():
		c.end(ctx, rid, done, hangUp, c.o.Grace)
		return Response{}, context.Cause(ctx)
	case <-req.Interrupt:
		return c.end(ctx, rid, done, hangUp, c.o.AbortTimeout)
	}
}

// end aborts rid, waits for its answer as long as patience lasts, and closes
// the connection.
func (c *Client) end(ctx context.Context, rid string, done <-chan outcome, hangUp func(), patience time.Duration) (Response, error) {
	c.abort(ctx, rid)
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var out outcome
	select {
	case out = <-done:
	case <-timer.C:
		hangUp()
		out = <-done
		if out.err != nil {
			// A second word: the first may have come before the engine knew the id.
			c.abort(ctx, rid)
		}
	}
	if out.err != nil {
		return Response{Finish: Finish{Type: "abort", Message: "interrupted, nothing returned"}}, nil
	}
	return out.resp, nil
}

// mayRun reports whether the engine may still be generating for a request
// that failed so: the connection broke after the request was sent, or a router
// gave up on a worker, which notices that up to four seconds later.
func mayRun(err error) bool {
	var e *Error
	switch {
	case !errors.As(err, &e):
		return false
	case e.Err != nil:
		return !refused(e.Err)
	case e.Kind == Rejected, e.Kind == Unauthorized, e.Kind == TooLong, e.Kind == BadOutput:
		return false
	}
	// 503 and 429 say that the request was not taken on.
	return e.Status != http.StatusServiceUnavailable && e.Status != http.StatusTooManyRequests
}

// refused reports whether no connection was made.
func refused(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func (c *Client) post(ctx context.Context, b body, req Request) (Response, error) {
	hr, err := c.request(ctx, http.MethodPost, c.base+"/generate", nil)
	if err != nil {
		return Response{}, err
	}
	b.of(hr)
	hr.Header.Set("Content-Type", "application/json")
	if req.RoutingKey != "" {
		hr.Header.Set("X-SMG-Routing-Key", headerText(req.RoutingKey))
	}
	res, err := c.o.HTTP.Do(hr)
	if err != nil {
		return Response{}, &Error{Kind: Unavailable, Err: unwrapURL(err)}
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, maxResponse+1))
	if err != nil {
		return Response{}, &Error{Kind: Unavailable, Message: "reading the answer", Err: err}
	}
	if len(data) > maxResponse {
		return Response{}, &Error{Kind: BadOutput, Status: res.StatusCode, Message: "answer larger than 1 GiB"}
	}
	if res.StatusCode != http.StatusOK {
		return Response{}, statusError(res.StatusCode, data)
	}
	return decodeResponse(data, req)
}

// headerText is text where a header can hold it, else a name for it: net/http
// refuses a request with a line break in a header, at every attempt.
func headerText(text string) string {
	for _, c := range []byte(text) {
		if c < ' ' || c > '~' {
			sum := sha256.Sum256([]byte(text))
			return hex.EncodeToString(sum[:])
		}
	}
	return text
}

// request makes a request with the client's headers; body nil means none.
func (c *Client) request(ctx context.Context, method, url string, body []byte) (*http.Request, error) {
	hr, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	for k, v := range c.o.Header {
		hr.Header[k] = v
	}
	if body != nil {
		hr.Header.Set("Content-Type", "application/json")
	}
	return hr, nil
}

// unwrapURL drops the method and URL that net/http puts before its errors.
func unwrapURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// newID returns a request id. All have the same length: the scheduler aborts
// by prefix, so no id may be a prefix of another.
func newID() string {
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
