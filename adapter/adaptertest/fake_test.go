package adaptertest_test

import (
	"context"
	"errors"
	"testing"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/adaptertest"
)

func TestFakeKeepsSessions(t *testing.T) {
	var f adaptertest.Fake
	ctx := context.Background()
	turns := 0
	s, err := f.OpenSession(ctx, "a", adapter.SessionOptions{OnTurn: func(adapter.TurnInfo) { turns++ }})
	if err != nil || s.Token == s.ID {
		t.Fatalf("OpenSession = %+v, %v", s, err)
	}
	if _, err := f.OpenSession(ctx, "a", adapter.SessionOptions{}); !errors.Is(err, adapter.ErrSessionLive) {
		t.Errorf("opening a live id: %v, want ErrSessionLive", err)
	}
	if err := f.Turn("a", adapter.TurnInfo{}); err != nil || turns != 1 {
		t.Errorf("Turn: %v, %d calls of the hook", err, turns)
	}
	if err := f.SealSession(ctx, "a"); err != nil || !f.Sealed("a") {
		t.Errorf("SealSession: %v", err)
	}
	if err := f.Turn("a", adapter.TurnInfo{}); !errors.Is(err, adapter.ErrSessionSealed) {
		t.Errorf("a turn of a sealed session: %v, want ErrSessionSealed", err)
	}
	if rec, err := f.FinishSession(ctx, "a"); err != nil || len(rec.Segments) != 1 {
		t.Errorf("FinishSession = %+v, %v", rec, err)
	}
	failed := failures{TB: t}
	f.CheckDropped(&failed)
	if failed.n != 1 {
		t.Errorf("CheckDropped found %d live sessions, want 1", failed.n)
	}
	f.DropSession("a")
	f.DropSession("a")
	f.CheckDropped(t)
	if _, err := f.FinishSession(ctx, "a"); !errors.Is(err, adapter.ErrNoSession) {
		t.Errorf("finishing a dropped session: %v, want ErrNoSession", err)
	}
}

// failures counts what a check reports instead of failing the test.
type failures struct {
	testing.TB
	n int
}

func (f *failures) Errorf(string, ...any) { f.n++ }
