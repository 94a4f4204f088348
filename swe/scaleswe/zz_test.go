package scaleswe

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

type timed struct {
	sandbox.Sandbox
	t *testing.T
}

func (s timed) RunDetached(ctx context.Context, d sandbox.Detached) (sandbox.Exit, error) {
	t0 := time.Now()
	e, err := sandbox.RunDetached(ctx, s.Sandbox, d)
	s.t.Logf("%8s detached %s", time.Since(t0).Round(time.Millisecond), strings.ReplaceAll(d.Script[max(0, len(d.Script)-60):], "\n", "; "))
	return e, err
}
func (s timed) Exec(ctx context.Context, c sandbox.Cmd) (sandbox.Result, error) {
	t0 := time.Now()
	e, err := s.Sandbox.Exec(ctx, c)
	s.t.Logf("%8s exec %.40q", time.Since(t0).Round(time.Millisecond), c.Script)
	return e, err
}
func (s timed) WriteFile(ctx context.Context, path, user string, r io.ReadSeeker) error {
	t0 := time.Now()
	err := s.Sandbox.WriteFile(ctx, path, user, r)
	s.t.Logf("%8s write %s", time.Since(t0).Round(time.Millisecond), path)
	return err
}
func (s timed) ReadFile(ctx context.Context, path string) (io.ReadCloser, error) {
	t0 := time.Now()
	r, err := s.Sandbox.ReadFile(ctx, path)
	s.t.Logf("%8s read %s", time.Since(t0).Round(time.Millisecond), path)
	return r, err
}

func TestZZ(t *testing.T) {
	b := newBench(t)
	b.Wrap = func(sb sandbox.Sandbox) sandbox.Sandbox { return timed{sb, t} }
	t0 := time.Now()
	_, e := b.Rollout(t, New(Options{}), flat("eval_cmd", "python3 -m unittest -q tests.test_calc"), fix)
	fmt.Println(e.Outcome, time.Since(t0))
}
