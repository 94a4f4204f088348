// Package netprobe shows from inside a sandbox what its network reaches. A
// backend's promise is worth little: a server that does not know a field of a
// request ignores it.
package netprobe

import (
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/agentrl-go/agentrl/internal/shell"
)

// Outside returns addresses that answer wherever there is a way out: TCP ports
// of two public resolvers.
func Outside() []string { return []string{"1.1.1.1:443", "8.8.8.8:53"} }

// Exit statuses of the script.
const (
	unreachable = 41
	reachable   = 42
	noTool      = 45
)

// Script connects to each address, host:port over TCP, and exits 0 if it
// reaches all of reach and none of avoid. It tries the addresses of avoid at
// once, and waits 3 s for each.
func Script(reach, avoid []string) (string, error) {
	var b strings.Builder
	b.WriteString(tools)
	for _, addr := range avoid {
		if err := call(&b, "bg", addr); err != nil {
			return "", err
		}
	}
	for _, addr := range reach {
		if err := call(&b, "must", addr); err != nil {
			return "", err
		}
	}
	b.WriteString("settle\n")
	return b.String(), nil
}

func call(b *strings.Builder, fn, addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || host == "" || port == "" {
		return fmt.Errorf("probe address %q: want host:port", addr)
	}
	fmt.Fprintf(b, "%s %s %s\n", fn, shell.Quote(host), shell.Quote(port))
	return nil
}

// tools knows five ways to open a connection, of which an image has one.
const tools = `
if command -v python3 >/dev/null 2>&1; then
	try() { python3 -c 'import socket,sys; socket.create_connection((sys.argv[1],int(sys.argv[2])),3)' "$1" "$2" >/dev/null 2>&1; }
elif command -v bash >/dev/null 2>&1 && command -v timeout >/dev/null 2>&1; then
	try() { timeout 3 bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$1" "$2" >/dev/null 2>&1; }
elif command -v perl >/dev/null 2>&1; then
	try() { perl -MIO::Socket::INET -e 'exit !IO::Socket::INET->new(PeerAddr=>$ARGV[0],PeerPort=>$ARGV[1],Timeout=>3)' "$1" "$2" >/dev/null 2>&1; }
elif command -v nc >/dev/null 2>&1; then
	try() { nc -w 3 "$1" "$2" </dev/null >/dev/null 2>&1; }
elif command -v curl >/dev/null 2>&1; then
	try() { curl -s -m 3 -o /dev/null "http://$1:$2/"; case $? in 0|1|8|22|52|56) return 0;; esac; return 1; }
else
	exit 45
fi
pids=
bg() { { try "$1" "$2" && { echo "$1:$2"; exit 42; }; exit 0; } & pids="$pids $!"; }
must() { i=0; until try "$1" "$2"; do i=$((i+1)); [ $i -lt 3 ] || { echo "$1:$2"; exit 41; }; sleep 0.3; done; }
settle() { for p in $pids; do wait "$p" || exit $?; done; }
`

// Verdict reads the script's end: nil, or what was found to be wrong.
func Verdict(code int, stdout string) error {
	addr := strings.TrimSpace(stdout)
	switch code {
	case 0:
		return nil
	case unreachable:
		return fmt.Errorf("%s is not reached from inside", addr)
	case reachable:
		return fmt.Errorf("%s is reached from inside: the network is not closed", addr)
	case noTool:
		return fmt.Errorf("the image has none of python3, bash with timeout, perl, nc, curl to prove it with")
	}
	return fmt.Errorf("probe exited with status %d", code)
}

// Addr is the host:port of an http or https URL.
func Addr(rawURL string) (string, error) {
	u, err := url.Parse(rawURL)
	if err != nil || u.Hostname() == "" {
		return "", fmt.Errorf("address %q: want a URL with a host", rawURL)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	if port == "" {
		return "", fmt.Errorf("address %q: want http or https, or a port", rawURL)
	}
	return net.JoinHostPort(u.Hostname(), port), nil
}
