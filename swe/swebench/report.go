package swebench

import (
	"regexp"
	"slices"
	"strings"

	"github.com/agentrl-go/agentrl/swe"
)

// A Report is what the harness makes of one log.
type Report struct {
	Found    bool      // the log can be believed; without it nothing else is set
	Why      string    // why it was not found
	Statuses *Statuses // by test
	F2P, P2P swe.Bucket

	Infra         bool   // the environment failed, by a signature in the log
	InfraReason   string // "out_of_memory", …; also ambiguous ones, for which Infra is false
	DoubledMarker bool   // a marker occurs more often than the script writes it
	Outside       bool   // results stand outside of the markers
}

// Resolution of a report as the harness words it; "" when nothing was found.
func (r Report) Resolution() string {
	if !r.Found {
		return ""
	}
	switch swe.Grade(r.F2P, r.P2P) {
	case swe.Solved:
		return "RESOLVED_FULL"
	case swe.Partial:
		return "RESOLVED_PARTIAL"
	}
	return "RESOLVED_NO"
}

// A Judge turns logs into reports.
type Judge struct {
	Version  Harness
	Parser   Parser
	FailOnly bool // a test that is not reported as failed has passed
	F2P, P2P []string
}

// Judge reads a whole log.
func (j Judge) Judge(log string) Report {
	r := Report{Statuses: &Statuses{}}
	r.DoubledMarker = strings.Count(log, startMark) > 1 || strings.Count(log, endMark) > 1
	statuses, why := j.statuses(log, &r)
	if why != "" {
		r.Why = why
		r.Infra, r.InfraReason = infrastructure(log)
		return r
	}
	r.Found, r.Statuses = true, statuses
	r.F2P = j.bucket(j.F2P, statuses, false)
	r.P2P = j.bucket(j.P2P, statuses, true)
	return r
}

// statuses parses what stands between the markers; why says why the log can't
// be believed.
func (j Judge) statuses(log string, r *Report) (s *Statuses, why string) {
	for _, bad := range []string{">>>>> Patch Apply Failed", ">>>>> Reset Failed", ">>>>> Tests Errored", ">>>>> Tests Timed Out"} {
		if strings.Contains(log, bad) {
			return nil, "the log says " + bad
		}
	}
	_, tests, ok := strings.Cut(log, startMark)
	if !ok || !strings.Contains(log, endMark) {
		return nil, "a marker is missing: the tests did not run to their end"
	}
	tests, _, _ = strings.Cut(tests, startMark)
	tests, _, _ = strings.Cut(tests, endMark)
	s = j.Parser(tests, j.Version)
	if len(s.of) == 0 {
		s = j.Parser(log, j.Version)
		r.Outside = len(s.of) > 0
	}
	if j.Version >= V5 {
		return s, unbelievable(log, s)
	}
	return s, ""
}

var (
	exitCode = regexp.MustCompile(exitMark + `(\d+)`)
	// suiteRan: a runner's own count of the tests that it ran.
	suiteRan = regexp.MustCompile(`(?m)Executed [1-9]\d* of \d+|\b[1-9]\d* (passed|failed|skipped|passing|failing|pending|xfailed|examples?|specs?)\b|\bRan [1-9]\d* tests?\b|^# tests [1-9]|^(not )?ok \d+`)
)

// unbelievable are harness 5's reasons to refuse a log that parses.
func unbelievable(log string, s *Statuses) string {
	if len(s.of) == 0 {
		if suiteRan.MatchString(log) {
			return ""
		}
		return "no result, and no sign that the tests ran"
	}
	m := exitCode.FindStringSubmatch(log)
	if m == nil || strings.Trim(m[1], "0") == "" {
		return ""
	}
	for _, status := range s.of {
		if status == "FAILED" || status == "ERROR" {
			return ""
		}
	}
	return "the tests exited with " + m[1] + " although none is reported as failed"
}

func (j Judge) bucket(ids []string, s *Statuses, keep bool) swe.Bucket {
	var b swe.Bucket
	for _, id := range ids {
		status, ok := j.lookup(id, s)
		switch {
		case j.FailOnly && status != "FAILED", status == "PASSED", status == "XFAIL":
			b.Passed = append(b.Passed, id)
		case keep && status == "SKIPPED" && j.Version >= V5:
			b.Passed = append(b.Passed, id)
		case !ok:
			b.Missing = append(b.Missing, id)
		case status == "FAILED", status == "ERROR", status == "SKIPPED" && j.Version >= V5:
			b.Failed = append(b.Failed, id)
		}
	}
	return b
}

// lookup finds a test's status. Many ids of the data sets are cut inside their
// parameter; harness 5 finds such a one by its prefix if all tests that begin
// with it agree.
func (j Judge) lookup(id string, s *Statuses) (string, bool) {
	status, ok := s.of[id]
	if ok || j.Version < V5 || strings.Count(id, "[") <= strings.Count(id, "]") {
		return status, ok
	}
	found := slices.DeleteFunc(slices.Clone(s.order), func(t string) bool { return !strings.HasPrefix(t, id) })
	if len(found) == 0 {
		return "", false
	}
	good := func(t string) bool { return s.of[t] == "PASSED" || s.of[t] == "XFAIL" }
	for _, t := range found {
		if good(t) != good(found[0]) {
			return "", false
		}
	}
	return s.of[found[0]], true
}

// signatures of an environment that failed, and of what may be either.
var signatures = []struct {
	reason      string
	environment bool
	re          *regexp.Regexp
}{
	{"browser", true, regexp.MustCompile(`(?i)cannot start (chrome|firefox)|no binary for chrome|failed to launch the browser|ChromeHeadless have not captured`)},
	{"display", true, regexp.MustCompile(`(?i)cannot open display|could not connect to display|no display name`)},
	{"out_of_memory", true, regexp.MustCompile(`(?m)Cannot allocate memory|OutOfMemoryError|^Killed$`)},
	{"container", true, regexp.MustCompile(`(?i)no space left on device|read-only file system|OCI runtime`)},
	{"network", true, regexp.MustCompile(`(?i)temporary failure in name resolution|could not resolve host|network is unreachable|ENOTFOUND`)},
	{"missing_module", false, regexp.MustCompile(`ModuleNotFoundError|Cannot find module|No module named`)},
	{"no_tests_collected", false, regexp.MustCompile(`collected 0 items|no tests ran|No tests found`)},
	{"tests_timed_out", false, regexp.MustCompile(`>>>>> Tests Timed Out|(?i)timeout exceeded`)},
}

func infrastructure(log string) (environment bool, reason string) {
	for _, s := range signatures {
		if s.re.MatchString(log) {
			return s.environment, s.reason
		}
	}
	return false, ""
}
