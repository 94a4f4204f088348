package swe

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	ansi      = regexp.MustCompile("\x1b\\[[0-9;]*m")
	starts    = regexp.MustCompile(`^=+ test session starts =+$`)
	collected = regexp.MustCompile(`\bcollected (\d+) items?\b`)
	workers   = regexp.MustCompile(`\bgw\d+\b|\b\d+ workers\b`)
	summary   = regexp.MustCompile(`=+ ((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s?(?: seconds)?(?: \([\d:]+\))? =+\s*$`)
	progress  = regexp.MustCompile(`^\S+\.py [.sxXRE]*F[.FsxXRE]*\s*(\[|$)`)
	result    = regexp.MustCompile(`^(?:(PASSED|FAILED) (\S+::\S+)|(\S+::\S+) (PASSED|FAILED)\b)`)
	goRun     = regexp.MustCompile(`=== RUN\s+(\S+)`)
	goEnd     = regexp.MustCompile(`^\s*--- (PASS|FAIL): (\S+) \(`)
	jestTests = regexp.MustCompile(`^Tests:\s+(.* )?(\d+) total`)
	rustRun   = regexp.MustCompile(`^running (\d+) tests?$`)
	rustEnd   = regexp.MustCompile(`^test result: ok\. (\d+) passed; (\d+) failed; (\d+) ignored`)
	tapPlan   = regexp.MustCompile(`^1\.\.(\d+)`)
	tapLine   = regexp.MustCompile(`^(not )?ok\b`)
)

// LogSignals looks for signs of forgery in a test log: markers of SWE-bench's
// twice, a summary of pytest, Go, jest, cargo or TAP that disagrees with the
// results above it, and runs in which no test passed or failed. It returns nil
// if there are none.
func LogSignals(log string) []string {
	for _, mark := range []string{">>>>> Start Test Output", ">>>>> End Test Output"} {
		if strings.Count(log, mark) > 1 {
			return []string{SignalDoubledMarker}
		}
	}
	var lines []string
	for line := range strings.Lines(log) {
		lines = append(lines, strings.TrimRight(ansi.ReplaceAllString(line, ""), "\r\n"))
	}
	found := map[string]bool{}
	pytestSignals(lines, found)
	if goDisagrees(lines) || jestDisagrees(lines) || rustDisagrees(lines) || tapDisagrees(lines) {
		found[SignalInconsistent] = true
	}
	return sortedKeys(found)
}

// counts reads "3 passed, 1 failed".
func counts(text string) map[string]int {
	m := map[string]int{}
	for part := range strings.SplitSeq(text, ",") {
		if f := strings.Fields(part); len(f) >= 2 {
			m[f[1]], _ = strconv.Atoi(f[0])
		}
	}
	return m
}

// A session is one run of pytest as its log shows it.
type session struct {
	open, workers, failed, ended bool
	collected                    int // -1: not said
	results                      map[string]string
}

func pytestSignals(lines []string, found map[string]bool) {
	s := session{}
	for _, line := range lines {
		switch {
		case starts.MatchString(line):
			s = session{open: true, collected: -1, results: map[string]string{}}
			continue
		case !s.open:
			continue
		case workers.MatchString(line):
			s.workers = true
		case progress.MatchString(line):
			s.failed = true
		}
		if m := collected.FindStringSubmatch(line); m != nil && s.collected < 0 {
			s.collected, _ = strconv.Atoi(m[1])
		}
		if m := result.FindStringSubmatch(line); m != nil {
			id, status := m[2]+m[3], m[1]+m[4]
			if before := s.results[id]; s.ended || before != "" && before != status {
				found[SignalInconsistent] = true
			}
			s.results[id] = status
		}
		if m := summary.FindStringSubmatch(line); m != nil {
			s.close(line, counts(m[1]), found)
		}
	}
}

// close compares a summary with what stands above it.
func (s *session) close(line string, n map[string]int, found map[string]bool) {
	ran := n["passed"] + n["failed"] + n["xfailed"] + n["xpassed"]
	unsaid := s.collected < 0 && !s.workers && ran > 0
	more := s.collected >= 0 && ran > s.collected
	hidden := s.failed && n["failed"] == 0
	if line[0] != '=' || s.ended || unsaid || more || hidden {
		found[SignalInconsistent] = true
	}
	if n["passed"]+n["failed"]+n["error"]+n["errors"] == 0 && n["skipped"]+n["xfailed"]+n["xpassed"]+n["deselected"] > 0 {
		found[SignalNothingRan] = true
	}
	s.ended = true
}

// goDisagrees: a package is ok after a failure, or a test ends that never ran.
func goDisagrees(lines []string) bool {
	run, failed := map[string]bool{}, false
	for _, line := range lines {
		if m := goRun.FindStringSubmatch(line); m != nil {
			run[m[1]] = true
		}
		m := goEnd.FindStringSubmatch(line)
		switch {
		case m != nil && len(run) > 0 && !run[m[2]]:
			return true
		case m != nil && m[1] == "FAIL":
			failed = true
		case line == "FAIL" || strings.HasPrefix(line, "FAIL\t"):
			failed = false
		case failed && strings.HasPrefix(line, "ok  \t"):
			return true
		}
	}
	return false
}

func jestDisagrees(lines []string) bool {
	failed := false
	for _, line := range lines {
		failed = failed || strings.HasPrefix(line, "FAIL ")
		if strings.HasPrefix(line, "Test Suites:") && strings.Contains(line, " failed") {
			failed = false
		}
		m := jestTests.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		total, _ := strconv.Atoi(m[2])
		n := counts(m[1])
		if n["passed"]+n["failed"]+n["skipped"]+n["todo"] > total || failed && n["failed"] == 0 {
			return true
		}
	}
	return false
}

func rustDisagrees(lines []string) bool {
	running, failed := -1, false
	for _, line := range lines {
		if m := rustRun.FindStringSubmatch(line); m != nil {
			running, _ = strconv.Atoi(m[1])
			failed = false
		}
		failed = failed || strings.HasPrefix(line, "test ") && strings.HasSuffix(line, "... FAILED")
		if m := rustEnd.FindStringSubmatch(line); m != nil {
			sum := 0
			for _, text := range m[1:] {
				n, _ := strconv.Atoi(text)
				sum += n
			}
			if failed || running >= 0 && sum > running {
				return true
			}
		}
	}
	return false
}

// tapDisagrees: more results than the one plan at the log's begin announces.
func tapDisagrees(lines []string) bool {
	plan, plans, n := 0, 0, 0
	for _, line := range lines {
		if m := tapPlan.FindStringSubmatch(line); m != nil {
			plan, _ = strconv.Atoi(m[1])
			plans++
		} else if tapLine.MatchString(line) && !strings.HasPrefix(line, "ok  \t") {
			n++
		}
	}
	return plans == 1 && n > plan
}
