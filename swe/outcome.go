package swe

import "fmt"

// DefaultPolicy turns an outcome into what a trainer gets: reward 1 for solved
// and 0 for everything else; kept is what says something about the policy. What
// infrastructure, grader or row did is not kept.
func DefaultPolicy(o Outcome) (reward float64, keep bool) {
	switch o {
	case Solved:
		return 1, true
	case Failed, Partial, PatchRejected, EmptyPatch, NoEvidence:
		return 0, true
	}
	return 0, false
}

// Verdict is an Evaluation of the outcome by the default policy. Applied is
// true but for a rejected patch.
func Verdict(o Outcome, reason string) Evaluation {
	reward, keep := DefaultPolicy(o)
	return Evaluation{Outcome: o, Reward: reward, Keep: keep, Applied: o != PatchRejected, Reason: reason}
}

// A Bucket is how the tests of one list ended.
type Bucket struct {
	Passed  []string
	Failed  []string // failed, in error, skipped or expected to fail
	Missing []string // not in the results
}

// Len is the number of tests of the list.
func (b Bucket) Len() int { return len(b.Passed) + len(b.Failed) + len(b.Missing) }

// String is "3 of 5".
func (b Bucket) String() string { return fmt.Sprintf("%d of %d", len(b.Passed), b.Len()) }

// Hint names the first missing test and, of the tests that there are, the one
// whose name begins most like it: data sets cut ids and vary their spelling.
func (b Bucket) Hint(have []string) string {
	if len(b.Missing) == 0 {
		return ""
	}
	id, best, length := b.Missing[0], "", 0
	for _, h := range have {
		n := 0
		for n < len(h) && n < len(id) && h[n] == id[n] {
			n++
		}
		if n > length {
			best, length = h, n
		}
	}
	if 2*length < len(id) {
		return fmt.Sprintf("; %s is missing", id)
	}
	return fmt.Sprintf("; %s is missing, nearest %s", id, best)
}

// Grade is the outcome of two lists: solved when every test of both passed,
// partial when some that had to be made to pass do and none was broken.
func Grade(f2p, p2p Bucket) Outcome {
	whole := len(p2p.Passed) == p2p.Len()
	switch {
	case whole && len(f2p.Passed) == f2p.Len():
		return Solved
	case whole && len(f2p.Passed) > 0:
		return Partial
	}
	return Failed
}
