// Package cases finds the inputs of tests that are not part of this
// repository. Only tests import it.
package cases

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// Dir returns the folder name of the cases that AGENTRL_CASES names. Where it
// names none, the test is skipped.
func Dir(t testing.TB, name string) string {
	t.Helper()
	root := os.Getenv("AGENTRL_CASES")
	if root == "" {
		t.Skipf("AGENTRL_CASES is not set: no %s cases here", name)
	}
	dir := filepath.Join(root, name)
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("AGENTRL_CASES: %v", err)
	}
	return dir
}

// Cache returns a path below the repository's git-ignored .cache folder, which
// make targets fill with what is downloaded. Where it is missing, the test is
// skipped with the target that brings it.
func Cache(t testing.TB, path, target string) string {
	t.Helper()
	full := filepath.Join(Root(), ".cache", path)
	if _, err := os.Stat(full); err != nil {
		t.Skipf("%s is not in .cache: run `make %s`", path, target)
	}
	return full
}

// Root returns the repository's top folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}
