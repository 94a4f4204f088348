package clock

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestClockStandsStill holds a clock twice over and lets it go on.
func TestClockStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		done := make(chan time.Duration, 2)
		c := New(10*time.Second, func() { done <- time.Since(began) })
		time.Sleep(4 * time.Second)
		c.Hold()
		c.Hold()
		time.Sleep(time.Hour)
		c.Release()
		time.Sleep(time.Hour)
		c.Release()
		if got, want := <-done, 2*time.Hour+10*time.Second; got != want {
			t.Errorf("expired after %v, want %v", got, want)
		}
		c.Hold()
		c.Release()
		time.Sleep(time.Hour)
		if len(done) != 0 {
			t.Error("expired twice")
		}
	})
}

func TestHeldAndStoppedClocksNeverExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expired := func() { t.Error("expired") }
		Held(time.Second, expired)
		c := New(time.Second, expired)
		c.Stop()
		c.Release()
		time.Sleep(time.Hour)
	})
}

// TestHoldAtTheLastMoment: a hold before the timer's goroutine has run wins.
func TestHoldAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		expired := false
		c := New(time.Second, func() { expired = true })
		c.Hold()
		time.Sleep(time.Hour)
		if expired {
			t.Error("expired while it was held")
		}
		c.Release()
		time.Sleep(time.Second)
		synctest.Wait()
		if !expired {
			t.Error("never expired")
		}
	})
}
