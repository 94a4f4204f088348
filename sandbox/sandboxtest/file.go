package sandboxtest

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
)

var fileCells = []cell{
	{"content", testContent},
	{"seen by commands", testSeen},
	{"replaced", testReplaced},
	{"atomic", testAtomic},
	{"missing", testMissing},
	{"directory", testDirectory},
	{"names", testNames},
	{"owner", testOwner},
	{"large", testLargeFile},
	{"reading left early", testLeftEarly},
}

func testContent(t *testing.T, b *bench) {
	sb := b.boot(t)
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for _, content := range []string{"", "x", "no newline", string(all), strings.Repeat("\x00", 70_000)} {
		write(t, sb, "/tmp/new/parent/file", "", content)
		if got := read(t, sb, "/tmp/new/parent/file"); got != content {
			t.Errorf("read %d bytes %q, wrote %d bytes %q", len(got), abbreviate(got), len(content), abbreviate(content))
		}
	}
	r := strings.NewReader("from its start")
	_, _ = io.ReadAll(r)
	if err := sb.WriteFile(t.Context(), "/tmp/again", "", r); err != nil {
		t.Fatal(err)
	}
	if got := read(t, sb, "/tmp/again"); got != "from its start" {
		t.Errorf("a content that was read before is written as %q", got)
	}
}

func testSeen(t *testing.T, b *bench) {
	sb := b.boot(t)
	write(t, sb, "/tmp/seen", "", "by a command\n")
	got := output(t, sb, sandbox.Cmd{Script: "cat " + sandbox.Path("/tmp/seen") + "; echo by a file >" + sandbox.Path("/tmp/back")})
	if got != "by a command" {
		t.Errorf("a command reads %q", got)
	}
	if got := read(t, sb, "/tmp/back"); got != "by a file\n" {
		t.Errorf("a command wrote %q", got)
	}
}

func testReplaced(t *testing.T, b *bench) {
	sb := b.boot(t)
	write(t, sb, "/tmp/f", "", strings.Repeat("long ", 1000))
	write(t, sb, "/tmp/f", "", "short")
	if got := read(t, sb, "/tmp/f"); got != "short" {
		t.Errorf("the replaced file holds %d bytes", len(got))
	}
}

// failing fails in the middle of a content.
type failing struct {
	*bytes.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	if f.Len() < 100_000 {
		return 0, f.err
	}
	return f.Reader.Read(p[:min(len(p), 4096)])
}

func (f *failing) WriteTo(io.Writer) (int64, error) { return 0, f.err }

func testAtomic(t *testing.T, b *bench) {
	sb := b.boot(t)
	write(t, sb, "/tmp/kept/f", "", "old")
	broken := &failing{bytes.NewReader(make([]byte, 300_000)), errors.New("disk of the host")}
	if err := sb.WriteFile(t.Context(), "/tmp/kept/f", "", broken); err == nil {
		t.Error("WriteFile of a content that cannot be read succeeds")
	}
	if got := read(t, sb, "/tmp/kept/f"); got != "old" {
		t.Errorf("after a write that failed the file holds %q", abbreviate(got))
	}
}

func testMissing(t *testing.T, b *bench) {
	sb := b.boot(t)
	_, err := sb.ReadFile(t.Context(), "/tmp/no/such/file")
	wantErr(t, "ReadFile of a missing file", err, fs.ErrNotExist)
	_, err = sandbox.Tail(t.Context(), sb, "/tmp/no/such/file", 10)
	wantErr(t, "Tail of a missing file", err, fs.ErrNotExist)
	err = sb.WriteFile(t.Context(), "relative", "", strings.NewReader(""))
	wantErr(t, "WriteFile to a relative path", err, sandbox.ErrInvalid)
}

