package swe

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrl-go/agentrl/internal/shell"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/docker"
	"github.com/agentrl-go/agentrl/sandbox/local"
)

var boxes = sync.OnceValue(func() *local.Provider { return &local.Provider{} })

// newBox boots a sandbox of this machine's own image. It needs root.
func newBox(t testing.TB) sandbox.Sandbox {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("local sandboxes with users need root")
	}
	sb, err := boxes().Create(t.Context(), sandbox.Spec{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	return sb
}

// must runs a script as a user and fails the test unless it exits with 0.
func must(t testing.TB, sb sandbox.Sandbox, user, dir, script string) string {
	t.Helper()
	res, err := sb.Exec(t.Context(), sandbox.Cmd{Script: script, User: user, Dir: dir})
	if err != nil || !res.Ok() {
		t.Fatalf("%s: %v, %+v\n%s%s", script, err, res.Code, res.Stdout, res.Stderr)
	}
	return string(res.Stdout)
}

// bash runs a script of the corpus, which is written for bash.
func bash(t testing.TB, sb sandbox.Sandbox, user, dir, script string) {
	t.Helper()
	must(t, sb, user, dir, "exec bash -c "+shell.Quote(script))
}

// A repoCase is one case of testdata/repos.
type repoCase struct {
	dir, workdir  string
	drop, protect []string
	solved        bool
	pre           string
	want          struct {
		Base   string `json:"base_tree"`
		Result string `json:"result_tree"`
		Today  struct {
			Apply  string
			Solved int
		} `json:"slime_today"`
	}
}

const caseRoot = "/srv/case"

func readCase(t testing.TB, dir string) repoCase {
	t.Helper()
	c := repoCase{dir: dir, solved: true}
	for line := range strings.Lines(readText(t, dir+"/meta")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch key {
		case "workdir":
			c.workdir = filepath.Clean(caseRoot + "/" + value)
		case "drop":
			c.drop = append(c.drop, value)
		case "protect":
			c.protect = append(c.protect, value)
		case "expect_solved":
			c.solved = value == "1"
		}
	}
	if _, err := os.Stat(dir + "/pre.sh"); err == nil {
		c.pre = readText(t, dir+"/pre.sh")
	}
	if err := json.Unmarshal([]byte(readText(t, dir+"/expected.json")), &c.want); err != nil {
		t.Fatal(err)
	}
	return c
}

func readText(t testing.TB, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// box boots a sandbox with the case's repository.
func (c repoCase) box(t testing.TB, boot func(testing.TB) sandbox.Sandbox) sandbox.Sandbox {
	t.Helper()
	sb := boot(t)
	must(t, sb, "", "/", "mkdir -p "+caseRoot)
	bash(t, sb, "", caseRoot, readText(t, "testdata/repos/lib.sh")+readText(t, c.dir+"/setup.sh"))
	return sb
}

func (c repoCase) workspace() *Workspace {
	w := &Workspace{Workdir: c.workdir, Statement: "fix it", Protected: c.protect}
	if c.pre != "" {
		w.Steps = []Step{{Name: "pre_commands", Script: c.pre}}
	}
	return w
}

// TestRepositories captures in one sandbox, applies in a second, and grades there.
func TestRepositories(t *testing.T) { testRepositories(t, newBox) }

// TestRepositoriesDocker is the same in containers.
func TestRepositoriesDocker(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	p := docker.New(docker.Options{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { p.Close() })
	if err := p.Ping(t.Context()); err != nil {
		t.Skipf("%v; testdata/fetch/docker.sh starts one", err)
	}
	testRepositories(t, func(t testing.TB) sandbox.Sandbox {
		sb, err := p.Create(t.Context(), sandbox.Spec{Image: "agentrl-test:debian", Egress: sandbox.EgressOff})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { sb.Close() })
		return sb
	})
}

func testRepositories(t *testing.T, boot func(testing.TB) sandbox.Sandbox) {
	dirs, err := filepath.Glob("testdata/repos/cases/*")
	if err != nil || len(dirs) == 0 {
		t.Fatal("no cases", err)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			testRepository(t, readCase(t, dir), boot)
		})
	}
	t.Logf("figure: %d repositories: trees, application, grade", len(dirs))
}

func testRepository(t *testing.T, c repoCase, boot func(testing.TB) sandbox.Sandbox) {
	w := c.workspace()
	agent := c.box(t, boot)
	if err := w.Prepare(t.Context(), agent); err != nil {
		t.Fatal("Prepare:", err)
	}
	bash(t, agent, sandbox.AgentUser, c.workdir, "umask 022\n"+readText(t, c.dir+"/agent.sh")+"\n:")
	p, err := w.Diff(t.Context(), agent)
	if err != nil {
		t.Fatal("Diff:", err)
	}
	if p.BaseTree != c.want.Base || p.ResultTree != c.want.Result {
		t.Errorf("trees %s %s, want %s %s\nskipped %v", p.BaseTree, p.ResultTree, c.want.Base, c.want.Result, p.Skipped)
	}
	if res, err := agent.Exec(t.Context(), sandbox.Cmd{Script: "ls /tmp/agentrl_pwned"}); err != nil || res.Ok() {
		t.Error("a command that the agent planted was run", err)
	}

	grader := c.box(t, boot)
	g, err := w.Grading(t.Context(), grader)
	if err != nil {
		t.Fatal("Grading:", err)
	}
	report, err := g.Apply(t.Context(), p, ApplyOptions{})
	if err != nil || report.Tier != "exact" || report.Drift || report.Tree != c.want.Result {
		t.Fatalf("Apply: %+v, %v", report, err)
	}
	c.compareManifest(t, grader)
	if err := g.Reset(t.Context()); err != nil {
		t.Fatal("Reset:", err)
	}
	if report, err = g.Apply(t.Context(), p, ApplyOptions{Protected: c.protect}); err != nil || report.Tier != "exact" {
		t.Fatalf("Apply with protection: %+v, %v", report, err)
	}
	res, err := grader.Exec(t.Context(), sandbox.Cmd{Script: readText(t, c.dir+"/grade.sh"), User: sandbox.AgentUser, Dir: c.workdir})
	if err != nil || res.Ok() != c.solved {
		t.Errorf("solved %v, want %v: %v\n%s", res.Ok(), c.solved, err, res.Stderr)
	}
}

// compareManifest compares the grader's work tree with the case's list.
func (c repoCase) compareManifest(t *testing.T, sb sandbox.Sandbox) {
	t.Helper()
	script := readText(t, "testdata/repos/manifest.py")
	if err := sb.WriteFile(t.Context(), "/srv/manifest.py", "", strings.NewReader(script)); err != nil {
		t.Fatal(err)
	}
	args := ""
	for _, glob := range c.drop {
		args += " --drop " + shell.Quote(glob)
	}
	got := must(t, sb, "", "/", "python3 /srv/manifest.py "+shell.Quote(c.workdir)+args)
	want := readText(t, c.dir+"/expected_tree.json")
	if diff := cmp.Diff(indent(want), indent(got)); diff != "" {
		t.Errorf("work tree (-want +got):\n%s", diff)
	}
}

func indent(s string) string {
	var b bytes.Buffer
	if json.Indent(&b, []byte(s), "", " ") != nil {
		return s
	}
	return b.String()
}
