package swe

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/local"
)

const spaceRepo = "mkdir -p /srv/w; cd /srv/w\n" + matrixRepo

func spaceBox(t testing.TB) sandbox.Sandbox {
	t.Helper()
	sb := newBox(t)
	bash(t, sb, "", "/", spaceRepo)
	return sb
}

// TestPrepareFails: a set-up that fails is an error with its output.
func TestPrepareFails(t *testing.T) {
	for _, c := range []struct {
		name, want string
		w          Workspace
	}{
		{"step", "fatal: bad", Workspace{Steps: []Step{{Name: "pre_commands", Script: "echo fatal: bad >&2; false; true"}}}},
		{"step out of time", "ran out of time", Workspace{Steps: []Step{{Name: "pre_commands", Script: "sleep 60", Limit: time.Second}}}},
		{"tool", "no such-tool", Workspace{Tools: []string{"such-tool"}}},
		{"wrong base", "the row wants 0123456789", Workspace{Commit: "0123456789"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.w.Workdir = "/srv/w"
			err := c.w.Prepare(t.Context(), spaceBox(t))
			var setup *SetupError
			if !errors.As(err, &setup) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want a SetupError with %q", err, c.want)
			}
		})
	}
}

// TestEnvironment: env, PATH prefix and shell reach steps, and the prefix the
// agent's shells.
func TestEnvironment(t *testing.T) {
	sb := spaceBox(t)
	must(t, sb, "", "/", "mkdir -p /opt/env/bin; printf '#!/bin/sh\\necho mine\\n' >/opt/env/bin/python; chmod 755 /opt/env/bin/python")
	w := &Workspace{
		Workdir: "/srv/w", Env: map[string]string{"KEY": "va lue"}, PathPrefix: []string{"/opt/env/bin"}, Shell: "bash -u",
		Steps: []Step{{Name: "pre_commands", Script: `[ "$KEY" = "va lue" ] && [ "$(python)" = mine ] && [[ $- == *u* ]]`}},
	}
	if err := w.Prepare(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	if got := must(t, sb, sandbox.AgentUser, "/", "HOME=/home/agent bash -ic python 2>/dev/null"); !strings.Contains(got, "mine") {
		t.Errorf("the agent's python says %q", got)
	}
	g, err := w.Grading(t.Context(), spaceBox(t))
	if err == nil {
		t.Errorf("an image without the interpreter is taken: %v", g.Tools)
	}
}

// TestNoSnapshot: a capture without its base is an error and no empty patch.
func TestNoSnapshot(t *testing.T) {
	_, err := (&Workspace{Workdir: "/srv/w"}).Diff(t.Context(), spaceBox(t))
	var capture *CaptureError
	if !errors.As(err, &capture) {
		t.Errorf("%v, want a CaptureError", err)
	}
}

// TestScrub: commits, refs and objects beside HEAD's own history are gone, tags
// of ancestors stay, and the repository still works for the agent.
func TestScrub(t *testing.T) {
	sb := spaceBox(t)
	bash(t, sb, "", "/srv/w", `set -e
git config user.name b; git config user.email b@b
git tag -a v1 -m v1; echo 2 >two; git add -A; git commit -qm two; git tag v2
echo SECRET >fix; git add -A; git commit -qm "the fix"; git tag v3; git branch upstream-fix
git stash -q 2>/dev/null || :; git remote add origin https://example.invalid/r.git; git update-ref refs/remotes/origin/main HEAD; git update-ref refs/notes/x HEAD
echo dangling | git hash-object -w --stdin >/dev/null; git pack-refs --all; git gc -q; git reset -q --hard v2; echo x >FETCH_HEAD`)
	w := &Workspace{Workdir: "/srv/w", Scrub: true}
	if err := w.Prepare(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	bash(t, sb, sandbox.AgentUser, "/srv/w", `set -e
[ "$(git tag | tr '\n' ' ')" = "v1 v2 " ]; [ -z "$(git remote)$(git branch -r)" ]; [ "$(git branch --show-current)" = main ]
[ "$(git rev-list --all | wc -l)" = 2 ]; git reflog | grep . && exit 1
git cat-file --batch-check --batch-all-objects | awk '{print $1}' | git cat-file --batch | grep -a SECRET && exit 1
git fsck --full 2>/dev/null; git status --short; git describe --tags >/dev/null; echo y >>two; git -c user.name=a -c user.email=a@a commit -qam agent`)
	p, err := w.Diff(t.Context(), sb)
	if err != nil || !p.Flags.HeadMoved || !strings.Contains(p.Scrub, "commits outside HEAD 0; unreachable objects 0") {
		t.Errorf("%+v, %v", p, err)
	}
	t.Logf("figure: %s", p.Scrub)
}

var indexLine = regexp.MustCompile(`(?m)^index .*\n`)

// TestDrift: on another base a patch is applied by a later tier or not at all,
// and never half.
func TestDrift(t *testing.T) {
	agent := spaceBox(t)
	w := &Workspace{Workdir: "/srv/w"}
	if err := w.Prepare(t.Context(), agent); err != nil {
		t.Fatal(err)
	}
	bash(t, agent, sandbox.AgentUser, "/srv/w", `sed -i 's/line 20$/LINE 20/' big.txt; sed -i 's/a - b/a + b/' pkg/calc.py`)
	p, err := w.Diff(t.Context(), agent)
	if err != nil {
		t.Fatal(err)
	}
	foreign := Patch{Bytes: []byte(strings.TrimSuffix(string(p.Bytes), "\n"))}
	for _, c := range []struct {
		name, drift, tier string
		patch             Patch
	}{
		{"none", ":", "exact", p},
		{"elsewhere", "echo more >>pkg/__init__.py", "exact", p},
		{"lines moved", `sed -i '1i\new first line' big.txt`, "exact", p},
		{"context changed", `sed -i 's/line 17$/line seventeen/' big.txt`, "3way", p},
		{"context changed, nothing to merge with", `sed -i 's/line 17$/line seventeen/' big.txt`, "fuzz", Patch{Bytes: indexLine.ReplaceAll(p.Bytes, nil)}},
		{"neighbour changed", `sed -i 's/line 19$/line nineteen/' big.txt`, "", p},
		{"conflict", `sed -i 's/a - b/a * b/' pkg/calc.py`, "", p},
		{"foreign, last newline lost", ":", "exact", foreign},
		{"foreign, applied already", `sed -i 's/line 20$/LINE 20/' big.txt; sed -i 's/a - b/a + b/' pkg/calc.py`, "3way", foreign},
		{"bytes changed on the way", ":", "", Patch{Bytes: []byte(strings.ReplaceAll(string(p.Bytes), "LINE 20", "LINE 21")), BaseTree: p.BaseTree, ResultTree: p.ResultTree}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			sb := spaceBox(t)
			bash(t, sb, "", "/srv/w", c.drift)
			before := must(t, sb, "", "/srv/w", "cat big.txt pkg/calc.py | sha256sum")
			g, err := w.Grading(t.Context(), sb)
			if err != nil {
				t.Fatal(err)
			}
			report, err := g.Apply(t.Context(), c.patch, ApplyOptions{})
			if err != nil || report.Tier != c.tier {
				t.Fatalf("%+v, %v, want tier %q", report, err, c.tier)
			}
			if moved := len(report.Drifted); (moved == 1) != (report.Drift && c.patch.BaseList != nil) || moved > 1 {
				t.Errorf("drift %v, between %v", report.Drift, report.Drifted)
			}
			after := must(t, sb, "", "/srv/w", "cat big.txt pkg/calc.py | sha256sum; ls | grep -c rej || :")
			if c.tier == "" && !strings.HasPrefix(after, before) {
				t.Error("a rejected patch changed files")
			}
			if want := must(t, sb, "", "/srv/w", "grep -c 'LINE 20' big.txt || :"); c.tier != "" && strings.TrimSpace(want) != "1" {
				t.Error("the patch is not in the files")
			}
		})
	}
}

// TestOtherIsolations: the same procedure where commands run as one user, and
// where a sandbox is a directory of the host.
func TestOtherIsolations(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	for _, way := range []local.Isolation{local.Plain, local.UserNamespace} {
		t.Run(string(way), func(t *testing.T) {
			t.Parallel()
			provider := &local.Provider{Want: way, Dir: t.TempDir()}
			if got, err := provider.Isolation(); got != way {
				t.Skipf("this machine gives %s: %v", got, err)
			}
			boxOf := func() sandbox.Sandbox {
				sb, err := provider.Create(t.Context(), sandbox.Spec{})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { sb.Close() })
				must(t, sb, "", "/", "mkdir -p "+sandbox.Path("/srv/w"))
				bash(t, sb, "", "/srv/w", matrixRepo)
				return sb
			}
			w := &Workspace{Workdir: "/srv/w", Scrub: true, Steps: []Step{{Name: "pre_commands", Script: "echo pre >pre.txt"}}}
			agent := boxOf()
			if err := w.Prepare(t.Context(), agent); err != nil {
				t.Fatal(err)
			}
			bash(t, agent, sandbox.AgentUser, "/srv/w", "sed -i 's/a - b/a + b/' pkg/calc.py; rm big.txt; git add -A")
			p, err := w.Diff(t.Context(), agent)
			if err != nil {
				t.Fatal(err)
			}
			grader := boxOf()
			g, err := w.Grading(t.Context(), grader)
			if err != nil {
				t.Fatal(err)
			}
			report, err := g.Apply(t.Context(), p, ApplyOptions{})
			if err != nil || report.Tier != "exact" || report.Drift {
				t.Fatalf("%+v, %v", report, err)
			}
			must(t, grader, "", "/srv/w", "grep -q 'a + b' pkg/calc.py && [ ! -e big.txt ] && [ -e pre.txt ]")
		})
	}
}
