package swebench

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Markers of the harness in a test log.
const (
	startMark = ">>>>> Start Test Output"
	endMark   = ">>>>> End Test Output"
	exitMark  = ">>>>> Test Exit Code: "
)

// specsJSON holds, for the 12 repositories of SWE-bench Verified and each of
// their versions, what an evaluation of harness 4.1.0 runs.
//
//go:embed specs.json
var specsJSON []byte

// A spec is what differs between repositories and versions.
type spec struct {
	TestCmd      string   `json:"test_cmd"`
	Install      string   `json:"install"`
	EvalCommands []string `json:"eval_commands"`
}

var specs = sync.OnceValues(func() (map[string]map[string]spec, error) {
	var m map[string]map[string]spec
	err := json.Unmarshal(specsJSON, &m)
	return m, err
})

// scriptV4 is the evaluation script of harness 4.1.0 for a Python repository.
func scriptV4(repo, version, base, testPatch string) (string, error) {
	table, err := specs()
	if err != nil {
		return "", err
	}
	s, ok := table[repo][version]
	if !ok {
		return "", fmt.Errorf("no facts about %s version %q", repo, version)
	}
	const heredoc = "EOF_114329324912"
	activate := []string{"source /opt/miniconda3/bin/activate", "conda activate testbed"}
	reset := "git checkout " + base + " " + strings.Join(modifiedFiles(testPatch), " ")
	lines := []string{"#!/bin/bash", "set -uxo pipefail"}
	lines = append(lines, activate...)
	lines = append(lines, "cd /testbed")
	lines = append(lines, s.EvalCommands...)
	lines = append(lines,
		"git config --global --add safe.directory /testbed",
		"cd /testbed",
		"git status",
		"git show",
		"git -c core.fileMode=false diff "+base)
	lines = append(lines, activate...)
	if s.Install != "" {
		lines = append(lines, s.Install)
	}
	lines = append(lines,
		reset,
		"git apply -v - <<'"+heredoc+"'\n"+testPatch+"\n"+heredoc,
		": '"+startMark+"'",
		strings.Join(append([]string{s.TestCmd}, directives(repo, testPatch)...), " "),
		": '"+endMark+"'",
		reset)
	return strings.Join(lines, "\n") + "\n", nil
}

// scriptV5 is a row's own script as harness 5 runs it: with the tests' exit
// status in the log.
func scriptV5(script string) string {
	lines := []string{"#!/bin/bash", "set -uxo pipefail"}
	done := false
	for line := range strings.SplitSeq(strings.TrimSuffix(script, "\n"), "\n") {
		if bare := strings.TrimSpace(line); bare == "#!/bin/bash" || bare == "set -uxo pipefail" {
			continue
		}
		if done || !strings.Contains(line, endMark) {
			lines = append(lines, line)
			continue
		}
		done = true
		lines = append(lines, "SWEBENCH_TEST_EXIT_CODE=$?", line, `echo "`+exitMark+`$SWEBENCH_TEST_EXIT_CODE"`)
	}
	return strings.Join(lines, "\n") + "\n"
}

// modifiedFiles are the paths that a patch finds in the base: of changed,
// deleted and renamed files, not of new ones.
func modifiedFiles(patch string) []string {
	var files []string
	current := -1 // of the file whose header is being read
	for line := range strings.SplitSeq(patch, "\n") {
		switch {
		case strings.HasPrefix(line, "diff --git a/"):
			both := strings.TrimPrefix(line, "diff --git a/")
			old, _, _ := strings.Cut(both, " b/")
			files, current = append(files, old), len(files)
		case strings.HasPrefix(line, "@@"):
			current = -1
		case current < 0:
		case strings.HasPrefix(line, "new file mode"), strings.HasPrefix(line, "--- /dev/null"):
			files, current = files[:current], -1
		case strings.HasPrefix(line, "--- a/"):
			files[current] = strings.TrimSuffix(strings.TrimPrefix(line, "--- a/"), "\t")
		case strings.HasPrefix(line, "rename from "):
			files[current] = strings.TrimPrefix(line, "rename from ")
		}
	}
	return files
}

var (
	newPath  = regexp.MustCompile(`diff --git a/.* b/(.*)`)
	notTests = []string{".json", ".png", ".csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml"}
)

// directives are the tests to run: the files that a test patch names.
func directives(repo, patch string) []string {
	var out []string
	for _, m := range newPath.FindAllStringSubmatch(patch, -1) {
		path := m[1]
		if slices.ContainsFunc(notTests, func(suffix string) bool { return strings.HasSuffix(path, suffix) }) {
			continue
		}
		if repo == "django/django" {
			path = strings.TrimPrefix(strings.TrimSuffix(path, ".py"), "tests/")
			path = strings.ReplaceAll(path, "/", ".")
		}
		out = append(out, path)
	}
	return out
}
