package swebench

import (
	"regexp"
	"slices"
	"strings"
)

// Harness is a version of the harness whose log parsers and verdicts differ.
type Harness int

// The versions: 4.1.0 and 5.0.2.
const (
	V4 Harness = 4
	V5 Harness = 5
)

// Statuses maps tests to their last reported status and keeps the order in
// which they were first seen.
type Statuses struct {
	order []string
	of    map[string]string
}

func (s *Statuses) set(test, status string) {
	if s.of == nil {
		s.of = map[string]string{}
	}
	if _, ok := s.of[test]; !ok {
		s.order = append(s.order, test)
	}
	s.of[test] = status
}

// Map is the statuses by test. The caller must not change it.
func (s *Statuses) Map() map[string]string { return s.of }

// A Parser reads the statuses of tests out of a log.
type Parser func(log string, version Harness) *Statuses

// parsers are the log parsers by the name that rows use for them.
func parsers(name string) Parser {
	switch strings.TrimPrefix(name, "parse_log_") {
	case "pytest":
		return parsePytest
	case "pytest_options":
		return parsePytestOptions
	case "pytest_v2", "astropy", "scikit", "sphinx":
		return parsePytestV2
	case "django":
		return parseDjango
	case "matplotlib":
		return parseMatplotlib
	case "seaborn":
		return parseSeaborn
	case "sympy":
		return parseSympy
	case "chart_js":
		return parseChartJS
	}
	return nil
}

// repoParser is the parser of a repository of SWE-bench Verified.
func repoParser(repo string) string {
	switch repo {
	case "pallets/flask", "pydata/xarray", "pytest-dev/pytest":
		return "pytest"
	case "pylint-dev/pylint", "psf/requests":
		return "pytest_options"
	case "astropy/astropy", "scikit-learn/scikit-learn", "sphinx-doc/sphinx":
		return "pytest_v2"
	case "django/django":
		return "django"
	case "matplotlib/matplotlib":
		return "matplotlib"
	case "mwaskom/seaborn":
		return "seaborn"
	case "sympy/sympy":
		return "sympy"
	}
	return ""
}

var words = []string{"FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL"}

func startsWithStatus(line string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(line, w) })
}

// resultFields splits a line of pytest's summary, "STATUS id…"; nil for other
// lines. The status is whatever word starts with one.
func resultFields(line string) []string {
	if !startsWithStatus(line) {
		return nil
	}
	if strings.HasPrefix(line, "FAILED") {
		line = strings.ReplaceAll(line, " - ", " ")
	}
	if f := strings.Fields(line); len(f) > 1 {
		return f
	}
	return nil
}

var skippedCount = regexp.MustCompile(`^\[\d+\]$`)

// counted: harness 5 drops "SKIPPED [3] file:line: reason", which names no test.
func counted(f []string, v Harness) bool {
	return v >= V5 && f[0] == "SKIPPED" && skippedCount.MatchString(f[1])
}

func parsePytest(log string, v Harness) *Statuses {
	return parseSummary(log, v, func(id string) string { return id })
}

func parseSummary(log string, v Harness, name func(id string) string) *Statuses {
	s := &Statuses{}
	for line := range strings.SplitSeq(log, "\n") {
		if f := resultFields(line); f != nil && !counted(f, v) {
			s.set(name(f[1]), f[0])
		}
	}
	return s
}

var option = regexp.MustCompile(`(.*?)\[(.*)\]`)

// parsePytestOptions shortens a parameter that is a path to its last part: it
// differs between machines.
func parsePytestOptions(log string, v Harness) *Statuses {
	return parseSummary(log, v, func(id string) string {
		m := option.FindStringSubmatch(id)
		if m == nil {
			return id
		}
		opt := m[2]
		if strings.HasPrefix(opt, "/") && !strings.HasPrefix(opt, "//") && !strings.Contains(opt, "*") {
			opt = opt[strings.LastIndexByte(opt, '/'):]
		}
		return m[1] + "[" + opt + "]"
	})
}

func parseMatplotlib(log string, v Harness) *Statuses {
	return parsePytest(strings.NewReplacer("MouseButton.LEFT", "1", "MouseButton.RIGHT", "3").Replace(log), v)
}

var colour = regexp.MustCompile(`\[(\d+)m`)

// parsePytestV2 also reads coloured logs and lines that end in the status.
func parsePytestV2(log string, v Harness) *Statuses {
	s := &Statuses{}
	for line := range strings.SplitSeq(log, "\n") {
		line = strings.Map(func(r rune) rune {
			if r >= 1 && r <= 31 {
				return -1
			}
			return r
		}, colour.ReplaceAllString(line, ""))
		switch {
		case startsWithStatus(line):
			v2Prefix(s, line, v)
		case slices.ContainsFunc(words, func(w string) bool { return strings.HasSuffix(line, w) }):
			v2Suffix(s, line, v)
		}
	}
	return s
}

func v2Prefix(s *Statuses, line string, v Harness) {
	if v >= V5 {
		if strings.HasPrefix(line, "FAILED") {
			line, _, _ = strings.Cut(line, " - ")
		}
		if f := strings.Fields(line); len(f) > 1 && !counted(f, v) {
			s.set(strings.Join(f[1:], " "), f[0])
		}
		return
	}
	if f := resultFields(line); f != nil {
		s.set(f[1], f[0])
	}
}

func v2Suffix(s *Statuses, line string, v Harness) {
	f := strings.Fields(line)
	if len(f) < 2 {
		return
	}
	if v >= V5 {
		s.set(strings.Join(f[:len(f)-1], " "), f[len(f)-1])
		return
	}
	s.set(f[0], f[1])
}

func parseSeaborn(log string, _ Harness) *Statuses {
	s := &Statuses{}
	for line := range strings.SplitSeq(log, "\n") {
		f := strings.Fields(line)
		switch {
		case len(f) < 2:
		case strings.HasPrefix(line, "FAILED"):
			s.set(f[1], "FAILED")
		case strings.Contains(line, " PASSED "):
			if f[1] == "PASSED" {
				s.set(f[0], "PASSED")
			}
		case strings.HasPrefix(line, "PASSED"):
			s.set(f[1], "PASSED")
		}
	}
	return s
}

var sympyHeader = regexp.MustCompile(`(_*) (.*)\.py:(.*) (_*)`)

func parseSympy(log string, _ Harness) *Statuses {
	s := &Statuses{}
	for _, m := range sympyHeader.FindAllStringSubmatch(log, -1) {
		s.set(m[2]+".py:"+m[3], "FAILED")
	}
	for line := range strings.SplitSeq(log, "\n") {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "test_") {
			continue
		}
		test := strings.Fields(line)[0]
		switch {
		case strings.HasSuffix(line, " E"):
			s.set(test, "ERROR")
		case strings.HasSuffix(line, " F"):
			s.set(test, "FAILED")
		case strings.HasSuffix(line, " ok"):
			s.set(test, "PASSED")
		}
	}
	return s
}

var (
	ansi        = regexp.MustCompile(`\x1b(?:[@-Z\\-_]|\[[0-?]*[ -/]*[@-~])`)
	chromeFails = regexp.MustCompile(`Chrome\s[\d.]+\s\(.+?\)\s(.*)\sFAILED$`)
)

func parseChartJS(log string, _ Harness) *Statuses {
	s := &Statuses{}
	for line := range strings.SplitSeq(ansi.ReplaceAllString(log, ""), "\n") {
		if m := chromeFails.FindStringSubmatch(line); m != nil {
			s.set(m[1], "FAILED")
		}
	}
	return s
}