func testDirectory(t *testing.T, b *bench) {
	sb := b.boot(t)
	write(t, sb, "/tmp/dir/f", "", "x")
	r, err := sb.ReadFile(t.Context(), "/tmp/dir")
	if err == nil {
		if _, err = io.ReadAll(r); err == nil {
			t.Error("a directory can be read like a file")
		}
		r.Close()
	}
	if err := sb.WriteFile(t.Context(), "/tmp/dir", "", strings.NewReader("x")); err == nil {
		t.Error("a directory can be written like a file")
	}
	if got := read(t, sb, "/tmp/dir/f"); got != "x" {
		t.Errorf("the directory's file holds %q", got)
	}
}

func testNames(t *testing.T, b *bench) {
	sb := b.boot(t)
	for _, name := range []string{"with space", "it's", `"quoted" $HOME`, "日本語", "-n", "a%20b?x=1&y", "back\\slash"} {
		path := "/tmp/names of files/" + name
		write(t, sb, path, "", name)
		if got := read(t, sb, path); got != name {
			t.Errorf("file %q holds %q", path, got)
		}
		if got := output(t, sb, sandbox.Cmd{Script: "cat <" + sandbox.Path(path)}); got != name {
			t.Errorf("file %q holds %q for a command", path, got)
		}
	}
}

func testOwner(t *testing.T, b *bench) {
	sb, user := b.withUser(t)
	write(t, sb, "/tmp/owned", user, "x")
	write(t, sb, "/tmp/roots", "", "x")
	script := "ls -ln " + sandbox.Path("/tmp/owned") + " " + sandbox.Path("/tmp/roots") + " | while read -r m n u rest; do echo $m $u; done; id -u; id -u " + user
	if b.caps.OneUser {
		t.Log("figure: there is one user")
		return
	}
	lines := strings.Split(output(t, sb, sandbox.Cmd{Script: script}), "\n")
	if len(lines) != 4 {
		t.Fatalf("ls printed %q", lines)
	}
	if want := "-rw-r--r-- " + lines[3]; lines[0] != want {
		t.Errorf("the agent's file is %q, want %q", lines[0], want)
	}
	if want := "-rw-r--r-- " + lines[2]; lines[1] != want {
		t.Errorf("root's file is %q, want %q", lines[1], want)
	}
}

// noise is size bytes that differ everywhere, without holding them.
type noise struct{ size, at int64 }

func (n *noise) Read(p []byte) (int, error) {
	if n.at >= n.size {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), n.size-n.at)]
	for i := range p {
		x := uint64(n.at+int64(i)) * 0x9e3779b97f4a7c15
		p[i] = byte(x >> 56)
	}
	n.at += int64(len(p))
	return len(p), nil
}

func (n *noise) Seek(offset int64, whence int) (int64, error) {
	n.at = offset + []int64{0, n.at, n.size}[whence]
	return n.at, nil
}

func testLargeFile(t *testing.T, b *bench) {
	sb := b.boot(t)
	const size = 32 << 20
	if err := sb.WriteFile(t.Context(), "/tmp/large", "", &noise{size: size}); err != nil {
		t.Fatal(err)
	}
	want, got := sha256.New(), sha256.New()
	_, _ = io.Copy(want, &noise{size: size})
	r, err := sb.ReadFile(t.Context(), "/tmp/large")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n, err := io.Copy(got, r)
	if err != nil || n != size || fmt.Sprintf("%x", got.Sum(nil)) != fmt.Sprintf("%x", want.Sum(nil)) {
		t.Errorf("read %d bytes, %v, sums equal: %t", n, err, bytes.Equal(got.Sum(nil), want.Sum(nil)))
	}
}

func testLeftEarly(t *testing.T, b *bench) {
	sb := b.boot(t)
	if err := sb.WriteFile(t.Context(), "/tmp/large", "", &noise{size: 4 << 20}); err != nil {
		t.Fatal(err)
	}
	r, err := sb.ReadFile(t.Context(), "/tmp/large")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Errorf("Close of a file that was not read to its end: %v", err)
	}
	if got := output(t, sb, sandbox.Cmd{Script: "echo alive"}); got != "alive" {
		t.Errorf("the sandbox answers %q", got)
	}
}
