package swetest

import (
	"context"
	"io"
	"sync/atomic"

	"github.com/agentrl-go/agentrl/sandbox"
)

// Severed is a sandbox whose connection breaks after a call was carried out and
// before its answer has come: the call with number At, counted from 1; all of
// them if At is negative, none if it is 0. What may be repeated is repeated, as
// a backend's transport does; of anything else the caller learns ErrCut.
type Severed struct {
	sandbox.Sandbox
	At    int64
	Calls atomic.Int64
}

func (s *Severed) cut() bool {
	n := s.Calls.Add(1)
	return n == s.At || s.At < 0
}

// Exec implements sandbox.Sandbox.
func (s *Severed) Exec(ctx context.Context, cmd sandbox.Cmd) (sandbox.Result, error) {
	res, err := s.Sandbox.Exec(ctx, cmd)
	switch {
	case !s.cut():
		return res, err
	case cmd.Replayable:
		return s.Sandbox.Exec(ctx, cmd)
	}
	return sandbox.Result{}, sandbox.ErrCut
}

// WriteFile implements sandbox.Sandbox.
func (s *Severed) WriteFile(ctx context.Context, path, user string, content io.ReadSeeker) error {
	err := s.Sandbox.WriteFile(ctx, path, user, content)
	if !s.cut() {
		return err
	}
	if _, err := content.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return s.Sandbox.WriteFile(ctx, path, user, content)
}

// ReadFile implements sandbox.Sandbox.
func (s *Severed) ReadFile(ctx context.Context, path string) (io.ReadCloser, error) {
	r, err := s.Sandbox.ReadFile(ctx, path)
	if err != nil || !s.cut() {
		return r, err
	}
	if err := r.Close(); err != nil {
		return nil, err
	}
	return s.Sandbox.ReadFile(ctx, path)
}
