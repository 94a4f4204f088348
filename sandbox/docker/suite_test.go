package docker_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/docker"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

// served is a page on this machine, at an address that containers reach: its
// URL and host:port.
func served(t *testing.T) (url, addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("page")) }))
	srv.Listener.Close()
	srv.Listener = l
	srv.Start()
	t.Cleanup(srv.Close)
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	addr = net.JoinHostPort(hostIP(t), port)
	return "http://" + addr, addr
}

// hostIP is an address of this machine that is not the loopback's.
func hostIP(t *testing.T) string {
	t.Helper()
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !strings.HasPrefix(n.IP.String(), "169.254.") {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address but the loopback's")
	return ""
}

func TestContract(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	adapter, _ := served(t)
	other, outside := served(t)
	sandboxtest.Test(t, func(t *testing.T) sandbox.Provider {
		return provider(t, func(o *docker.Options) { o.Outside = []string{outside} })
	}, sandboxtest.Caps{
		Spec:    sandbox.Spec{Image: image, Workdir: "/tmp", Adapter: adapter},
		NoImage: "agentrl-test:nosuch",
		Probe:   other,
		Egress:  []sandbox.Egress{sandbox.EgressAdapter, sandbox.EgressOff},
		Unsupported: map[string]string{
			"job/daemon of root": "a container may not make a PID namespace of its own; root's daemon that clears its environment dies with the container",
		},
	})
}
