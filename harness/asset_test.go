package harness_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
)

const program = "\x7fELF native"

func write(t testing.TB, name, content string) harness.Asset {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return harness.Asset{Path: path}
}

func sumOf(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestProgramIsRecognisedByContent(t *testing.T) {
	scripts := map[string]string{
		"package/package.json": `{"name": "@v/claude-code", "version": "2.0.30", "bin": {"claude": "cli.js"}}`,
		"package/cli.js":       "#!/usr/bin/env node\n",
	}
	nested := map[string]string{
		"node_modules/@v/pi/package.json":  `{"name": "@v/pi", "version": "1.0.0", "bin": {"pi": "./dist/cli.js"}}`,
		"node_modules/@v/pi/dist/cli.js":   "#!/usr/bin/env node\n",
		"node_modules/dep/fixture.json":    "{",
		"node_modules/dep/package.json":    `not JSON`,
		"node_modules/dep/pi/package.json": `{"name": "pi", "version": "9.9.9", "bin": "other.sh"}`,
	}
	for name, c := range map[string]struct {
		asset harness.Asset
		names []string
		entry string
	}{
		"bare program":       {write(t, "claude", program), []string{"claude"}, ""},
		"platform package":   {harnesstest.Tarball(t, map[string]string{"package/package.json": "{}", "package/claude": program}), []string{"claude"}, ""},
		"second name":        {harnesstest.Tarball(t, map[string]string{"package/vendor/bin/codex-x": program}), []string{"codex", "codex-x"}, ""},
		"launcher of a name": {harnesstest.Tarball(t, map[string]string{"package/bin/claude": "#!/bin/sh\n", "package/vendor/claude": program}), []string{"claude"}, ""},
		"package of scripts": {harnesstest.Tarball(t, scripts), []string{"claude"}, "package/cli.js"},
		"with dependencies":  {harnesstest.Tarball(t, nested), []string{"pi"}, "node_modules/@v/pi/dist/cli.js"},
	} {
		t.Run(name, func(t *testing.T) {
			s := harness.NewStore(t.TempDir())
			for range 2 { // the second time from the cache
				p, err := s.Program(c.asset, c.names...)
				if err != nil || p.Entry != c.entry {
					t.Fatalf("Program(%v) = %+v, %v; want entry %q", c.names, p, err, c.entry)
				}
				data, err := os.ReadFile(p.File)
				if err != nil || sumOf(string(data)) != p.SHA256 || c.entry == "" && string(data) != program {
					t.Errorf("%s holds %d bytes, %v; its hash is not %s", p.File, len(data), err, p.SHA256)
				}
			}
		})
	}
}

func TestAssetsThatAreRefused(t *testing.T) {
	pinned := write(t, "claude", program)
	pinned.SHA256 = sumOf("another")
	whole, err := os.ReadFile(harnesstest.Tarball(t, map[string]string{"package/claude": program + strings.Repeat("x", 5000)}).Path)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		asset harness.Asset
		want  []string
	}{
		"missing":          {harness.Asset{Path: "/nowhere/claude.tgz"}, []string{"/nowhere/claude.tgz", "no such file"}},
		"none":             {harness.Asset{}, []string{"no file is configured"}},
		"a directory":      {harness.Asset{Path: t.TempDir()}, []string{"not a regular file"}},
		"empty":            {write(t, "x", ""), []string{"too short"}},
		"text":             {write(t, "x", strings.Repeat("text ", 200)), []string{"neither a native program nor a tarball"}},
		"another hash":     {pinned, []string{pinned.SHA256, sumOf(program), "pinned"}},
		"cut in the midst": {write(t, "x.tgz", string(whole[:len(whole)/2])), []string{"damaged"}},
		"cut at its end":   {write(t, "x.tgz", string(whole[:len(whole)-4])), []string{"damaged"}},
		"a flipped bit":    {write(t, "x.tgz", flipped(whole, len(whole)-5)), []string{"damaged"}},
		"npm's wrapper": {harnesstest.Tarball(t, map[string]string{
			"package/package.json":   `{"name": "@v/claude-code", "version": "2.1.332", "bin": {"claude": "bin/claude.exe"}}`,
			"package/bin/claude.exe": "echo native binary not installed >&2; exit 1\n",
		}), []string{"@v/claude-code@2.1.332", "-linux-x64"}},
		"nothing of that name": {harnesstest.Tarball(t, map[string]string{"a/b": program}), []string{"claude"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := harness.NewStore(dir).Program(c.asset, "claude")
			var bad *harness.AssetError
			if !errors.As(err, &bad) || !bad.Permanent() {
				t.Fatalf("error %v, want a permanent AssetError", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("the cache keeps %v", left)
			}
		})
	}
}

// flipped is data with one bit of its byte i changed.
func flipped(data []byte, i int) string {
	data = bytes.Clone(data)
	data[i] ^= 4
	return string(data)
}

// TestDamagedTail: the program is whole, and what comes behind it is not. Then
// who knows.
func TestDamagedTail(t *testing.T) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, name := range []string{"package/claude", "package/LICENSE"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(program))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(program)); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	_, err := harness.NewStore(dir).Program(write(t, "x.tar", packed.String()[:1024+512+5]), "claude")
	var bad *harness.AssetError
	if !errors.As(err, &bad) || !strings.Contains(err.Error(), "damaged") {
		t.Errorf("Program of a tarball cut behind the program: %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("the cache keeps %v", left)
	}
}

