//go:build linux

package e2b_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/e2b"
	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
)

func TestCreatePaths(t *testing.T) {
	tests := []struct {
		name     string
		server   e2btest.Options
		path     e2b.CreatePath
		requests int
		err      error
	}{
		{"v1", e2btest.Options{}, e2b.CreateAuto, 1, nil},
		{"only v2", e2btest.Options{NoV1: true}, e2b.CreateAuto, 2, nil},
		{"v2 chosen", e2btest.Options{NoV1: true}, e2b.CreateV2, 1, nil},
		{"neither", e2btest.Options{NoV1: true, NoV2: true}, e2b.CreateAuto, 2, sandbox.ErrInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv, p := start(t, tt.server, func(o *e2b.Options) { o.CreatePath = tt.path })
			sb, err := p.Create(t.Context(), sandbox.Spec{Image: "base"})
			if !errors.Is(err, tt.err) || srv.Stats().Requests["create"] != tt.requests {
				t.Fatalf("Create: %v after %d requests, want %v after %d", err, srv.Stats().Requests["create"], tt.err, tt.requests)
			}
			if err != nil {
				return
			}
			defer sb.Close()
			again := boot(t, p, sandbox.Spec{}) // the path is known now
			if n := srv.Stats().Requests["create"]; n != tt.requests+1 || again.ID() == sb.ID() {
				t.Errorf("the second create took the requests to %d, want %d", n, tt.requests+1)
			}
		})
	}
}

