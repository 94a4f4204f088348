package mini

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/local/localtest"
)

// TestCommandsOfAllKinds: whatever a model asks for is answered; none of it is
// a fault of the sandbox.
func TestCommandsOfAllKinds(t *testing.T) {
	sb := localtest.Boot(t, "", sandbox.Spec{})
	h := New(Options{})
	if err := h.Install(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	a := &agent{opts: h.opts, sb: sb, job: harness.Job{Workdir: "/srv"}}
	for name, c := range map[string]struct{ command, want string }{
		"plain":            {"echo one; echo two >&2; exit 3", "one\ntwo\n\n[exit status 3]"},
		"nothing":          {"", "[no output]"},
		"a NUL":            {"echo a\x00b", "A command cannot hold a NUL byte."},
		"no UTF-8":         {"printf '\\377'", "\uFFFD"},
		"a long one":       {"wc -c <<'EOF'\n" + strings.Repeat("x\n", 80_000) + "EOF\ncat; exit 4", "160000\n\n[exit status 4]"},
		"outputs anew":     {"echo one; echo two >/dev/stderr; echo three >/dev/stdout", "one\ntwo\nthree\n"},
		"a daemon":         {"(sleep 100 &) ; echo up", "up\n"},
		"killed":           {"kill -9 $$", "Killed\n\n[exit status 137]"},
		"its parent":       {"kill -9 $PPID", "[exit status 137]"},
		"reads its input":  {"read x; echo $?", "1\n"},
		"leaves no trace":  {"env | grep -c AGENTRL_COMMAND", "0\n\n[exit status 1]"},
		"without its PATH": {"unset PATH; echo ok", "ok\n"},
	} {
		t.Run(name, func(t *testing.T) {
			args, err := json.Marshal(map[string]string{"command": c.command})
			if err != nil {
				t.Fatal(err)
			}
			var call toolCall
			call.Function.Name, call.Function.Arguments = "bash", string(args)
			if got, err := a.call(t.Context(), call); err != nil || !strings.HasSuffix(got, c.want) {
				t.Errorf("call: %q, %v; want %q", got, err, c.want)
			}
		})
	}
}

func TestEndlessOutputStaysInTheSandbox(t *testing.T) {
	sb := localtest.Boot(t, "", sandbox.Spec{})
	if err := sandbox.EnsureUser(t.Context(), sb); err != nil {
		t.Fatal(err)
	}
	text, command := script("echo begin; head -c 100000000 /dev/zero | tr '\\0' x; echo end; exit 5")
	res, err := sb.Exec(t.Context(), sandbox.Cmd{Script: text, User: sandbox.AgentUser, Env: map[string]string{
		"AGENTRL_COMMAND": command, "AGENTRL_TIMEOUT": "100", "AGENTRL_MAX_OUTPUT": "1000",
	}})
	if err != nil || res.Code != 5 || len(res.Stdout) > 1100 || !strings.HasPrefix(string(res.Stdout), "begin\nxxx") || !strings.Contains(string(res.Stdout), "bytes left out]") {
		t.Errorf("exit %d, %d bytes, %v: %.100q", res.Code, len(res.Stdout), err, res.Stdout)
	}
}
