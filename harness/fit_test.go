package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

func TestNeedsOfThisMachinesPrograms(t *testing.T) {
	path, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("this machine has no sh")
	}
	n, err := needsOf(path)
	if err != nil || n.loader == "" {
		t.Skipf("sh is linked statically, or no ELF: %+v, %v", n, err)
	}
	if _, err := os.Stat(n.loader); err != nil {
		t.Errorf("loader %q: %v", n.loader, err)
	}
	if n.unmet("sh", libc{loader: true, versions: n.versions}) != "" {
		t.Errorf("%+v is not met by its own versions", n)
	}
}

func TestUnmet(t *testing.T) {
	n := needs{loader: "/lib64/ld", versions: []string{"GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.4"}}
	old := []string{"GLIBC_2.2.5", "GLIBC_2.4", "GLIBC_2.12", "GLIBC_2.9"}
	for name, c := range map[string]struct {
		image libc
		want  string
	}{
		"another libc":   {libc{other: "/lib/ld-musl-x86_64.so.1"}, "x is built for glibc (/lib64/ld), and the image has musl (/lib/ld-musl-x86_64.so.1)"},
		"none":           {libc{}, "x needs the dynamic loader /lib64/ld, which the image does not have"},
		"older":          {libc{loader: true, versions: old}, "the image's glibc is 2.12, and x needs 2.17"},
		"newer":          {libc{loader: true, versions: append(slices.Clone(old), "GLIBC_2.17", "GLIBC_2.36", "GLIBC_ABI_DT_RELR")}, ""},
		"cannot be told": {libc{loader: true}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := n.unmet("x", c.image); got != c.want {
				t.Errorf("unmet: %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzNeeds(f *testing.F) {
	f.Add([]byte("\x7fELF native"))
	if self, err := os.ReadFile("/bin/true"); err == nil {
		f.Add(self)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file := filepath.Join(t.TempDir(), "program")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := needsOf(file); err != nil && (n.loader != "" || n.versions != nil) {
			t.Errorf("needsOf: %+v beside %v", n, err)
		}
	})
}
