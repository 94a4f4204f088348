package harnesstest

import (
	"archive/tar"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/internal/shell"
)

// StandIn writes an executable that stands for a CLI: a script for sh, called
// name, in a folder to be put into the sandbox's PATH. Without arguments other
// than --version it prints a version, so that Install accepts it; else it runs
// the script with its arguments.
func StandIn(t testing.TB, name, script string) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "agentrl-standin-") // not below the directory of a test, which only root may read
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	text := "#!/bin/sh\n[ \"$1\" = --version ] && { echo \"1.2.3 (stand-in)\"; exit; }\nexec sh -c " + shell.Quote(script) + " " + name + " \"$@\"\n"
	for _, err := range []error{os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Tarball writes a gzipped tarball of the files, by name, as npm packs them.
func Tarball(t testing.TB, files map[string]string) harness.Asset {
	t.Helper()
	path := filepath.Join(t.TempDir(), "package.tgz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	zip := gzip.NewWriter(f)
	w := tar.NewWriter(zip)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []interface{ Close() error }{w, zip, f} {
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return harness.Asset{Path: path}
}
