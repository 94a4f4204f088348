package swe

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/agentrl-go/agentrl/internal/shell"
	"github.com/agentrl-go/agentrl/sandbox"
)

// A matrixRow is one way to leave a work tree.
type matrixRow struct {
	name, script string
	keys         map[string]string
	today        string // what the usual capture and application make of it
}

const matrixRepo = `set -e
git init -q -b main .; mkdir pkg tests
printf 'def add(a, b):\n    return a - b\n' >pkg/calc.py; : >pkg/__init__.py; echo t >tests/t.py
for i in $(seq 40); do echo "line $i"; done >big.txt
printf 'no newline' >noeol.txt; printf 'one\r\ntwo\r\n' >crlf.txt; printf 's = "\xe9"\n' >latin.py
printf '\x89PNG\r\n\x1a\nOLD\x00' >logo.bin; ln -s pkg/calc.py link; printf 'build/\n*.log\n' >.gitignore
git add -A; git -c user.name=b -c user.email=b@b commit -qm base
`

// TestCaptureMatrix: what is in the graded tree equals what the agent left, for
// every row; today's results stand beside ours.
func TestCaptureMatrix(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	rows := readMatrix(t)
	agent, grader := newBox(t), newBox(t)
	results := make([]string, len(rows))
	var group sync.WaitGroup
	slots := make(chan struct{}, 4)
	for i, row := range rows {
		group.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = row.try(t, agent, grader, fmt.Sprintf("/srv/m/%d", i))
		})
	}
	group.Wait()
	exact, lost := 0, 0
	for i, row := range rows {
		t.Logf("%-46s today %-40s ours %s", row.name, row.today, results[i])
		if results[i] != "exact" {
			t.Errorf("%s: %s", row.name, results[i])
			continue
		}
		exact++
		if strings.Contains(row.today, "wrong") || strings.Contains(row.today, "refused") {
			lost++
		}
	}
	if res, err := agent.Exec(t.Context(), sandbox.Cmd{Script: "ls /tmp/agentrl_pwned"}); err != nil || res.Ok() {
		t.Error("a command that an agent planted was run", err)
	}
	t.Logf("figure: %d of %d rows exact; today's capture or application is wrong in %d of them", exact, len(rows), lost)
}

// try captures and applies one row and says "exact", or what went wrong.
func (r matrixRow) try(t *testing.T, agent, grader sandbox.Sandbox, dir string) string {
	w := &Workspace{Workdir: strings.TrimSuffix(dir+"/"+r.keys["workdir"], "/"), Statement: "s"}
	for _, sb := range []sandbox.Sandbox{agent, grader} {
		bash(t, sb, "", "/", "mkdir -p "+dir+"; cd "+dir+"\n"+matrixRepo+r.keys["setup"])
	}
	if err := w.Prepare(t.Context(), agent); err != nil {
		return "prepare: " + err.Error()
	}
	bash(t, agent, sandbox.AgentUser, w.Workdir, "umask 022\n"+r.script)
	bash(t, agent, "", w.Workdir, r.keys["root"])
	p, err := w.Diff(t.Context(), agent)
	if err != nil {
		return "diff: " + err.Error()
	}
	if p.Empty() != (r.keys["empty"] != "") {
		return fmt.Sprintf("empty %v, %d bytes", p.Empty(), len(p.Bytes))
	}
	g, err := w.Grading(t.Context(), grader)
	if err != nil {
		return "grading: " + err.Error()
	}
	report, err := g.Apply(t.Context(), p, ApplyOptions{})
	if err != nil || report.Drift || report.Tier == "" || report.Tree != p.ResultTree {
		return fmt.Sprintf("apply: %+v, %v", report, err)
	}
	return r.compare(t, agent, grader, w.Workdir, p)
}

// compare the two work trees, but for what is left out on purpose, and that is
// reported.
func (r matrixRow) compare(t *testing.T, agent, grader sandbox.Sandbox, dir string, p Patch) string {
	args := " --drop PROBLEM_STATEMENT.md"
	if lost := r.keys["lost"]; lost != "" {
		args += " --drop " + shell.Quote(lost)
		if !slices.ContainsFunc(p.Skipped, func(s Skipped) bool { return strings.HasPrefix(lost, s.Path) }) {
			return fmt.Sprintf("%s is left out and not reported: %v", lost, p.Skipped)
		}
	}
	var trees [2]string
	for i, sb := range []sandbox.Sandbox{agent, grader} {
		if err := sb.WriteFile(t.Context(), "/srv/manifest.py", "", strings.NewReader(readText(t, "testdata/repos/manifest.py"))); err != nil {
			return err.Error()
		}
		trees[i] = must(t, sb, "", "/", "python3 /srv/manifest.py "+shell.Quote(dir)+args)
	}
	if trees[0] != trees[1] {
		return fmt.Sprintf("the trees differ:\n%s\n%s", trees[0], trees[1])
	}
	return "exact"
}

// readMatrix joins our rows with today's results, both by name: a name without
// a row fails the test.
func readMatrix(t *testing.T) []matrixRow {
	scripts := map[string]matrixRow{}
	for block := range strings.SplitSeq("\n"+readText(t, "testdata/matrix.txt"), "\n-- ") {
		name, body, ok := strings.Cut(block, " --\n")
		if !ok {
			continue
		}
		row := matrixRow{keys: map[string]string{}}
		for line := range strings.Lines(body) {
			key, value, ok := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "#"), ": ")
			if strings.HasPrefix(line, "#") && ok {
				row.keys[key] = value
				continue
			}
			row.script += line
		}
		scripts[name] = row
	}
	rows := ownRows(scripts)
	verdict := regexp.MustCompile(`(scaleswe|swebench): applied=(\w+) tree=(\w+)`)
	for line := range strings.Lines(readText(t, "testdata/capture_apply_matrix.txt")) {
		name, _, _ := strings.Cut(line, "diffrc=")
		name = strings.TrimSpace(name)
		row, ok := scripts[name]
		if !ok {
			t.Errorf("no row of ours for %q", name)
			continue
		}
		row.name = name
		var today []string
		for _, m := range verdict.FindAllStringSubmatch(line, -1) {
			word := m[3]
			if m[2] == "False" {
				word = "refused"
			}
			today = append(today, m[1]+" "+strings.Replace(word, "DIFF", "wrong", 1))
		}
		row.today = strings.Join(today, ", ")
		rows = append(rows, row)
	}
	return rows
}

// ownRows are those that the experiments did not have.
func ownRows(scripts map[string]matrixRow) []matrixRow {
	var rows []matrixRow
	for name, row := range scripts {
		if strings.HasPrefix(name, "own ") {
			row.name, row.today = name, "not tried"
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b matrixRow) int { return strings.Compare(a.name, b.name) })
	return rows
}
