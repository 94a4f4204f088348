package agentrl_test

import (
	"context"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/adaptertest"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/local"
	"github.com/agentrl-go/agentrl/swe/scaleswe"
)

// mess is what an agent leaves beside its fix: a process that outlives it, a
// file in /etc where it may, a file that git ignores.
const mess = `echo fixed >answer.txt
echo planted >ignored.log
(setsid sh -c 'while :; do echo left behind >>/tmp/agentrl-still-alive; sleep 0.2; done' >/dev/null 2>&1 &)
`

// grade is solved when the fix is there and nothing of the mess.
const grade = `[ "$(cat answer.txt)" = fixed ] && [ ! -e ignored.log ] && [ ! -e /etc/agentrl-planted ] && [ ! -e /tmp/agentrl-still-alive ]`

func TestEvaluationSandboxIsClean(t *testing.T) {
	provider := &local.Provider{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler)}
	isolation, lacks := provider.Isolation()
	if isolation == local.Plain {
		t.Skipf("only a plain directory here: %v", lacks)
	}
	repo := newRepo(t)
	before := listing(t, "/etc")
	g := &agentrl.Generator{
		Protocol: scaleswe.New(scaleswe.Options{}), Sandboxes: provider, Adapter: &adaptertest.Fake{}, Logger: slog.New(slog.DiscardHandler),
		Harness: &harnesstest.Fake{OnInstall: sandbox.EnsureUser, OnRun: func(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
			if _, err := sandbox.Output(ctx, sb, sandbox.Cmd{Script: "echo planted >/etc/agentrl-planted"}); err != nil {
				return harness.Report{}, err
			}
			_, err := sandbox.Output(ctx, sb, sandbox.Cmd{Script: mess, User: sandbox.AgentUser, Dir: job.Workdir})
			return harness.Report{Outcome: harness.Finished}, err
		}},
	}
	samples, err := g.Generate(t.Context(), agentrl.Sample{Metadata: map[string]any{
		"instance_id": "mess", "problem_statement": "fix it", "image": local.HostImage, "workdir": repo, "eval_cmd": grade,
	}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if s := samples[0]; s.Status != agentrl.Completed || *s.Reward != 1 {
		t.Errorf("%s, reward %v, metadata %v: %v", s.Status, *s.Reward, s.Metadata, s.Err)
	}
	if after := listing(t, "/etc"); before != after {
		t.Errorf("the host's /etc changed:\n%s\n%s", before, after)
	}
	if out, _ := exec.Command("pgrep", "-f", "agentrl-still-alive").Output(); len(out) > 0 {
		t.Errorf("a process of the agent lives on: %s", out)
	}
	t.Logf("figure: isolation %s: process, /etc file and ignored file are gone in the evaluation; host's /etc unchanged", isolation)
}

// newRepo makes a repository in a directory that a sandbox of this machine's
// own root has too.
func newRepo(t *testing.T) string {
	t.Helper()
	repo, err := os.MkdirTemp("/var/tmp", "agentrl-clean-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(repo) })
	if err := os.Chmod(repo, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"answer.txt": "wrong\n", ".gitignore": "ignored.log\n"} {
		if err := os.WriteFile(filepath.Join(repo, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("sh", "-c", "git init -q && git add -A && git -c user.name=t -c user.email=t@t.invalid commit -qm base")
	cmd.Dir = repo
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return repo
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}