// TestDamagedCache: a file of the cache that is not what was unpacked any more.
func TestDamagedCache(t *testing.T) {
	a, dir := harnesstest.Tarball(t, map[string]string{"package/claude": program}), t.TempDir()
	p, err := harness.NewStore(dir).Program(a, "claude")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.File, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if got, err := harness.NewStore(dir).Program(a, "claude"); err != nil || got != p {
		t.Errorf("Program = %+v, %v; want %+v", got, err, p)
	}
	if data, err := os.ReadFile(p.File); string(data) != program {
		t.Errorf("%s holds %q, %v", p.File, data, err)
	}
}

func TestChangedFileIsHashedAnew(t *testing.T) {
	a := write(t, "claude", program)
	a.SHA256 = strings.ToUpper(sumOf(program))
	s := harness.NewStore(t.TempDir())
	if err := s.Check(a); err != nil {
		t.Fatalf("Check: %v", err)
	}
	if err := os.WriteFile(a.Path, []byte(program+"!"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(a); err == nil {
		t.Error("a file that was changed after its first use is accepted")
	}
}

func TestStoresShareADirectory(t *testing.T) {
	a := harnesstest.Tarball(t, map[string]string{"package/claude": program + strings.Repeat("y", 1<<20)})
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			p, err := harness.NewStore(dir).Program(a, "claude")
			if err != nil || p.SHA256 != sumOf(program+strings.Repeat("y", 1<<20)) {
				t.Errorf("Program = %+v, %v", p, err)
			}
		})
	}
	wg.Wait()
	if left, err := filepath.Glob(dir + "/.unpack-*"); err != nil || len(left) > 0 {
		t.Errorf("temporary files are left: %v, %v", left, err)
	}
}

func TestOtherCompressions(t *testing.T) {
	gz := harnesstest.Tarball(t, map[string]string{"node-v22/bin/node": program})
	for name, command := range map[string]string{"x.tar": "gzip -dc", "x.tar.xz": "gzip -dc | xz -c"} {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath("xz"); err != nil && strings.HasSuffix(name, "xz") {
				t.Skip("there is no xz")
			}
			cmd := exec.Command("sh", "-c", command)
			data, err := os.ReadFile(gz.Path)
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stdin = bytes.NewReader(data)
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			p, err := harness.NewStore(t.TempDir()).Program(write(t, name, string(out)), "node")
			if err != nil || p.SHA256 != sumOf(program) {
				t.Errorf("Program = %+v, %v", p, err)
			}
		})
	}
}

func FuzzProgram(f *testing.F) {
	data, err := os.ReadFile(harnesstest.Tarball(f, map[string]string{"package/package.json": `{"bin": {"claude": "cli.js"}}`, "package/cli.js": "x"}).Path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(program))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := harness.NewStore(t.TempDir()).Program(write(t, "asset", string(data)), "claude")
		var bad *harness.AssetError
		if err != nil && !errors.As(err, &bad) {
			t.Errorf("Program: %v, want an AssetError", err)
		}
		if err == nil && p.SHA256 == "" {
			t.Error("a program without a hash")
		}
	})
}
