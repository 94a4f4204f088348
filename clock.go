package agentrl

import (
	"sync"
	"time"
)

// A clock counts a budget down while nobody holds it, and calls expire once
// when the budget is spent. A context's deadline cannot stand still; this can.
type clock struct {
	mu      sync.Mutex
	left    time.Duration
	since   time.Time // when the timer was last started
	holders int
	timer   *time.Timer
	stopped bool
}

// newClock starts a clock that runs; expire is called in its own goroutine.
func newClock(budget time.Duration, expire func()) *clock {
	c := heldClock(budget, expire)
	c.release()
	return c
}

// heldClock is a clock that stands still until its first release.
func heldClock(budget time.Duration, expire func()) *clock {
	c := &clock{left: budget, holders: 1}
	c.timer = time.AfterFunc(time.Hour, func() { // of no matter: a held clock does not fire
		if c.fire() {
			expire()
		}
	})
	c.timer.Stop()
	return c
}

// fire reports whether the budget is really spent: a hold that came at the
// same moment wins.
func (c *clock) fire() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || c.holders > 0 {
		return false
	}
	c.stopped = true
	return true
}

// hold stops the countdown until release is called as often.
func (c *clock) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holders++
	if c.holders > 1 || c.stopped {
		return
	}
	c.timer.Stop()
	c.left -= time.Since(c.since)
}

func (c *clock) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holders--
	if c.holders > 0 || c.stopped {
		return
	}
	c.since = time.Now()
	c.timer.Reset(max(c.left, 0))
}

// stop ends the clock without expiring.
func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.timer.Stop()
}
