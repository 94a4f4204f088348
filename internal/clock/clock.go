// Package clock counts time budgets down that stand still now and then, as in a
// pause for a weight update.
package clock

import (
	"sync"
	"time"
)

// A Clock counts a budget down while nobody holds it, and calls expire once
// when the budget is spent. A context's deadline cannot stand still; this can.
// It is safe for concurrent use.
type Clock struct {
	mu      sync.Mutex
	left    time.Duration
	since   time.Time // when the timer was last started
	holders int
	timer   *time.Timer
	stopped bool
}

// New starts a clock that runs; expire is called in its own goroutine.
func New(budget time.Duration, expire func()) *Clock {
	c := Held(budget, expire)
	c.Release()
	return c
}

// Held returns a Clock that stands still until its first Release.
func Held(budget time.Duration, expire func()) *Clock {
	c := &Clock{left: budget, holders: 1}
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
func (c *Clock) fire() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped || c.holders > 0 {
		return false
	}
	c.stopped = true
	return true
}

// Hold stops the countdown until Release is called as often.
func (c *Clock) Hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holders++
	if c.holders > 1 || c.stopped {
		return
	}
	c.timer.Stop()
	c.left -= time.Since(c.since)
}

// Release takes one Hold back.
func (c *Clock) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holders--
	if c.holders > 0 || c.stopped {
		return
	}
	c.since = time.Now()
	c.timer.Reset(max(c.left, 0))
}

// Stop ends the clock without expiring.
func (c *Clock) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = true
	c.timer.Stop()
}
