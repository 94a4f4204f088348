package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

// WriteFile implements sandbox.Sandbox. The content goes to a name beside the
// path; when its size there is right it is moved over the path: envd writes in
// place, and a cut upload would leave half a file. The mode is 0644.
func (s *Sandbox) WriteFile(ctx context.Context, path, user string, content io.ReadSeeker) error {
	if err := checkPath(path); err != nil {
		return fmt.Errorf("e2b: write %q: %w", path, err)
	}
	return s.try(ctx, "write "+path, true, func(ctx context.Context) error {
		return s.upload(ctx, path, user, content)
	})
}

func checkPath(name string) error {
	if !path.IsAbs(name) || strings.HasSuffix(name, "/") || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%w: want the absolute path of a file", sandbox.ErrInvalid)
	}
	return nil
}

func (s *Sandbox) upload(ctx context.Context, dest, user string, content io.ReadSeeker) error {
	size, err := content.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = content.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("content: %w", err)
	}
	temp := path.Join(path.Dir(dest), ".agentrl-"+nonce())
	err = s.post(ctx, temp, user, content, size)
	if err == nil {
		err = s.place(ctx, temp, dest, size)
	}
	if err != nil && !undelivered(err) {
		s.remove(ctx, temp)
	}
	return err
}

// post uploads to temp. There is no limit on the whole, only on silence.
func (s *Sandbox) post(ctx context.Context, temp, owner string, content io.Reader, size int64) error {
	ctx, stop, progress := s.idle(ctx, "upload")
	defer stop()
	q := url.Values{"path": {temp}, "username": {user(owner)}}
	body := &counted{r: content, progress: progress}
	req, err := s.request(ctx, http.MethodPost, "/files?"+q.Encode(), io.NopCloser(body))
	if err != nil {
		return err
	}
	req.ContentLength = size
	if size == 0 {
		req.Body = http.NoBody
	}
	req.Header.Set("Content-Type", "application/octet-stream")
	resp, err := send(s.p.bulk, req)
	if berr := body.stop(); berr != nil {
		return fmt.Errorf("content: %w", berr)
	}
	if err != nil {
		return err
	}
	defer drain(resp.Body)
	if resp.StatusCode != http.StatusOK {
		return readRefusal(resp, fromEnvd)
	}
	var entries []struct {
		Path string `json:"path"`
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return attribute(ctx, &transportError{err: err, sent: true})
	}
	if err := json.Unmarshal(b, &entries); err != nil || len(entries) == 0 {
		return fmt.Errorf("upload was answered with %.200q: no file was written", b)
	}
	return nil
}

// counted reads the content for one request. A failure of the content itself
// is not the network's.
type counted struct {
	progress func()

	mu      sync.Mutex
	r       io.Reader
	err     error
	stopped bool
}

func (c *counted) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return 0, errors.New("the request is over")
	}
	n, err := c.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	c.progress()
	return n, err
}

// stop lets go of the content and returns its error. net/http may still be
// reading the body of a request that it has already failed, while the next try
// seeks the same content back to its start.
func (c *counted) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	return c.err
}

// place checks the size and moves. A move whose reply was lost shows in what
// stands at the destination.
func (s *Sandbox) place(ctx context.Context, temp, dest string, size int64) error {
	got, err := s.stat(ctx, temp)
	if err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if got.Size != size {
		return &transportError{err: fmt.Errorf("%d of %d bytes arrived", got.Size, size), sent: true}
	}
	move := map[string]string{"source": temp, "destination": dest}
	err = s.unary(ctx, "/filesystem.Filesystem/Move", move, &struct{}{})
	if e := (*Error)(nil); errors.As(err, &e) && e.class == nil && strings.Contains(e.Message, "file exists") || err != nil && strings.Contains(err.Error(), "is a directory") {
		return fmt.Errorf("%w: %s is a directory: %w", sandbox.ErrInvalid, dest, err)
	}
	return err
}

// entry is what envd tells of a file. 64-bit numbers are strings in its JSON.
type entry struct {
	Type string `json:"type"`
	Size int64  `json:"size,string"`
}

func (s *Sandbox) stat(ctx context.Context, name string) (entry, error) {
	var v struct {
		Entry entry `json:"entry"`
	}
	err := s.unary(ctx, "/filesystem.Filesystem/Stat", map[string]string{"path": name}, &v)
	return v.Entry, err
}

// remove is an attempt: what it leaves dies with the sandbox.
func (s *Sandbox) remove(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if s.life.Err() == nil {
		_ = s.unary(ctx, "/filesystem.Filesystem/Remove", map[string]string{"path": name}, &struct{}{})
	}
}

