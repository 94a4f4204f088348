package harness_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/local"
)

// dials matches the programs that can reach a server.
var dials = regexp.MustCompile(`^(curl|bash|rbash|zsh.*|python.*|wget|perl.*|nc.*|busybox)$`)

// boxWith is a sandbox whose PATH has this machine's programs, but of those
// that can reach a server the tools alone.
func boxWith(t *testing.T, tools ...string) sandbox.Sandbox {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("local sandboxes with users need root")
	}
	dir, err := os.MkdirTemp("/var/tmp", "agentrl-dial-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("this machine has no %s", tool)
		}
	}
	for _, from := range []string{"/usr/bin", "/usr/sbin", "/bin", "/sbin"} {
		files, _ := filepath.Glob(from + "/*") // the pattern is good
		for _, file := range files {
			name := filepath.Base(file)
			if dials.MatchString(name) && !slices.Contains(tools, name) {
				continue
			}
			if err := os.Symlink(file, filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrExist) {
				t.Fatal(err)
			}
		}
	}
	sb, err := (&local.Provider{Logger: slog.New(slog.DiscardHandler), Path: dir}).Create(t.Context(), sandbox.Spec{
		Env: map[string]string{"http_proxy": "http://127.0.0.1:9", "HTTP_PROXY": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	if err := sandbox.EnsureUser(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	return sb
}

func TestDial(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String()
	closed.Close()
	for _, tool := range []string{"curl", "bash", "zsh", "python3", "wget", "perl"} {
		t.Run(tool, func(t *testing.T) {
			sb := boxWith(t, tool)
			home := sandbox.Cmd{Script: "echo 'proxy = http://127.0.0.1:9' >~/.curlrc; echo 'http_proxy = http://127.0.0.1:9' >~/.wgetrc", User: sandbox.AgentUser}
			if _, err := sandbox.Output(t.Context(), sb, home); err != nil {
				t.Fatal(err)
			}
			if err := harness.Dial(t.Context(), sb, server.URL); err != nil {
				t.Errorf("Dial(%s): %v", server.URL, err)
			}
			err := harness.Dial(t.Context(), sb, nobody)
			var unreachable *harness.UnreachableError
			if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), nobody) || !strings.Contains(err.Error(), "ADAPTER_PUBLIC_HOST") {
				t.Errorf("Dial(%s): %v, want an UnreachableError that says what to check", nobody, err)
			}
			t.Logf("figure: by %s: %v", tool, err)
		})
	}
	t.Run("nothing that dials", func(t *testing.T) {
		if err := harness.Dial(t.Context(), boxWith(t), nobody); err != nil {
			t.Errorf("Dial without a tool: %v", err)
		}
	})
}

// TestDialBlackHole: a peer that never answers is given up after 8 seconds.
func TestDialBlackHole(t *testing.T) {
	sb := boxWith(t, "bash")
	start := time.Now()
	err := harness.Dial(t.Context(), sb, "http://192.0.2.1:18001") // TEST-NET-1, which nobody is
	var unreachable *harness.UnreachableError
	if !errors.As(err, &unreachable) {
		t.Errorf("Dial: %v, want an UnreachableError", err)
	}
	t.Logf("figure: %.1f s: %v", time.Since(start).Seconds(), err)
}

func TestDialGateway(t *testing.T) {
	sb := boxWith(t, "curl")
	for _, status := range []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		t.Cleanup(server.Close)
		err := harness.Dial(t.Context(), sb, server.URL)
		if err == nil || !strings.Contains(err.Error(), strconv.Itoa(status)) {
			t.Errorf("Dial to a gateway that answers %d: %v", status, err)
		}
	}
}

func TestDialAddress(t *testing.T) {
	for _, url := range []string{"", "host:1", "http://", "::"} {
		if err := harness.Dial(t.Context(), nil, url); err == nil {
			t.Errorf("Dial(%q) accepts it", url)
		}
	}
}
