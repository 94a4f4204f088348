package harness_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/local/localtest"
)

// plainBox is a sandbox of this machine, whose own programs are native ones.
func plainBox(t *testing.T) sandbox.Sandbox {
	t.Helper()
	return localtest.Boot(t, "", sandbox.Spec{})
}

// native is a program that runs here and ends in the given byte.
func native(t *testing.T, end string) []byte {
	t.Helper()
	data, err := os.ReadFile("/bin/true")
	if err != nil || !strings.HasPrefix(string(data), "\x7fELF") {
		t.Skipf("/bin/true is no native program: %v", err)
	}
	return append(data, end...)
}

func cliOf(t *testing.T, content []byte) harness.CLI {
	t.Helper()
	return harness.CLI{Name: "tool", Store: harness.NewStore(t.TempDir()), Asset: write(t, "tool", string(content)), Hint: "the hint"}
}

// TestAnotherVersionIsReplaced: also one that was there before, and one in an
// image with the marks of several.
func TestAnotherVersionIsReplaced(t *testing.T) {
	sb := plainBox(t)
	install := func(end string) {
		t.Helper()
		if _, err := cliOf(t, native(t, end)).Install(t.Context(), sb); err != nil {
			t.Fatal(err)
		}
		if got, err := sandbox.Output(t.Context(), sb, sandbox.Cmd{Script: "tail -c 1 /opt/agentrl/bin/tool"}); got != end {
			t.Errorf("after the installation of %s there is %q, %v", end, got, err)
		}
	}
	install("A")
	if _, err := sandbox.Output(t.Context(), sb, sandbox.Cmd{Script: "cd /opt/agentrl/bin; mkdir /srv/marks; cp tool.???????????????? /srv/marks"}); err != nil {
		t.Fatal(err)
	}
	install("B")
	install("A")
	install("B")
	if _, err := sandbox.Output(t.Context(), sb, sandbox.Cmd{Script: "cp /srv/marks/* /opt/agentrl/bin"}); err != nil {
		t.Fatal(err)
	}
	install("A")
}

func TestProgramOfAnotherMachine(t *testing.T) {
	sb := plainBox(t)
	other := native(t, "")
	machine := other[18:20] // e_machine, of files with the least significant byte first
	if binary.LittleEndian.Uint16(machine) == 183 {
		binary.LittleEndian.PutUint16(machine, 62)
	} else {
		binary.LittleEndian.PutUint16(machine, 183)
	}
	_, err := cliOf(t, other).Install(t.Context(), sb)
	var refused *harness.InstallError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "tool is built for ") || !strings.Contains(err.Error(), "the hint") {
		t.Errorf("Install: %v, want one that names both machines", err)
	}
	if out, err := sandbox.Output(t.Context(), sb, sandbox.Cmd{Script: "ls " + filepath.Join(harness.Home, "bin") + " 2>/dev/null; :"}); out != "" || err != nil {
		t.Errorf("it was uploaded all the same: %q, %v", out, err)
	}
}
