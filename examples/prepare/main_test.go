//go:build linux

package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/internal/cases"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/docker"
	"github.com/agentrl-go/agentrl/sandbox/e2b"
	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
)

// environ configures an agent: the real Codex where AGENTRL_CLIS is set, else
// a small program in its place, which prints a version like any.
func environ(t *testing.T) []string {
	t.Helper()
	program := "/usr/bin/true"
	if os.Getenv("AGENTRL_CLIS") != "" {
		program = filepath.Join(cases.Cache(t, "harness", "harness-assets"), "codex-0.171.0-linux-x64.tgz")
	} else if _, err := os.Stat(program); err != nil {
		t.Skip(err)
	}
	return []string{"SWE_AGENT=codex", "SLIME_AGENT_CODEX_TARBALL=" + program}
}

func agent(t *testing.T, environ []string) harness.Harness {
	t.Helper()
	cfg, err := agentrl.ConfigFromEnv(environ)
	if err != nil {
		t.Fatal(err)
	}
	h, err := agentOf(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// compare logs and checks what an Install takes in an image without the agent
// and in one with it.
func compare(t *testing.T, h harness.Harness, p sandbox.Provider, base, prepared string) {
	t.Helper()
	install := func(image string) harnesstest.Installation {
		sb, err := p.Create(t.Context(), sandbox.Spec{Image: image})
		if err != nil {
			t.Fatal(err)
		}
		defer sb.Close()
		return harnesstest.Installed(t, h, sb)
	}
	cold, warm := install(base), install(prepared)
	if cold.Bytes == 0 || warm.Bytes != 0 {
		t.Errorf("%d bytes are sent to the base and %d to what was prepared, want all and none", cold.Bytes, warm.Bytes)
	}
	t.Logf("figure: install in the base %.1f s and %.1f MB, in what was prepared %.1f s and 0 MB", cold.Took.Seconds(), float64(cold.Bytes)/1e6, warm.Took.Seconds())
}

// TestTemplate builds the directory's template, by its own RUN line, at the
// double of E2B.
func TestTemplate(t *testing.T) {
	if err := e2btest.CanRun(); err != nil {
		t.Skip(err)
	}
	env := environ(t)
	dir, err := os.MkdirTemp("/var/tmp", "agentrl-template-") // the double's machines have a /tmp of their own
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := run(t.Context(), env, options{context: dir}, io.Discard); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(dir + "/e2b.Dockerfile")
	_, step, ok := strings.Cut(string(file), "\nRUN ")
	if err != nil || !ok || !strings.Contains(string(file), "\nCOPY "+tarball+" /tmp/"+tarball+"\n") {
		t.Fatalf("e2b.Dockerfile: %q, %v", file, err)
	}
	srv, err := e2btest.Start(e2btest.Options{Templates: map[string]string{"prepared": "cp " + dir + "/" + tarball + " /tmp && " + step}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Close() })
	p, err := e2b.New(e2b.Options{APIKey: srv.Key(), APIURL: srv.URL, SandboxURL: srv.URL, Dial: srv.Dial, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	compare(t, agent(t, env), p, "base", "prepared")
}

func TestDockerImage(t *testing.T) {
	p := docker.New(docker.Options{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { p.Close() })
	if err := p.Ping(t.Context()); err != nil {
		t.Skipf("%v; testdata/fetch/docker.sh starts one", err)
	}
	env := environ(t)
	const base, tag = "agentrl-test:debian", "agentrl-test:prepared-by-command"
	var out strings.Builder
	if err := run(t.Context(), env, options{image: base, tag: tag, context: filepath.Join(t.TempDir(), "new")}, &out); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Forget(context.Background(), tag); err != nil {
			t.Error(err)
		}
	})
	if !strings.Contains(out.String(), tag+" is "+base+" with the agent") || !strings.Contains(out.String(), "e2b template build") {
		t.Errorf("it says %q", out.String())
	}
	compare(t, agent(t, env), p, base, tag)
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		environ []string
		o       options
		want    string
	}{
		"nothing to make":    {nil, options{image: "x"}, "-context DIR"},
		"no image":           {nil, options{tag: "x:y"}, "-tag needs -image"},
		"nothing to install": {[]string{"SWE_AGENT=mini"}, options{context: "/nowhere"}, `SWE_AGENT="mini"`},
		"no such tarball":    {[]string{"SWE_AGENT=codex", "SLIME_AGENT_CODEX_TARBALL=/nowhere/x.tgz"}, options{context: "/nowhere"}, "/nowhere/x.tgz"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := run(t.Context(), c.environ, c.o, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("run: %v, want %q", err, c.want)
			}
		})
	}
}

func TestMain(m *testing.M) {
	e2btest.RunChild()
	os.Exit(m.Run())
}
