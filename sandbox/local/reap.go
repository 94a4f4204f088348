package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

var _ sandbox.Reaper = (*Provider)(nil)

// note is what a sandbox's directory says about it.
type note struct {
	Labels  map[string]string `json:"labels"`
	Created time.Time         `json:"created"`
}

const noteFile = "sandbox.json"

// record makes the sandbox's directory with its note, in one step.
func (b *box) record() error {
	data, err := json.Marshal(note{Labels: b.spec.Labels, Created: time.Now().UTC()})
	if err != nil {
		return err
	}
	part := b.dir + ".part"
	if err := os.Mkdir(part, 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(part, noteFile), data, 0o600); err != nil {
		return errors.Join(err, removeAll(part))
	}
	return os.Rename(part, b.dir)
}

// List returns the sandboxes in Dir, of all processes, that have the labels.
func (p *Provider) List(ctx context.Context, labels map[string]string) ([]sandbox.Listed, error) {
	dirs, err := os.ReadDir(filepath.Join(p.dir(), "sandboxes"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list: %w", err)
	}
	var list []sandbox.Listed
	for _, d := range dirs {
		data, err := os.ReadFile(filepath.Join(p.dir(), "sandboxes", d.Name(), noteFile))
		if errors.Is(err, fs.ErrNotExist) {
			continue // closed meanwhile
		}
		var n note
		if err := errors.Join(err, json.Unmarshal(data, &n)); err != nil {
			return nil, fmt.Errorf("list: %s: %w", d.Name(), err)
		}
		if hasLabels(n.Labels, labels) {
			list = append(list, sandbox.Listed{ID: d.Name(), Labels: n.Labels, Created: n.Created})
		}
	}
	return list, nil
}

func hasLabels(all, want map[string]string) bool {
	for k, v := range want {
		if got, ok := all[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// Kill kills what runs in a sandbox of any process and removes it. When the
// process has died, the namespaces have ended by themselves; what is killed
// here is a boot that had not finished, and a plain directory's processes.
func (p *Provider) Kill(ctx context.Context, id string) error {
	if id != filepath.Base(id) || !strings.HasPrefix(id, "local-") {
		return fmt.Errorf("kill %q: not the id of a local sandbox: %w", id, sandbox.ErrInvalid)
	}
	dir := filepath.Join(p.dir(), "sandboxes", id)
	if err := killMarked(markVar + "=" + id); err != nil {
		return fmt.Errorf("kill %s: %w", id, err)
	}
	if err := errors.Join(waitUnmounted(ctx, dir), removeAll(dir)); err != nil {
		return fmt.Errorf("kill %s: %w", id, err)
	}
	return nil
}
