package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/agentrl-go/agentrl/sandbox"
)

// Home is where harnesses keep their programs in a sandbox: readable by all,
// owned by root.
const Home = "/opt/agentrl"

// A CLI is a command-line agent as a sandbox has it.
type CLI struct {
	Name  string   // of the program, "claude"
	Store *Store   // nil when nothing is installed from this machine
	Asset Asset    // the program for images with glibc, or for all
	Musl  Asset    // the program for images with musl; the zero value uses Asset there too
	Names []string // base names in a tarball; nil means Name
}

// Bin is the path of an installed program.
func (c CLI) Bin() string { return Home + "/bin/" + c.Name }

// Command is the start of a script that runs the program: the installed one,
// or the image's own. The words that follow are its arguments.
func (c CLI) Command() string {
	return fmt.Sprintf("bin=%s; [ -x \"$bin\" ] || bin=%s; exec \"$bin\"", sandbox.Path(c.Bin()), c.Name)
}

// InstallError says why a program cannot be used in an image. It is permanent.
type InstallError struct{ Name, Reason string }

func (e *InstallError) Error() string { return fmt.Sprintf("install %s: %s", e.Name, e.Reason) }

// Permanent reports true: another sandbox of the same image does not help.
func (e *InstallError) Permanent() bool { return true }

// Install puts the program into the sandbox unless the same one is there
// already, and runs `--version` as the agent user. It returns what that printed.
func (c CLI) Install(ctx context.Context, sb sandbox.Sandbox) (string, error) {
	if err := sandbox.EnsureUser(ctx, sb); err != nil {
		return "", err
	}
	if c.Asset.Path != "" {
		if err := c.upload(ctx, sb); err != nil {
			return "", err
		}
	}
	res, err := sb.Exec(ctx, sandbox.Cmd{Script: c.Command() + " --version", User: sandbox.AgentUser, Dir: "/tmp", Replayable: true})
	switch {
	case err != nil:
		return "", err
	case res.Code == 127 && c.Asset.Path == "":
		return "", &InstallError{c.Name, "the image does not have it, and no file to install it from is configured"}
	case !res.Ok():
		return "", &InstallError{c.Name, fmt.Sprintf("`%s --version` as the agent user: exit %d%s: %.400s", c.Name, res.Code, res.Signal, bytes.TrimSpace(append(res.Stderr, res.Stdout...)))}
	}
	return strings.TrimSpace(string(res.Stdout)), nil
}

// upload streams the program in, unless its mark says that it is there.
func (c CLI) upload(ctx context.Context, sb sandbox.Sandbox) error {
	asset := c.Asset
	if c.Musl.Path != "" {
		musl, err := isMusl(ctx, sb)
		if err != nil {
			return err
		}
		if musl {
			asset = c.Musl
		}
	}
	names := c.Names
	if names == nil {
		names = []string{c.Name}
	}
	file, sum, err := c.Store.Program(asset, names...)
	if err != nil {
		return err
	}
	mark := c.Bin() + "." + sum[:16]
	there, err := sb.Exec(ctx, sandbox.Cmd{Script: "[ -x " + sandbox.Path(c.Bin()) + " ] && [ -e " + sandbox.Path(mark) + " ]", Replayable: true})
	if err != nil || there.Ok() {
		return err
	}
	f, err := os.Open(file)
	if err != nil {
		return &AssetError{asset, err.Error()}
	}
	defer f.Close()
	if err := sb.WriteFile(ctx, c.Bin(), "", f); err != nil {
		return fmt.Errorf("upload %s: %w", c.Name, err)
	}
	_, err = sandbox.Output(ctx, sb, sandbox.Cmd{Replayable: true, Script: fmt.Sprintf("chmod 755 %s %s %s && : >%s",
		sandbox.Path(Home), sandbox.Path(Home+"/bin"), sandbox.Path(c.Bin()), sandbox.Path(mark))})
	return err
}

// isMusl reports whether the image's C library is musl.
func isMusl(ctx context.Context, sb sandbox.Sandbox) (bool, error) {
	res, err := sb.Exec(ctx, sandbox.Cmd{Replayable: true, Script: "r=" + sandbox.Path("") +
		`; ls "$r"/lib/ld-musl-* >/dev/null 2>&1 && ! ls "$r"/lib*/ld-linux-* "$r"/lib/*/ld-linux-* >/dev/null 2>&1`})
	return res.Ok(), err
}

// Dial tells whether the adapter is reached from inside the sandbox, by
// whatever the image has for it; nil too where it has nothing. A CLI of its
// own would find that out after minutes of retries.
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
	return &UnreachableError{baseURL, strings.TrimSpace(string(append(res.Stderr, res.Stdout...)))}
}

// dialScript tries what there is; 0 when something connected or nothing could try.
const dialScript = `unset http_proxy HTTP_PROXY https_proxy HTTPS_PROXY all_proxy ALL_PROXY
if command -v curl >/dev/null; then exec curl -sS -m 8 -o /dev/null "$URL"; fi
if command -v bash >/dev/null; then
	bash -c 'exec 3<>"/dev/tcp/$HOST/$PORT"' & p=$!
	(sleep 8; kill -9 $p 2>/dev/null) >/dev/null 2>&1 &
	wait $p; exit
fi
if command -v wget >/dev/null; then exec wget -q -T 8 -t 1 -O /dev/null "$URL"; fi
exit 0`

// An UnreachableError: the sandbox does not reach the adapter.
type UnreachableError struct{ URL, Detail string }

func (e *UnreachableError) Error() string {
	return fmt.Sprintf("the sandbox does not reach the adapter at %s (%s): check ADAPTER_PUBLIC_HOST and ADAPTER_PORT, that the adapter listens on an address "+
		"that sandboxes can route to (ADAPTER_BIND_HOST), and firewalls between", e.URL, e.Detail)
}

// NoProxy is the environment that keeps a proxy of the image or the row from
// catching the way to the adapter; other traffic goes as it did.
func NoProxy(baseURL string) map[string]string {
	hosts := "localhost,127.0.0.1,::1"
	if u, err := url.Parse(baseURL); err == nil && u.Hostname() != "" && net.ParseIP(u.Hostname()).IsLoopback() == false {
		hosts = u.Hostname() + "," + hosts
	}
	return map[string]string{"NO_PROXY": hosts, "no_proxy": hosts}
}

// Envs reads extra environment given as a JSON object of strings; variable is
// its name for the error.
func Envs(variable, object string) (map[string]string, error) {
	if object == "" {
		return nil, nil
	}
	var envs map[string]string
	if err := json.Unmarshal([]byte(object), &envs); err != nil {
		return nil, fmt.Errorf("%s: want a JSON object of strings, {\"NAME\":\"value\"}: %w", variable, err)
	}
	return envs, nil
}

// Tail is the end of a log; "" when there is none.
func Tail(ctx context.Context, sb sandbox.Sandbox, path string, max int) ([]byte, error) {
	data, err := sandbox.Tail(ctx, sb, path, max)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// LastEvent is the last line of a JSON-lines log that match accepts; nil for none.
func LastEvent(log []byte, match func(line []byte) bool) []byte {
	lines := bytes.Split(log, []byte("\n"))
	for i := len(lines) - 1; i >= 0; i-- {
		if line := bytes.TrimSpace(lines[i]); len(line) > 0 && line[0] == '{' && match(line) {
			return line
		}
	}
	return nil
}

// LastLines are the last n lines of a log, as text for a report.
func LastLines(log []byte, n int) string {
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	return strings.ToValidUTF8(string(bytes.Join(lines[max(len(lines)-n, 0):], []byte("\n"))), "\uFFFD")
}
