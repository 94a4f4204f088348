package local

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

func TestReapNamespaces(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("namespaces with users need root")
	}
	sandboxtest.TestReap(t, func(dir string) sandbox.Provider { return &Provider{Dir: dir} }, sandbox.Spec{}, countHere)
}

func TestReapPlain(t *testing.T) {
	sandboxtest.TestReap(t, func(dir string) sandbox.Provider { return &Provider{Dir: dir, Want: Plain} }, sandbox.Spec{}, countHere)
}

// countHere counts what there is of sandboxes in a directory: directories of
// theirs, mounts over them in any process's namespace, and processes.
func countHere(dir string) (int, error) {
	dirs, err := filepath.Glob(filepath.Join(dir, "sandboxes", "*"))
	if err != nil {
		return 0, err
	}
	n := len(dirs)
	seen := map[string]bool{}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return 0, err
	}
	for _, proc := range procs {
		env, _ := os.ReadFile(proc + "/environ")
		mounts, _ := os.ReadFile(proc + "/mounts")
		root, _ := os.Readlink(proc + "/ns/mnt")
		if bytes.Contains(env, []byte(dir+"/sandboxes/")) { // of a plain directory: RootVar
			n++
		}
		if bytes.Contains(mounts, []byte(dir+"/sandboxes/")) && !seen[root] {
			seen[root] = true
			n++
		}
	}
	return n, nil
}
