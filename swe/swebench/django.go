package swebench

import (
	"regexp"
	"strings"
)

// Results that Django's runner spreads over two lines because the test wrote
// something between its name and its "ok".
var djangoSpread = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^(.*?)\s\.\.\.\sTesting against Django installed in ((?s:.*?)) silenced\)\.\nok$`),
	regexp.MustCompile(`(?m)^(.*?)\s\.\.\.\sInternal Server Error: /(.*)/\nok$`),
	regexp.MustCompile(`(?m)^(.*?)\s\.\.\.\sSystem check identified no issues \(0 silenced\)\nok$`),
}

// parseDjango reads the verbose output of Django's runner. It is as brittle as
// the harness's own: a line that starts with "ok" passes the test named last.
func parseDjango(log string, _ Harness) *Statuses {
	s := &Statuses{}
	last := ""
	for line := range strings.SplitSeq(log, "\n") {
		line = strings.TrimSpace(line)
		if name, _, ok := strings.Cut(line, " ... "); ok {
			last = name
		}
		djangoLine(s, line)
		if strings.HasPrefix(line, "ok") && last != "" {
			s.set(last, "PASSED")
		}
	}
	for _, re := range djangoSpread {
		for _, m := range re.FindAllStringSubmatch(log, -1) {
			s.set(m[1], "PASSED")
		}
	}
	return s
}

// djangoLine reads one line's own result, in the order in which a later rule
// overrides an earlier one.
func djangoLine(s *Statuses, line string) {
	const oddName = "--version is equivalent to version"
	if strings.Contains(line, oddName) {
		s.set(oddName, "PASSED")
	}
	for _, suffix := range []string{" ... ok", " ... OK", " ...  OK"} {
		test, ok := strings.CutSuffix(line, suffix)
		if !ok {
			continue
		}
		if strings.HasPrefix(test, "Applying sites.0002_alter_domain_unique...test_no_migrations") {
			_, test, _ = strings.Cut(test, "...")
			test = strings.TrimSpace(test)
		}
		s.set(test, "PASSED")
		break
	}
	if test, _, ok := strings.Cut(line, " ... skipped"); ok {
		s.set(test, "SKIPPED")
	}
	for _, r := range []struct{ suffix, header, status string }{{" ... FAIL", "FAIL:", "FAILED"}, {" ... ERROR", "ERROR:", "ERROR"}} {
		if strings.HasSuffix(line, r.suffix) {
			test, _, _ := strings.Cut(line, r.suffix)
			s.set(test, r.status)
		}
		if f := strings.Fields(line); strings.HasPrefix(line, r.header) && len(f) > 1 {
			s.set(f[1], r.status)
		}
	}
}
