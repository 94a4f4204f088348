package docker_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/docker"
)

const image = "agentrl-test:debian"

// provider is a provider at the daemon of this machine, or at the one whose
// socket AGENTRL_TEST_DOCKER names.
func provider(t testing.TB, bend ...func(*docker.Options)) *docker.Provider {
	t.Helper()
	o := docker.Options{Socket: socket(), Logger: slog.New(slog.DiscardHandler), Retries: 2}
	for _, b := range bend {
		b(&o)
	}
	p := docker.New(o)
	t.Cleanup(func() { p.Close() })
	if err := p.Ping(t.Context()); err != nil {
		t.Skipf("%v; testdata/fetch/docker.sh starts one", err)
	}
	return p
}

func socket() string {
	if s := os.Getenv("AGENTRL_TEST_DOCKER"); s != "" {
		return s
	}
	return "/var/run/docker.sock"
}

func boot(t testing.TB, p *docker.Provider, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	if spec.Image == "" {
		spec.Image = image
	}
	sb, err := p.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sb.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return sb
}

func TestNoDaemon(t *testing.T) {
	p := docker.New(docker.Options{Socket: filepath.Join(t.TempDir(), "none.sock")})
	defer p.Close()
	begin := time.Now()
	_, err := p.Create(t.Context(), sandbox.Spec{Image: image})
	if err == nil || !strings.Contains(err.Error(), "no container daemon at") || !strings.Contains(err.Error(), "start the Docker daemon") {
		t.Errorf("Create without a daemon: %v", err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("it took %v to say so", took)
	}
}

func TestRefusedSpecs(t *testing.T) {
	p := provider(t)
	for name, tt := range map[string]struct {
		spec sandbox.Spec
		want error
	}{
		"no image":              {sandbox.Spec{}, sandbox.ErrNoImage},
		"missing image":         {sandbox.Spec{Image: "agentrl-test:nosuch"}, sandbox.ErrNoImage},
		"missing workdir":       {sandbox.Spec{Image: image, Workdir: "/no/such"}, sandbox.ErrNoWorkdir},
		"label":                 {sandbox.Spec{Image: image, Labels: map[string]string{"a": "b c"}}, sandbox.ErrInvalid},
		"environment":           {sandbox.Spec{Image: image, Env: map[string]string{"A=B": "c"}}, sandbox.ErrInvalid},
		"egress":                {sandbox.Spec{Image: image, Egress: "some"}, sandbox.ErrInvalid},
		"adapter without a URL": {sandbox.Spec{Image: image, Egress: sandbox.EgressAdapter}, sandbox.ErrInvalid},
	} {
		tt.spec.Labels = withTest(tt.spec.Labels, "refused")
		if _, err := p.Create(t.Context(), tt.spec); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if left, err := p.List(t.Context(), map[string]string{"test": "refused"}); err != nil || len(left) > 0 {
		t.Errorf("left alive: %v, %v", left, err)
	}
}

func withTest(labels map[string]string, value string) map[string]string {
	out := map[string]string{"test": value}
	for k, v := range labels {
		out[k] = v
	}
	return out
}

func TestLimits(t *testing.T) {
	p := provider(t, func(o *docker.Options) { o.Memory, o.CPUs, o.Processes = 64<<20, 0.5, 40 })
	sb := boot(t, p, sandbox.Spec{})
	res, err := sb.Exec(t.Context(), sandbox.Cmd{Script: `python3 -c 'b"x" * (200 << 20)'; echo $?`})
	if err != nil || strings.TrimSpace(string(res.Stdout)) != "137" {
		t.Errorf("200 MB under a limit of 64: %q, %v", res.Stdout, err)
	}
	res, err = sb.Exec(t.Context(), sandbox.Cmd{Script: `i=0; while [ $i -lt 100 ]; do sleep 5 & i=$((i+1)); done; echo all`})
	if err != nil || strings.Contains(string(res.Stdout), "all") {
		t.Errorf("100 processes under a limit of 40: %q, %v", res.Stdout, err)
	}
}

func TestLifetime(t *testing.T) {
	p := provider(t)
	sb := boot(t, p, sandbox.Spec{Lifetime: 6 * time.Second, Labels: map[string]string{"test": "life"}})
	if err := sb.(sandbox.Extender).Extend(t.Context(), 16*time.Second); err != nil {
		t.Fatal(err)
	}
	time.Sleep(8 * time.Second)
	if _, err := sb.Exec(t.Context(), sandbox.Cmd{Script: ":"}); err != nil {
		t.Errorf("after its first life: %v", err)
	}
	for range 60 {
		if left, err := p.List(t.Context(), map[string]string{"test": "life"}); err == nil && len(left) == 0 {
			if _, err := sb.Exec(t.Context(), sandbox.Cmd{Script: ":"}); !errors.Is(err, sandbox.ErrGone) {
				t.Errorf("after its life: %v, want ErrGone", err)
			}
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Error("the container outlives its lifetime")
}

func TestKilledUnderCommand(t *testing.T) {
	p := provider(t)
	sb := boot(t, p, sandbox.Spec{})
	time.AfterFunc(300*time.Millisecond, func() { _ = p.Kill(context.Background(), sb.ID()) })
	if _, err := sb.Exec(t.Context(), sandbox.Cmd{Script: "sleep 30"}); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("Exec in a container that is killed: %v, want ErrGone", err)
	}
}

// A cutter stands before the daemon's socket and breaks connections.
type cutter struct {
	socket string
	left   atomic.Int64 // connections that are broken after cut bytes of answer
	cut    atomic.Int64
}

func newCutter(t *testing.T) *cutter {
	t.Helper()
	c := &cutter{socket: filepath.Join(t.TempDir(), "cut.sock")}
	l, err := net.Listen("unix", c.socket)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	t.Cleanup(func() { l.Close(); wg.Wait() })
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { c.carry(in) })
		}
	})
	return c
}

