package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/agentrl-go/agentrl/sandbox"
)

// image returns the directory that is the image's root; "/" for HostImage.
func (p *Provider) image(ctx context.Context, name string) (string, error) {
	if name == "" || name == HostImage {
		return "/", nil
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("image %q is neither %q nor a directory or tarball here: %w", name, HostImage, sandbox.ErrNoImage)
	case err != nil:
		return "", err
	case info.IsDir():
		return filepath.EvalSymlinks(path)
	case !strings.HasSuffix(path, ".tar") && !strings.HasSuffix(path, ".tar.gz") && !strings.HasSuffix(path, ".tgz"):
		return "", fmt.Errorf("image %q is a file and its name does not end in .tar, .tar.gz or .tgz: %w", name, sandbox.ErrInvalid)
	}
	return p.unpack(ctx, path, info)
}

// unpack unpacks a tarball unless that was done before. Another process may do
// the same: the one whose rename comes first wins, and a half unpacked image
// never has the name of a whole one.
func (p *Provider) unpack(ctx context.Context, path string, info fs.FileInfo) (string, error) {
	p.unpacking.Lock()
	defer p.unpacking.Unlock()
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%d\x00%d", path, info.Size(), info.ModTime().UnixNano()))
	dir := filepath.Join(p.dir(), "images", hex.EncodeToString(sum[:12]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return "", err
	}
	part, err := os.MkdirTemp(filepath.Dir(dir), "part-")
	if err != nil {
		return "", err
	}
	defer removeAll(part)
	if err := os.Chmod(part, 0o755); err != nil {
		return "", err
	}
	args := []string{"-xpf", path, "-C", part, "--exclude=./dev/*", "--exclude=dev/*"}
	if os.Getuid() == 0 {
		args = append(args, "--numeric-owner", "--same-owner")
	}
	if out, err := exec.CommandContext(ctx, "tar", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack image %s: %w: %s", path, err, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(part, dir); err != nil {
		if _, there := os.Stat(dir); there != nil {
			return "", err
		}
	}
	return dir, nil
}

// removeAll removes a tree, also one in which somebody took rights away from
// us that we can give back.
func removeAll(dir string) error {
	if os.RemoveAll(dir) == nil {
		return nil
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
