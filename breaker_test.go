package agentrl

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// While the breaker is open a probe that hangs until the guard ends it has
// failed: else every waiting call would hang as long, one after the other.
func TestProbeThatTimesOutHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(1)
		report, err := b.enter(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		report(&StageError{Stage: StageCreate, Err: errors.New("no route")})
		var probed, turnedAway atomic.Int32
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				report, err := b.enter(t.Context())
				if err != nil {
					turnedAway.Add(1)
					return
				}
				probed.Add(1)
				time.Sleep(43 * time.Minute)
				report(&StageError{Stage: StageRun, Err: ErrWallClock})
			})
		}
		wg.Wait()
		if probed.Load() != maxProbes || turnedAway.Load() != 20-maxProbes {
			t.Errorf("%d calls probed, %d were turned away, want %d and %d", probed.Load(), turnedAway.Load(), maxProbes, 20-maxProbes)
		}
	})
}

// A row that is wrong says nothing about the backend: the next call probes.
func TestProbeOfABadRowSaysNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBreaker(1)
		report, _ := b.enter(t.Context())
		report(&StageError{Stage: StageCreate, Err: errors.New("no route")})
		for range 5 {
			report, err := b.enter(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			report(&StageError{Stage: StageParse, Err: errors.New("no image")})
		}
		if b.probes != 0 || b.cause == nil {
			t.Errorf("%d probes failed, cause %v, want none and the breaker open", b.probes, b.cause)
		}
	})
}