func (c *cutter) carry(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("unix", socket())
	if err != nil {
		return
	}
	defer out.Close()
	go func() { _, _ = io.Copy(out, in); out.Close() }()
	if c.left.Add(-1) >= 0 {
		_, _ = io.CopyN(in, out, c.cut.Load())
		return
	}
	_, _ = io.Copy(in, out)
}

// TestCuts breaks the connection of every request of an operation in turn:
// what may be repeated ends well, a plain command ends as unknown, and nothing
// runs twice.
func TestCuts(t *testing.T) {
	provider(t)
	c := newCutter(t)
	p := provider(t, func(o *docker.Options) { o.Socket = c.socket })
	sb := boot(t, p, sandbox.Spec{})
	for name, cut := range map[string]int64{"before the answer": 0, "in its head": 40, "in its body": 230} {
		for nth := range 3 { // which connection breaks
			p.Close()
			c.left.Store(0)
			c.cut.Store(cut)
			ran := "/tmp/ran"
			// Connections are kept: one break can hit any request that reuses it.
			c.left.Store(int64(nth % 2))
			_, err := sb.Exec(t.Context(), sandbox.Cmd{Script: "echo x >>" + ran})
			if err != nil && !errors.Is(err, sandbox.ErrCut) {
				t.Errorf("%s: a plain command: %v, want ErrCut or nil", name, err)
			}
			p.Close()
			c.left.Store(1)
			out, err := sandbox.Output(t.Context(), sb, sandbox.Cmd{Script: "wc -l <" + ran + " 2>/dev/null || echo 0; rm -f " + ran, Replayable: true})
			if err != nil || out != "1" && out != "0" {
				t.Errorf("%s: it ran %s times, %v", name, out, err)
			}
			p.Close()
			c.left.Store(1)
			if err := sb.WriteFile(t.Context(), "/tmp/up/f", "daemon", strings.NewReader("content")); err != nil {
				t.Errorf("%s: WriteFile: %v", name, err)
			}
			if out, err := sandbox.Output(t.Context(), sb, sandbox.Cmd{Script: "ls -A /tmp/up; cat /tmp/up/f", Replayable: true}); out != "f\ncontent" || err != nil {
				t.Errorf("%s: after WriteFile: %q, %v", name, out, err)
			}
		}
	}
	c.left.Store(0)
}

// TestAdapterByName: the adapter may be named by the host's name in
// containers; an unrestricted container reaches it as well.
func TestAdapterByName(t *testing.T) {
	url, outside := served(t)
	_, port, err := net.SplitHostPort(outside)
	if err != nil {
		t.Fatal(err)
	}
	other, closed := served(t)
	byName := "http://" + net.JoinHostPort(docker.HostName, port)
	p := provider(t, func(o *docker.Options) { o.Outside = []string{closed} })
	fetch := "python3 -c 'import sys,urllib.request as u; sys.stdout.write(u.urlopen(sys.argv[1],timeout=5).read().decode())' "
	for _, tt := range []struct {
		egress sandbox.Egress
		url    string
		ok     bool
	}{
		{sandbox.EgressOpen, byName, true}, {sandbox.EgressOpen, url, true},
		{sandbox.EgressAdapter, byName, true}, {sandbox.EgressAdapter, other, false}, {sandbox.EgressAdapter, url, false},
	} {
		sb := boot(t, p, sandbox.Spec{Egress: tt.egress, Adapter: byName})
		out, err := sandbox.Output(t.Context(), sb, sandbox.Cmd{Script: fetch + tt.url})
		if (err == nil && out == "page") != tt.ok {
			t.Errorf("egress %q to %s: %q, %v, want %v", tt.egress, tt.url, out, err, tt.ok)
		}
	}
}

// TestAdapterNetwork: a network of the daemon's that is not closed is noticed.
func TestAdapterNetwork(t *testing.T) {
	adapter, _ := served(t)
	_, outside := served(t)
	p := provider(t, func(o *docker.Options) { o.AdapterNetwork, o.Outside = "bridge", []string{outside} })
	_, err := p.Create(t.Context(), sandbox.Spec{Image: image, Egress: sandbox.EgressAdapter, Adapter: adapter})
	if !errors.Is(err, sandbox.ErrInvalid) || !strings.Contains(err.Error(), "the network is not closed") {
		t.Errorf("an open network for the adapter: %v", err)
	}
}
