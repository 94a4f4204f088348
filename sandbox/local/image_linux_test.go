package local

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

// busyboxImage is a tarball of the smallest root there is: no bash, no
// util-linux, no coreutils, no agent, and a last line without an end.
func busyboxImage(t *testing.T) string {
	t.Helper()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("needs busybox (static) on this machine")
	}
	root := t.TempDir()
	script := `mkdir -p bin etc work/dir && cp "$1" bin/busybox && chroot . /bin/busybox --install -s /bin || exit 1
printf 'root:x:0:0::/root:/bin/sh' >etc/passwd; printf 'root:x:0:' >etc/group; echo x >work/dir/file; tar -czf ../image.tar.gz .`
	image := filepath.Join(t.TempDir(), "image.tar.gz")
	c := exec.Command("sh", "-c", strings.Replace(script, "../image.tar.gz", image, 1), "sh", busybox)
	c.Dir = root
	if out, err := c.CombinedOutput(); err != nil {
		t.Skipf("no image of busybox: %v: %s", err, out)
	}
	return image
}

func TestBusybox(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	if os.Getuid() != 0 {
		t.Skip("namespaces with users need root")
	}
	sandboxtest.CheckGoroutines(t)
	p := &Provider{Dir: t.TempDir()}
	caps := sandboxtest.Caps{NoImage: "/no/such/image.tar", Egress: []sandbox.Egress{sandbox.EgressAdapter, sandbox.EgressOff}}
	caps.Spec = sandbox.Spec{Image: busyboxImage(t), Workdir: "/work/dir"}
	sandboxtest.Test(t, func(*testing.T) sandbox.Provider { return p }, caps)
}

func TestImages(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "image.txt")
	broken := filepath.Join(dir, "image.tar")
	for _, file := range []string{text, broken} {
		if err := os.WriteFile(file, []byte("no image"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := &Provider{Dir: filepath.Join(dir, "state"), Want: Plain}
	for image, want := range map[string]error{"/no/such": sandbox.ErrNoImage, text: sandbox.ErrInvalid} {
		if _, err := p.Create(t.Context(), sandbox.Spec{Image: image}); !errors.Is(err, want) {
			t.Errorf("Create(%s): %v, want %v", image, err, want)
		}
	}
	if _, err := p.Create(t.Context(), sandbox.Spec{Image: broken}); err == nil || !strings.Contains(err.Error(), broken) {
		t.Errorf("Create of a broken tarball: %v", err)
	}
	if _, err := p.Create(t.Context(), sandbox.Spec{Workdir: "relative"}); !errors.Is(err, sandbox.ErrInvalid) {
		t.Errorf("Create with a relative work directory: %v", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "state", "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("refused creations leave %v, %v", left, err)
	}
}

// The image is a directory of one's own in every kind of isolation that needs
// no root file system: a copy, which is thrown away.
func TestPlainImage(t *testing.T) {
	image := t.TempDir()
	if err := os.MkdirAll(filepath.Join(image, "repo"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := &Provider{Dir: t.TempDir(), Want: Plain}
	sb, err := p.Create(t.Context(), sandbox.Spec{Image: image, Workdir: "/repo"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sandbox.Output(t.Context(), sb, sandbox.Cmd{Script: "echo x >new; mkdir locked && : >locked/f && chmod 0 locked", Dir: "/repo"}); err != nil {
		t.Error(err)
	}
	if err := sb.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(filepath.Join(image, "repo")); len(left) > 0 {
		t.Errorf("the image has %v", left)
	}
	if left, _ := filepath.Glob(filepath.Join(p.Dir, "sandboxes", "*")); len(left) > 0 {
		t.Errorf("Close leaves %v", left)
	}
}
