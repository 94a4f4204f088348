//go:build linux

package e2b_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/e2b"
	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

// served is a page on this machine: its URL, host:port and port.
func served(t *testing.T) (url, addr string, port int) {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") }))
	t.Cleanup(srv.Close)
	addr = strings.TrimPrefix(srv.URL, "http://")
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	port, err = strconv.Atoi(p)
	if err != nil {
		t.Fatal(err)
	}
	return srv.URL, addr, port
}

func TestContract(t *testing.T) {
	adapter, _, port := served(t)
	other, outside, _ := served(t)
	sandboxtest.Test(t, func(t *testing.T) sandbox.Provider {
		_, p := start(t, e2btest.Options{RelayPorts: []int{port}}, func(o *e2b.Options) { o.Outside = []string{outside} })
		return p
	}, sandboxtest.Caps{
		Spec:    sandbox.Spec{Image: "base", Workdir: "/tmp", Adapter: adapter},
		NoImage: "no-such-template",
		Probe:   other,
		Egress:  []sandbox.Egress{sandbox.EgressAdapter, sandbox.EgressOff},
	})
}

// TestEgressIgnored: a server that does not know the network's fields boots an
// open sandbox; it must not be used as a closed one.
func TestEgressIgnored(t *testing.T) {
	adapter, _, _ := served(t)
	_, outside, _ := served(t)
	srv, p := start(t, e2btest.Options{IgnoreNetwork: true}, func(o *e2b.Options) { o.Outside = []string{outside} })
	for _, e := range []sandbox.Egress{sandbox.EgressAdapter, sandbox.EgressOff} {
		_, err := p.Create(t.Context(), sandbox.Spec{Image: "base", Egress: e, Adapter: adapter})
		if !errors.Is(err, sandbox.ErrInvalid) || !strings.Contains(err.Error(), outside+" is reached from inside") {
			t.Errorf("egress %s at a server that ignores it: %v", e, err)
		}
	}
	if live := srv.Live(); len(live) > 0 {
		t.Errorf("left alive: %v", live)
	}
}
