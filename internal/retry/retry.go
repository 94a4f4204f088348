// Package retry repeats what may be repeated: a few tries with waits between
// them that grow and are drawn at random, so that a thousand rollouts that
// failed together do not come back together. Whether a failure may be tried
// again is the caller's to say: nothing is repeated by default.
package retry

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"
)

// A Policy says how often and how patiently. The zero value tries once.
type Policy struct {
	Retries int           // tries after the first; 0 for none
	Base    time.Duration // upper end of the first wait; 0 for 1 s
	Cap     time.Duration // no wait is drawn from above it; 0 for 32 s
}

// A Verdict is what to do about a failed try. The zero value gives up.
type Verdict struct {
	Again bool
	After time.Duration // wait at least this long, as a server's Retry-After asks; 0 for the policy's own wait
}

// Do calls fn until it succeeds, judge gives up on its error, the retries are
// used up, or ctx has ended. It returns fn's last error; when ctx ended during
// a wait, the context's cause joined to it. fn gets the number of the try,
// from 0. It runs on the caller's goroutine.
func Do(ctx context.Context, p Policy, fn func(try int) error, judge func(error) Verdict) error {
	for try := 0; ; try++ {
		err := fn(try)
		if err == nil || try >= p.Retries {
			return err
		}
		v := judge(err)
		if !v.Again {
			return err
		}
		if werr := Sleep(ctx, max(v.After, p.Wait(try))); werr != nil {
			return errors.Join(werr, err)
		}
	}
}

// Wait draws the wait after try n (from 0): between half of and the whole of
// Base·2ⁿ, at most Cap. Half is kept as a floor, so that a burst does not
// spend all its retries in the first instants of an outage.
func (p Policy) Wait(n int) time.Duration {
	base, limit := p.Base, p.Cap
	if base <= 0 {
		base = time.Second
	}
	if limit <= 0 {
		limit = 32 * time.Second
	}
	top := limit
	if n < 32 && base < limit>>n {
		top = base << n
	}
	return top/2 + rand.N(top/2+1)
}

// Sleep waits for d, or until ctx ends; then it returns the context's cause.
func Sleep(ctx context.Context, d time.Duration) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
