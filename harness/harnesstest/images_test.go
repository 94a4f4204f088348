package harnesstest_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/servertest"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/claudecode"
	"github.com/agentrl-go/agentrl/harness/codex"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/harness/mini"
	"github.com/agentrl-go/agentrl/harness/pi"
	"github.com/agentrl-go/agentrl/internal/cases"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/docker"
	"github.com/agentrl-go/agentrl/sandbox/local/localtest"
)

// poor boots a sandbox of an image that testdata/fetch/roots.sh makes.
func poor(t *testing.T, image string) sandbox.Sandbox {
	t.Helper()
	return localtest.Boot(t, "", sandbox.Spec{Image: cases.Cache(t, "roots/"+image+".tar", "fetch-roots")})
}

// solve installs the harness and has it write a file.
func solve(t *testing.T, sb sandbox.Sandbox, h harness.Harness) {
	t.Helper()
	if err := h.Install(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	r := servertest.New(t, servertest.Options{Checkpoint: filepath.Join(cases.Root(), "testdata/tokenizer"), Policy: func(prompt string) string {
		if harnesstest.Turn(prompt) == 0 {
			return harnesstest.Call(prompt, "echo fixed >/tmp/answer.txt")
		}
		return "Done."
	}})
	report, err := h.Run(t.Context(), sb, harness.Job{
		Workdir: "/srv", Prompt: "Fix it.", BaseURL: "http://127.0.0.1:" + r.Port, Token: r.Session.Token, Model: "policy", MaxContext: 200_000,
	})
	if err != nil || report.Outcome != harness.Finished {
		t.Fatalf("Run: %v, %+v", err, report)
	}
	if out, err := sandbox.Output(t.Context(), sb, sandbox.Cmd{Script: "cat /tmp/answer.txt"}); out != "fixed" {
		t.Errorf("answer.txt: %q, %v", out, err)
	}
	t.Logf("figure: %s: %s, %s", t.Name(), report.Version, report.Outcome)
}

func TestImageWithoutBashAndUseradd(t *testing.T) {
	t.Run("mini", func(t *testing.T) { solve(t, poor(t, "busybox"), mini.New(mini.Options{})) })
	t.Run("codex", func(t *testing.T) {
		h, err := codex.New(codex.Options{Program: asset(t, "codex-0.171.0-linux-x64.tgz")})
		solve(t, poor(t, "busybox"), made(t, h, err))
	})
	t.Run("claude_code is refused", func(t *testing.T) {
		h, err := claudecode.New(claudecode.Options{})
		err = made(t, h, err).Install(t.Context(), poor(t, "busybox"))
		checkRefused(t, err, "neither bash nor zsh")
	})
}

// checkRefused checks an Install that no retry helps, and what it says.
func checkRefused(t *testing.T, err error, says ...string) {
	t.Helper()
	var refused *harness.InstallError
	if !errors.As(err, &refused) || !refused.Permanent() {
		t.Errorf("Install: %v, want an InstallError", err)
		return
	}
	for _, want := range says {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q does not say %q", err, want)
		}
	}
	t.Logf("figure: %v", err)
}

func TestImageWithMusl(t *testing.T) {
	options := claudecode.Options{Program: asset(t, "claude-2.1.332-linux-x64.tgz")}
	t.Run("glibc's program is refused", func(t *testing.T) {
		h, err := claudecode.New(options)
		err = made(t, h, err).Install(t.Context(), poor(t, "musl"))
		checkRefused(t, err, "built for glibc", "musl (/lib/ld-musl-", "AGENTRL_CC_MUSL_TARBALL")
	})
	t.Run("claude_code", func(t *testing.T) {
		options.Musl = asset(t, "claude-2.1.332-linux-x64-musl.tgz")
		h, err := claudecode.New(options)
		solve(t, poor(t, "musl"), made(t, h, err))
	})
}

// TestImageWithOldGlibc: the C libraries of CentOS 7 and 6, as the dynamic
// loader sees them. What cannot run there is refused before it is uploaded.
func TestImageWithOldGlibc(t *testing.T) {
	claude := func(t *testing.T, version string) harness.Harness {
		h, err := claudecode.New(claudecode.Options{Program: asset(t, "claude-"+version+"-linux-x64.tgz")})
		return made(t, h, err)
	}
	for _, version := range []string{"2.1.332", "2.1.197"} {
		t.Run("claude_code "+version+" on 2.17", func(t *testing.T) { solve(t, poor(t, "glibc-2.17"), claude(t, version)) })
	}
	t.Run("claude_code on 2.12 is refused", func(t *testing.T) {
		sb := poor(t, "glibc-2.12")
		checkRefused(t, claude(t, "2.1.332").Install(t.Context(), sb), "the image's glibc is 2.12, and claude needs 2.17", "mini")
		if out, err := sandbox.Output(t.Context(), sb, sandbox.Cmd{Script: "ls " + harness.Home + " 2>&1; :"}); !strings.Contains(out, "No such file") {
			t.Errorf("something was put into the image: %q, %v", out, err)
		}
	})
	t.Run("codex on 2.12", func(t *testing.T) {
		h, err := codex.New(codex.Options{Program: asset(t, "codex-0.171.0-linux-x64.tgz")})
		solve(t, poor(t, "glibc-2.12"), made(t, h, err))
	})
	t.Run("node on 2.17 is refused", func(t *testing.T) {
		h, err := pi.New(pi.Options{Package: asset(t, "pi-0.74.2.tgz"), Node: asset(t, "node-22.23.5-linux-x64.tgz")})
		checkRefused(t, made(t, h, err).Install(t.Context(), poor(t, "glibc-2.17")), "the image's glibc is 2.17, and node needs 2.28")
	})
}

// TestPreparedImage: a container committed after Install uploads nothing any more.
func TestPreparedImage(t *testing.T) {
	h, err := codex.New(codex.Options{Program: asset(t, "codex-0.171.0-linux-x64.tgz")})
	made(t, h, err)
	p := containers(t)
	base, err := p.Create(t.Context(), sandbox.Spec{Image: "agentrl-test:debian"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { base.Close() })
	cold := harnesstest.Installed(t, h, base)
	const image = "agentrl-test:prepared"
	if err := base.(*docker.Sandbox).Commit(t.Context(), image); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Forget(context.Background(), image); err != nil {
			t.Error(err)
		}
	})
	sb, err := p.Create(t.Context(), sandbox.Spec{Image: image})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	warm := harnesstest.Installed(t, h, sb)
	if warm.Bytes != 0 {
		t.Errorf("a prepared image is sent %d bytes", warm.Bytes)
	}
	t.Logf("figure: install cold %.1f s and %.0f MB, prepared image %.1f s and 0 MB", cold.Took.Seconds(), float64(cold.Bytes)/1e6, warm.Took.Seconds())
}