func TestCreateRefused(t *testing.T) {
	srv, p := start(t, e2btest.Options{})
	ctx := t.Context()
	for name, tt := range map[string]struct {
		spec sandbox.Spec
		want error
	}{
		"unknown template":   {sandbox.Spec{Image: "nosuch"}, sandbox.ErrNoImage},
		"no image":           {sandbox.Spec{}, sandbox.ErrNoImage},
		"a life too long":    {sandbox.Spec{Image: "base", Lifetime: 1000 * time.Hour}, sandbox.ErrInvalid},
		"a label with space": {sandbox.Spec{Image: "base", Labels: map[string]string{"a": "b c"}}, sandbox.ErrInvalid},
		"no work directory":  {sandbox.Spec{Image: "base", Workdir: "/no/such"}, sandbox.ErrNoWorkdir},
		"unknown egress":     {sandbox.Spec{Image: "base", Egress: "some"}, sandbox.ErrInvalid},
		"egress to a name":   {sandbox.Spec{Image: "base", Egress: sandbox.EgressAdapter, Adapter: "http://trainer:18001"}, sandbox.ErrInvalid},
	} {
		if _, err := p.Create(ctx, tt.spec); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
	if live := srv.Live(); len(live) > 0 {
		t.Errorf("left alive: %v", live)
	}
	wrong, err := e2b.New(e2b.Options{APIKey: "e2b_ff", APIURL: srv.URL, SandboxURL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer wrong.Close()
	srv.Reset()
	if _, err := wrong.Create(ctx, sandbox.Spec{Image: "base"}); !errors.Is(err, sandbox.ErrUnauthorized) || srv.Stats().Requests["create"] > 1 {
		t.Errorf("wrong key: %v after %d requests", err, srv.Stats().Requests["create"])
	}
}

// TestIgnoredImage: a server that does not know the image's metadata key boots
// its default image; the work directory gives it away.
func TestIgnoredImage(t *testing.T) {
	const key = "e2b.agents.kruise.io/image"
	images := map[string]string{"reg.io/swe/django:1.2": "mkdir /testbed"}
	spec := sandbox.Spec{Image: "reg.io/swe/django:1.2", Workdir: "/testbed"}
	_, p := start(t, e2btest.Options{ImageKey: key, Images: images}, func(o *e2b.Options) { o.ImageMetadataKey = key })
	boot(t, p, spec)
	if _, err := p.Create(t.Context(), sandbox.Spec{Image: "reg.io/other:1"}); !errors.Is(err, sandbox.ErrNoImage) {
		t.Errorf("an image that the server does not have: %v", err)
	}
	srv, ignorant := start(t, e2btest.Options{}, func(o *e2b.Options) { o.ImageMetadataKey = key })
	if _, err := ignorant.Create(t.Context(), spec); !errors.Is(err, sandbox.ErrNoWorkdir) || len(srv.Live()) > 0 {
		t.Errorf("a server that ignores the key: %v, alive %v", err, srv.Live())
	}
}

// TestLostCreate: whether a create whose reply is lost made a sandbox is asked
// by its label; while that cannot be asked, it is not repeated.
func TestLostCreate(t *testing.T) {
	srv, p := start(t, e2btest.Options{})
	srv.Inject(e2btest.Fault{Kind: e2btest.LoseReply, Op: "create"})
	boot(t, p, sandbox.Spec{})
	if s := srv.Stats(); s.Creates != 1 || s.PeakLive != 1 {
		t.Errorf("%d sandboxes were made, %d at once, want 1", s.Creates, s.PeakLive)
	}
	srv.Reset()
	srv.Inject(e2btest.Fault{Kind: e2btest.LoseReply, Op: "create"})
	srv.Inject(e2btest.Fault{Kind: e2btest.Internal, Op: "list", Times: -1})
	_, err := p.Create(t.Context(), sandbox.Spec{Image: "base", Labels: map[string]string{"entry": "e1"}})
	if err == nil || !strings.Contains(err.Error(), "unknown whether a sandbox with agentrl-create=") || srv.Stats().Requests["create"] != 1 {
		t.Errorf("a lost create that cannot be asked about: %v after %d creates", err, srv.Stats().Requests["create"])
	}
	srv.Reset()
	found, err := p.List(t.Context(), map[string]string{"entry": "e1"})
	if err != nil || len(found) != 1 {
		t.Fatalf("its label finds %v, %v", found, err)
	}
	if err := p.Kill(t.Context(), found[0].ID); err != nil {
		t.Error(err)
	}
}

// TestCancelledCreate: a caller that leaves while the server creates leaves
// nothing alive.
func TestCancelledCreate(t *testing.T) {
	srv, _ := start(t, e2btest.Options{})
	srv.Inject(e2btest.Fault{Kind: e2btest.Slow, Op: "create", After: 500 * time.Millisecond})
	spent := errors.New("guard expired")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 200*time.Millisecond, spent)
	defer cancel()
	p2, err := e2b.New(e2b.Options{APIKey: srv.Key(), APIURL: srv.URL, SandboxURL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer p2.Close()
	if _, err := p2.Create(ctx, sandbox.Spec{Image: "base"}); !errors.Is(err, spent) {
		t.Errorf("Create: %v, want the cause", err)
	}
	if live, asked := srv.Live(), srv.Stats().Requests["list"]; len(live) > 0 || asked > 0 {
		t.Errorf("left alive: %v; it was searched for %d times, want its reply waited for", live, asked)
	}
}

// TestRateLimit: 40 callers at once at a server that takes ten creates a
// second are all served; a limit of live sandboxes is an error that says so.
func TestRateLimit(t *testing.T) {
	srv, p := start(t, e2btest.Options{CreatesPerSec: 10}, func(o *e2b.Options) { o.Retries = 12 })
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			sb, err := p.Create(t.Context(), sandbox.Spec{Image: "base"})
			if err != nil {
				t.Error(err)
				return
			}
			if err := sb.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	t.Logf("figure: 40 creates at 10 a second: 0 failures, %d requests", srv.Stats().Requests["create"])
	_, p = start(t, e2btest.Options{MaxLive: 1}, func(o *e2b.Options) { o.Retries = 1 })
	boot(t, p, sandbox.Spec{})
	var limit *sandbox.RateLimitError
	if _, err := p.Create(t.Context(), sandbox.Spec{Image: "base"}); !errors.As(err, &limit) || !strings.Contains(limit.Message, "maximum number") {
		t.Errorf("above the limit: %v", err)
	}
}

// TestURLs: base URLs with a path, and a sandbox that is reached by its host.
func TestURLs(t *testing.T) {
	srv, _ := start(t, e2btest.Options{})
	target, _ := url.Parse(srv.URL)
	front := httptest.NewServer(http.StripPrefix("/kruise/api", &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
	}))
	t.Cleanup(front.Close)
	p, err := e2b.New(e2b.Options{APIKey: srv.Key(), APIURL: front.URL + "/kruise/api/", SandboxURL: front.URL + "/kruise/api/"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	sb := boot(t, p, sandbox.Spec{})
	if out, err := sandbox.Output(t.Context(), sb, sandbox.Cmd{Script: "echo behind a path"}); out != "behind a path" || err != nil {
		t.Errorf("%q, %v", out, err)
	}
	for _, bad := range []e2b.Options{{}, {APIKey: "k", APIURL: "api.e2b.app"}, {APIKey: "k", SandboxURL: "ftp://x"}, {APIKey: "k", CreatePath: "v3"}} {
		if _, err := e2b.New(bad); err == nil {
			t.Errorf("New(%+v): no error", bad)
		}
	}
}

func TestExtend(t *testing.T) {
	srv, p := start(t, e2btest.Options{})
	sb := boot(t, p, sandbox.Spec{Lifetime: 2 * time.Second})
	ext := sb.(sandbox.Extender)
	if err := ext.Extend(t.Context(), time.Second); err != nil || srv.Stats().Requests["timeout"] != 0 {
		t.Errorf("Extend to less than it has: %v, %d requests", err, srv.Stats().Requests["timeout"])
	}
	if err := ext.Extend(t.Context(), time.Minute); err != nil {
		t.Errorf("Extend: %v", err)
	}
	time.Sleep(2200 * time.Millisecond)
	if _, err := sb.Exec(t.Context(), sandbox.Cmd{Script: ":"}); err != nil {
		t.Errorf("after its first life: %v", err)
	}
	short := boot(t, p, sandbox.Spec{Lifetime: time.Second})
	time.Sleep(1200 * time.Millisecond)
	if _, err := short.Exec(t.Context(), sandbox.Cmd{Script: ":"}); !errors.Is(err, sandbox.ErrGone) {
		t.Errorf("after its life: %v, want ErrGone", err)
	}
}

func TestResolvers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "map.json")
	text := `{"img:1": "alias-1", "img:2": {"ID": "t2", "Env": {"PATH": "/conda/bin"}}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	templates, err := e2b.ReadTemplateMap(file)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		r     e2b.ImageResolver
		image string
		want  string
	}{
		{e2b.NamedImages{}, "docker.io/Swe/django:1.2", "docker-io-swe-django-1-2 map[] map[]"},
		{e2b.NamedImages{}, "my_template-1", "my_template-1 map[] map[]"},
		{e2b.NamedImages{}, "::", "error"},
		{e2b.MetadataImages{Key: "a.b/image", Size: "md"}, "r/i:1", "base map[a.b/image:r/i:1 a.b/size:md] map[]"},
		{e2b.MetadataImages{Key: "image", Template: "t"}, "i", "t map[image:i] map[]"},
		{e2b.MetadataImages{}, "i", "error"},
		{templates, "img:1", "alias-1 map[] map[]"},
		{templates, "img:2", "t2 map[] map[PATH:/conda/bin]"},
		{templates, "img:3", "error"},
	}
	for _, tt := range tests {
		got := "error"
		if tmpl, err := tt.r.Resolve(t.Context(), tt.image); err == nil {
			got = fmt.Sprint(tmpl.ID, " ", tmpl.Metadata, " ", tmpl.Env)
		}
		if got != tt.want {
			t.Errorf("%T(%q) = %s, want %s", tt.r, tt.image, got, tt.want)
		}
	}
	for _, bad := range []string{"[]", `{"a": 1}`, `{"a": ""}`, `{"a": {"env": {}}}`, "{"} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := e2b.ReadTemplateMap(file); err == nil {
			t.Errorf("template map %s: no error", bad)
		}
	}
}

// TestLateCreate: a create that the client gave up on may still be carried out
// by the server; the sandbox that was made in its place takes it along.
func TestLateCreate(t *testing.T) {
	srv, p := start(t, e2btest.Options{}, func(o *e2b.Options) { o.CreateTimeout = 500 * time.Millisecond })
	srv.Inject(e2btest.Fault{Kind: e2btest.Slow, Op: "create", After: 1500 * time.Millisecond})
	sb := boot(t, p, sandbox.Spec{})
	for range 60 {
		if len(srv.Live()) == 2 {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	if n := len(srv.Live()); n != 2 {
		t.Fatalf("%d are alive, want the late one too", n)
	}
	if err := sb.Close(); err != nil || len(srv.Live()) > 0 {
		t.Errorf("Close: %v; alive %v", err, srv.Live())
	}
}
