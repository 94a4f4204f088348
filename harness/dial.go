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
	env, err := dialEnv(baseURL)
	if err != nil {
		return err
	}
	res, err := sb.Exec(ctx, sandbox.Cmd{Script: reachFunctions + dialScript, User: sandbox.AgentUser, Dir: "/tmp", Env: env, Replayable: true})
	if err != nil {
		return err
	}
	if res.Code != unreachableCode {
		return nil
	}
	return &UnreachableError{baseURL, said(res, env)}
}

// dialEnv is what reachFunctions read.
func dialEnv(baseURL string) (map[string]string, error) {
	u, err := url.Parse(baseURL)
	if err != nil || u.Hostname() == "" {
		return nil, fmt.Errorf("adapter address %q: want http://host:port", baseURL)
	}
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443"}[u.Scheme]
	}
	if port == "" {
		port = "80"
	}
	return map[string]string{"HOST": u.Hostname(), "PORT": port, "URL": strings.TrimRight(baseURL, "/") + "/healthz"}, nil
}

// said is why a script of ours did not reach the adapter.
func said(res sandbox.Result, env map[string]string) string {
	if line := LastLines(res.Stdout, 1); line != "" {
		return line
	}
	return "no connection to " + net.JoinHostPort(env["HOST"], env["PORT"])
}

// How the scripts exit.
const (
	unreachableCode = 71
	blindCode       = 72 // nothing in the image can dial
	overCode        = 73 // nobody waits for the watch any more
)

// reachFunctions try what there is, the next where one could not run: a tool
// that is broken or killed says nothing about the network. curl alone also
// tells an adapter that is busy, which has taken the connection or let a
// gateway wait (504), and a gateway that has lost its way to the adapter. A .curlrc may name a proxy too.
// Debian's bash of old has no /dev/tcp.
const reachFunctions = `unset http_proxy HTTP_PROXY https_proxy HTTPS_PROXY all_proxy ALL_PROXY
has() { command -v "$1" >/dev/null; }
# timed SECONDS COMMAND...: 99 when it takes longer, its start on a busy machine included
timed() {
	left=$(($1 * 10)); shift
	"$@" 2>&1 & p=$!
	while kill -0 $p 2>/dev/null; do
		[ $left -gt 0 ] || { kill -9 $p; wait $p 2>/dev/null; return 99; }
		left=$((left - 1)); sleep 0.1 2>/dev/null || { sleep 1; left=$((left - 9)); }
	done
	wait $p
}
# reach SECONDS: 0 it is reached, 1 it is not, for the reason in $why, 2 nothing here can tell
reach() {
	for tool in curl bash zsh python3 wget perl; do
		! has $tool || { by_$tool "$1"; r=$?; [ $r = 2 ] || return $r; }
	done
	return 2
}
by_curl() {
	why=$(curl -q -sS --connect-timeout "$1" -m 8 -o /dev/null -w '\n%{http_code} %{time_connect}' "$URL" 2>&1); c=$?
	got=${why##*
}
	why=${why%%
*}
	case $c in
	0)
		why="a gateway there answers ${got% *}"
		case $got in 504*) return "${BUSY:-0}" ;; 5*) return 1 ;; esac
		return 0 ;;
	28) case ${got#* } in *[1-9]*) return "${BUSY:-0}" ;; esac; return 1 ;;
	5|6|7|16|35|52|55|56|58|60|77|83|91) return 1 ;;
	esac
	return 2
}
by_bash() { verdict timed "$(($1 + 2))" bash -c 'exec 3<>"/dev/tcp/$HOST/$PORT"'; }
by_zsh() { verdict timed "$(($1 + 2))" zsh -fc 'zmodload zsh/net/tcp && ztcp "$HOST" "$PORT"'; }
by_python3() { verdict timed "$(($1 + 2))" python3 -c 'import os,socket; socket.create_connection((os.environ["HOST"], int(os.environ["PORT"])), 8)'; }
by_wget() {
	verdict timed "$(($1 + 2))" wget -Y off -q -T 8 -O /dev/null "$URL"; r=$?
	case "$c $why" in "8 "*|*"server returned error"*) return 0 ;; esac # it has answered
	return $r
}
by_perl() { verdict timed "$(($1 + 2))" perl -MIO::Socket::INET -e 'IO::Socket::INET->new(PeerAddr => $ENV{HOST}, PeerPort => $ENV{PORT}, Timeout => 8) or die "$@\n"'; }
verdict() {
	why=$("$@"); c=$?
	short=${why##*
}
	case $c in
	0) return 0 ;;
	99) why="no connection to $HOST port $PORT within $2 s"; return 1 ;;
	esac
	[ $c -lt 126 ] || return 2
	case $why in */dev/tcp/*"No such file"*|*"failed to load module"*|*"Can't locate"*|*"No module"*) return 2 ;; esac
	why=$short
	return 1
}
`

// dialScript takes an adapter that is too busy to answer for one out of reach:
// nothing is lost yet, and the rollout may be tried again.
const dialScript = `BUSY=1
reach 8; [ $? = 1 ] || exit 0
echo "$why"
exit 71`

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
