package agentrl

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// failureCodes are the values of failure.go's Code constants.
func failureCodes(t *testing.T) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "failure.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if ok && strings.HasPrefix(spec.Names[0].Name, "Code") && len(spec.Values) == 1 {
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			values = append(values, value)
		}
		return true
	})
	return values
}

// TestGuideListsEveryCode holds the table of examples/guide/failures.md against
// the closed list, with class and whether to retry.
func TestGuideListsEveryCode(t *testing.T) {
	text, err := os.ReadFile("examples/guide/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## Codes")
	table, _, _ = strings.Cut(table, "## What to do")
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| (\\w+) \\| (yes|no) \\| \\S.* \\|$").FindAllStringSubmatch(table, -1) {
		if rows[m[1]] != "" {
			t.Errorf("code %s has two rows", m[1])
		}
		rows[m[1]] = m[2] + " " + m[3]
	}
	all := failureCodes(t)
	for _, code := range all {
		f := failureOfCode(code)
		want := fmt.Sprintf("%s %s", f.Class, map[bool]string{true: "yes", false: "no"}[f.Retryable])
		if f.Code != code || rows[code] != want {
			t.Errorf("code %s: the guide says %q, want %q", code, rows[code], want)
		}
		delete(rows, code)
	}
	if len(rows) > 0 || len(all) < 30 {
		t.Errorf("the guide has codes that are none: %v; there are %d", rows, len(all))
	}
	t.Logf("figure: %d codes, each with class, retry and what to do", len(all))
}

// TestEveryCodeCanArise: a code that no error is classified as would be waited
// for in vain.
func TestEveryCodeCanArise(t *testing.T) {
	source, err := os.ReadFile("failure.go")
	if err != nil {
		t.Fatal(err)
	}
	list, classifier, _ := strings.Cut(string(source), "func classify(")
	for _, m := range regexp.MustCompile(`(?m)^\t(Code\w+) += "`).FindAllStringSubmatch(list, -1) {
		if !regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(classifier) {
			t.Errorf("%s is listed, and no error is classified as it", m[1])
		}
	}
}

// TestGuideListsEveryAbortReason: the reasons that abortReason words.
func TestGuideListsEveryAbortReason(t *testing.T) {
	text, err := os.ReadFile("examples/guide/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range failureCodes(t) {
		err := error(&StageError{Stage: StageParse, Err: fmt.Errorf("x")})
		for _, known := range causes {
			if known.code == code {
				err = known.err
			}
		}
		reason, _, _ := strings.Cut(abortReason(err), ":")
		if !regexp.MustCompile("(?m)^\\| `" + reason + "(:[^`]*)?` \\|").Match(text) {
			t.Errorf("code %s: the guide has no row for the abort reason %q", code, reason)
		}
	}
}

// TestGuideLinksLeadSomewhere follows the relative links of README and guide.
func TestGuideLinksLeadSomewhere(t *testing.T) {
	pages, err := filepath.Glob("examples/*/*.md")
	if err != nil {
		t.Fatal(err)
	}
	links := 0
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`).FindAllStringSubmatch(string(text), -1) {
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s: %v", page, err)
			}
		}
	}
	if len(pages) < 5 || links < 6 {
		t.Errorf("%d pages, %d links", len(pages), links)
	}
}
