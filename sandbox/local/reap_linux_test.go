package local

import (
	"bytes"
	"fmt"
	"io/fs"
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
	sandboxtest.TestReap(t, func(dir string) sandbox.Provider { return &Provider{Dir: dir} }, sandbox.Spec{}, listHere)
}

func TestReapPlain(t *testing.T) {
	sandboxtest.TestReap(t, func(dir string) sandbox.Provider { return &Provider{Dir: dir, Want: Plain} }, sandbox.Spec{}, listHere)
}

// listHere lists what there is of sandboxes in a directory or below it: directories of
// theirs, mount namespaces with mounts of it, and processes of plain ones.
func listHere(dir string) ([]string, error) {
	var names []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && filepath.Base(filepath.Dir(path)) == "sandboxes" {
			names = append(names, path)
			return fs.SkipDir
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	procs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, proc := range procs {
		env, _ := os.ReadFile(proc + "/environ")
		mounts, _ := os.ReadFile(proc + "/mounts")
		line, _ := os.ReadFile(proc + "/cmdline")
		ns, _ := os.Readlink(proc + "/ns/mnt")
		if bytes.Contains(env, []byte(sandbox.RootVar+"="+dir+"/")) {
			names = append(names, fmt.Sprintf("process %s %.60q", proc, line))
		}
		if bytes.Contains(mounts, []byte(dir+"/")) && !seen[ns] {
			seen[ns] = true
			names = append(names, "namespace "+ns)
		}
	}
	return names, nil
}
