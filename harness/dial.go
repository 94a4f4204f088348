package harness

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/agentrl-go/agentrl/sandbox"
)

// An UnreachableError: the sandbox does not reach the adapter.
type UnreachableError struct{ URL, Detail string }

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the sandbox does not reach the adapter at %s (%s): check ADAPTER_PUBLIC_HOST and ADAPTER_PORT, that the adapter listens on an address "+
		"that sandboxes can route to (ADAPTER_BIND_HOST), and firewalls between", e.URL, e.Detail)
}

// Dial tells whether the adapter is reached from inside the sandbox, within 10
// seconds, by whatever the image has for it; nil too where it has nothing. A
// CLI of its own would find that out after minutes of retries. Its error is an
// *UnreachableError unless the sandbox itself failed.
func Dial(ctx context.Context, sb sandbox.Sandbox, baseURL string) error {
	u, err := url.Parse(baseURL)
	if err != nil || u.Hostname() == "" {
		return fmt.Errorf("adapter address %q: want http://host:port", baseURL)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443"}[u.Scheme]
	}
	if port == "" {
		port = "80"
	}
	res, err := sb.Exec(ctx, sandbox.Cmd{Script: dialScript, User: sandbox.AgentUser, Dir: "/tmp", Replayable: true,
		Env: map[string]string{"HOST": u.Hostname(), "PORT": port, "URL": strings.TrimRight(baseURL, "/") + "/healthz"}})
	if err != nil {
		return err
	}
	if res.Ok() {
		return nil
	}
	said := LastLines(append(res.Stderr, res.Stdout...), 1)
	if said == "" {
		said = fmt.Sprintf("no connection to %s within 8 s", net.JoinHostPort(u.Hostname(), port))
	}
	return &UnreachableError{baseURL, said}
}

// dialScript tries what there is; 0 when something connected or nothing could
// try. curl alone also tells a gateway that has lost its way to the adapter.
const dialScript = `unset http_proxy HTTP_PROXY https_proxy HTTPS_PROXY all_proxy ALL_PROXY
if command -v curl >/dev/null; then
	code=$(curl -sS -m 8 -o /dev/null -w '%{http_code}' "$URL") || exit 1
	case $code in 5*) echo "a gateway there answers $code" >&2; exit 1;; esac
	exit 0
fi
if command -v bash >/dev/null; then set -- bash -c 'exec 3<>"/dev/tcp/$HOST/$PORT"'
elif command -v zsh >/dev/null; then set -- zsh -fc 'zmodload zsh/net/tcp && ztcp "$HOST" "$PORT"'
elif command -v python3 >/dev/null; then set -- python3 -c 'import os,socket; socket.create_connection((os.environ["HOST"], int(os.environ["PORT"])), 8)'
elif command -v wget >/dev/null; then set -- wget -q -T 8 -O /dev/null "$URL"
elif command -v perl >/dev/null; then set -- perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => $ENV{HOST}, PeerPort => $ENV{PORT}, Timeout => 8) or die "$@\n"'
else exit 0
fi
"$@" & p=$! n=0
while kill -0 $p 2>/dev/null; do
	[ $n -lt 80 ] || kill -9 $p
	n=$((n+1)); sleep 0.1 2>/dev/null || { sleep 1; n=$((n+9)); }
done
wait $p; c=$?
[ $c -lt 129 ] || [ $c = 137 ] || exit 0 # a tool that crashed says nothing: busybox's static wget does
exit $c`

// Direct is a piece of shell text that keeps a proxy of the image or the row
// from catching the way to the adapter. Other traffic goes as it did: what the
// image exempts stays exempt.
func Direct(baseURL string) string {
	hosts := "localhost,127.0.0.1,::1"
	if u, err := url.Parse(baseURL); err == nil && u.Hostname() != "" && !net.ParseIP(u.Hostname()).IsLoopback() {
		hosts = u.Hostname() + "," + hosts
	}
	return `NO_PROXY="` + hosts + `${NO_PROXY:+,$NO_PROXY}${no_proxy:+,$no_proxy}"; no_proxy=$NO_PROXY; export NO_PROXY no_proxy`
}