// idle makes a context that ends when progress is not called for CallTimeout.
func (s *Sandbox) idle(ctx context.Context, what string) (_ context.Context, stop, progress func()) {
	limit := s.p.opts.CallTimeout
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(fmt.Errorf("%s stood still for %v", what, limit)) })
	return ctx, func() { timer.Stop(); cancel(nil) }, func() { timer.Reset(limit) }
}

// ReadFile implements sandbox.Sandbox. A download that breaks is continued
// where it broke, as long as the file is still the same one.
func (s *Sandbox) ReadFile(ctx context.Context, name string) (io.ReadCloser, error) {
	if err := checkPath(name); err != nil {
		return nil, fmt.Errorf("e2b: read %q: %w", name, err)
	}
	d := &download{s: s, name: name, total: -1}
	d.ctx, d.cancel = context.WithCancelCause(ctx)
	d.unwatch = context.AfterFunc(s.life, func() { d.cancel(errClosed) })
	if err := d.open(); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// A download is the open file. It is not safe for concurrent use.
type download struct {
	s       *Sandbox
	name    string
	ctx     context.Context
	cancel  context.CancelCauseFunc
	unwatch func() bool

	body     io.ReadCloser
	stop     func() // of the body's idle watch
	progress func()

	at, total int64  // bytes read; bytes of the whole, -1 when unknown
	modified  string // Last-Modified of the first answer
	broken    int    // times it was continued
}

// open asks for the rest of the file.
func (d *download) open() error {
	return d.s.try(d.ctx, "read "+d.name, true, func(ctx context.Context) error { return d.openOnce() })
}

func (d *download) openOnce() error {
	ctx, stop, progress := d.s.idle(d.ctx, "download")
	q := url.Values{"path": {d.name}, "username": {"root"}}
	req, err := d.s.request(ctx, http.MethodGet, "/files?"+q.Encode(), nil)
	if err != nil {
		stop()
		return err
	}
	if d.at > 0 {
		req.Header.Set("Range", "bytes="+strconv.FormatInt(d.at, 10)+"-")
	}
	resp, err := send(d.s.p.bulk, req)
	if err != nil {
		stop()
		return err
	}
	if err := d.accept(resp); err != nil {
		drain(resp.Body)
		stop()
		return err
	}
	d.body, d.stop, d.progress = resp.Body, stop, progress
	return nil
}

var errChanged = errors.New("file changed while it was read")

// accept checks that an answer is the file, or the same file's rest.
func (d *download) accept(resp *http.Response) error {
	modified := resp.Header.Get("Last-Modified")
	switch {
	case d.at == 0 && resp.StatusCode == http.StatusOK:
		d.total, d.modified = resp.ContentLength, modified
		return nil
	case d.at == 0 || resp.StatusCode/100 != 2 && resp.StatusCode != http.StatusRequestedRangeNotSatisfiable:
		return readRefusal(resp, fromEnvd)
	case resp.StatusCode == http.StatusPartialContent && modified == d.modified && d.total == d.at+resp.ContentLength:
		return nil
	}
	return errChanged
}

// Read implements io.Reader. It ends with io.EOF only when the announced
// length has come.
func (d *download) Read(p []byte) (int, error) {
	for {
		if d.body == nil {
			return 0, fmt.Errorf("e2b: read %s: %w at byte %d", d.name, sandbox.ErrCut, d.at)
		}
		n, err := d.body.Read(p)
		d.at += int64(n)
		d.progress()
		if err == nil || n > 0 && !errors.Is(err, io.EOF) {
			return n, nil
		}
		if errors.Is(err, io.EOF) && (d.total < 0 || d.at == d.total) {
			return n, io.EOF
		}
		err = d.again(err)
		if err != nil || n > 0 {
			return n, err
		}
	}
}

// again continues after a break. Without a length there is nothing to tell
// the rest by.
func (d *download) again(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if d.ctx.Err() != nil {
		return fmt.Errorf("e2b: read %s: %w", d.name, context.Cause(d.ctx))
	}
	if d.total < 0 || d.broken >= max(d.s.p.opts.Retries, 0) {
		return fmt.Errorf("e2b: read %s: broke at byte %d of %d: %w: %w", d.name, d.at, d.total, sandbox.ErrCut, err)
	}
	d.broken++
	d.release()
	return d.open()
}

func (d *download) release() {
	if d.body != nil {
		d.stop() // first: a body that stands still is not drained
		_ = d.body.Close()
		d.body = nil
	}
}

// Close implements io.Closer.
func (d *download) Close() error {
	d.release()
	d.unwatch()
	d.cancel(nil)
	return nil
}
