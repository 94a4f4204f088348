package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

var errFlaky = errors.New("flaky")

func always(error) Verdict { return Verdict{Again: true} }

func TestDo(t *testing.T) {
	tests := []struct {
		name     string
		retries  int
		failures int
		judge    func(error) Verdict
		tries    int
		ok       bool
	}{
		{"first try", 3, 0, always, 1, true},
		{"third try", 3, 2, always, 3, true},
		{"used up", 3, 9, always, 4, false},
		{"no retries", 0, 9, always, 1, false},
		{"given up", 3, 9, func(error) Verdict { return Verdict{} }, 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries := 0
				err := Do(t.Context(), Policy{Retries: tt.retries}, func(try int) error {
					if try != tries {
						t.Errorf("try = %d, want %d", try, tries)
					}
					tries++
					if tries <= tt.failures {
						return errFlaky
					}
					return nil
				}, tt.judge)
				if tries != tt.tries || (err == nil) != tt.ok || err != nil && !errors.Is(err, errFlaky) {
					t.Errorf("Do: %d tries, error %v; want %d tries, ok %v", tries, err, tt.tries, tt.ok)
				}
			})
		})
	}
}

func TestDoHonoursAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		_ = Do(t.Context(), Policy{Retries: 1}, func(int) error { return errFlaky },
			func(error) Verdict { return Verdict{Again: true, After: time.Minute} })
		if got := time.Since(start); got != time.Minute {
			t.Errorf("waited %v, want 1m", got)
		}
	})
}

func TestDoEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cause := errors.New("guard expired")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 100*time.Millisecond, cause)
		defer cancel()
		tries := 0
		err := Do(ctx, Policy{Retries: 9}, func(int) error { tries++; return errFlaky }, always)
		if tries != 1 || !errors.Is(err, cause) || !errors.Is(err, errFlaky) {
			t.Errorf("Do: %d tries, error %v; want 1 try, both the cause and the last error", tries, err)
		}
	})
}

func TestWait(t *testing.T) {
	p := Policy{Base: time.Second, Cap: 32 * time.Second}
	for n, top := range []time.Duration{1, 2, 4, 8, 16, 32, 32, 32} {
		top *= time.Second
		for range 200 {
			if got := p.Wait(n); got < top/2 || got > top {
				t.Fatalf("Wait(%d) = %v, want within [%v, %v]", n, got, top/2, top)
			}
		}
	}
	if got := p.Wait(1 << 20); got > 32*time.Second {
		t.Errorf("Wait(1<<20) = %v, over the cap", got)
	}
}
