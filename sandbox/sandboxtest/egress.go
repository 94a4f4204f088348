package sandboxtest

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/internal/shell"
	"github.com/agentrl-go/agentrl/sandbox"
)

var egressCells = []cell{
	{"adapter", testEgressAdapter},
	{"off", testEgressOff},
}

// probe is a script that asks for a page with whatever the image has, and
// prints what came back: bash alone is enough.
func probe(url string) string {
	host := strings.TrimPrefix(url, "http://")
	host, path, _ := strings.Cut(host, "/")
	name, port, _ := net.SplitHostPort(host)
	request := `printf 'GET /` + path + ` HTTP/1.0\r\nHost: x\r\n\r\n' >&3; cat <&3`
	return `if command -v bash >/dev/null; then timeout 5 bash -c ` + shell.Quote("exec 3<>/dev/tcp/"+name+"/"+port+" && { "+request+"; }") + `
else timeout 5 wget -q -O - ` + shell.Quote(url) + `; fi 2>/dev/null`
}

// served starts a server on this machine and returns its URL.
func served(t *testing.T, says string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, says+r.URL.Path) })}
	go func() { _ = srv.Serve(l) }()
	t.Cleanup(func() { srv.Close() })
	return "http://" + l.Addr().String()
}

// refused reports whether the backend does not have this egress, and checks
// that it says so instead of opening the network.
func refused(t *testing.T, b *bench, e sandbox.Egress) bool {
	if slices.Contains(b.caps.Egress, e) {
		return false
	}
	spec := b.caps.Spec
	spec.Egress, spec.Adapter = e, "http://127.0.0.1:1"
	_, err := b.p.Create(t.Context(), spec)
	wantErr(t, "Create with egress "+string(e)+", which the backend does not have", err, sandbox.ErrInvalid)
	t.Logf("figure: egress %s is refused", e)
	return true
}

func testEgressAdapter(t *testing.T, b *bench) {
	if refused(t, b, sandbox.EgressAdapter) {
		return
	}
	spec := b.caps.Spec
	spec.Egress = sandbox.EgressAdapter
	other := b.caps.Probe
	if other == "" {
		other = served(t, "other")
	}
	if spec.Adapter == "" {
		spec.Adapter = served(t, "adapter")
	}
	sb, user := b.withUser(t)
	if got := run(t, sb, sandbox.Cmd{Script: probe(other + "/x")}); len(got.Stdout) == 0 {
		t.Fatalf("with open egress the probe of %s comes back empty: %s", other, got.Stderr)
	}
	sb = b.bootSpec(t, spec)
	if err := sandbox.EnsureUser(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	for _, as := range []string{"", user} {
		if got := run(t, sb, sandbox.Cmd{Script: probe(spec.Adapter + "/x"), User: as}); len(got.Stdout) == 0 {
			t.Errorf("%q does not reach the adapter at %s: %s", as, spec.Adapter, got.Stderr)
		}
		if got := run(t, sb, sandbox.Cmd{Script: probe(other + "/x"), User: as}); len(got.Stdout) > 0 {
			t.Errorf("%q reaches %s: %q", as, other, got.Stdout)
		}
	}
}

func testEgressOff(t *testing.T, b *bench) {
	if refused(t, b, sandbox.EgressOff) {
		return
	}
	spec := b.caps.Spec
	spec.Egress = sandbox.EgressOff
	other := b.caps.Probe
	if other == "" {
		other = served(t, "other")
	}
	sb := b.bootSpec(t, spec)
	if got := run(t, sb, sandbox.Cmd{Script: probe(other)}); len(got.Stdout) > 0 {
		t.Errorf("without a network the sandbox reaches %s: %q", other, got.Stdout)
	}
}
