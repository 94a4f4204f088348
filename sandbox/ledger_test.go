package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

// A park is a backend whose sandboxes outlive their maker: those of a Fake,
// which it can list and kill.
type park struct {
	sandboxtest.Fake
	mu   sync.Mutex
	age  time.Duration // of all of them
	deny error         // of Kill
	list []map[string]string
}

func (p *park) List(_ context.Context, labels map[string]string) ([]sandbox.Listed, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = append(p.list, maps.Clone(labels))
	var found []sandbox.Listed
	for _, sb := range p.Sandboxes() {
		match := !sb.Closed()
		for k, v := range labels {
			match = match && sb.Spec.Labels[k] == v
		}
		if match {
			found = append(found, sandbox.Listed{ID: sb.ID(), Labels: sb.Spec.Labels, Created: time.Now().Add(-p.age)})
		}
	}
	return found, nil
}

func (p *park) Kill(_ context.Context, id string) error {
	if p.deny != nil {
		return p.deny
	}
	for _, sb := range p.Sandboxes() {
		if sb.ID() == id {
			return sb.Close()
		}
	}
	return nil
}

// open opens a ledger; die gives its lock up as a dead process does.
func open(t *testing.T, dir string) (l *sandbox.Ledger, die func()) {
	t.Helper()
	l, err := sandbox.OpenLedger(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l, func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func create(t *testing.T, l *sandbox.Ledger, p sandbox.Provider) sandbox.Sandbox {
	t.Helper()
	sb, err := l.Wrap("park", p).Create(t.Context(), sandbox.Spec{Image: "i", Labels: map[string]string{"run": "one"}})
	if err != nil {
		t.Fatal(err)
	}
	return sb
}

// files returns the names of all files of a ledger that are entries.
func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".json") })
}

func TestLedgerEntry(t *testing.T) {
	dir, p := t.TempDir(), &park{}
	l, _ := open(t, dir)
	p.CreateFunc = func(_ context.Context, spec sandbox.Spec) error {
		if n := len(files(t, dir)); n != 1 {
			t.Errorf("while a sandbox is created there are %d entries, want its intent", n)
		}
		if spec.Labels[sandbox.LabelOwner] == "" || spec.Labels[sandbox.LabelEntry] == "" || spec.Labels["run"] != "one" {
			t.Errorf("labels are %v", spec.Labels)
		}
		return nil
	}
	sb := create(t, l, p)
	data, err := os.ReadFile(files(t, dir)[0])
	if err != nil || !strings.Contains(string(data), `"sandbox":"fake-1"`) {
		t.Errorf("the entry of a live sandbox is %s, %v", data, err)
	}
	if _, err := sandbox.RunDetached(t.Context(), sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: "x"}}); err != nil {
		t.Errorf("a backend's own way to run detached commands is lost: %v", err)
	}
	for range 2 {
		if err := sb.Close(); err != nil {
			t.Error(err)
		}
	}
	if left := files(t, dir); len(left) > 0 {
		t.Errorf("after Close there is %v", left)
	}
}

func TestLedgerFailures(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		kept int
	}{
		"refused":   {sandbox.ErrNoImage, 0},
		"rate":      {&sandbox.RateLimitError{}, 0},
		"closed":    {fmt.Errorf("boot: %w", sandbox.NothingLeft(sandbox.ErrUnresponsive)), 0},
		"ambiguous": {errors.New("connection reset"), 1},
		"cancelled": {context.Canceled, 1},
	} {
		dir, p := t.TempDir(), &park{}
		p.CreateFunc = func(context.Context, sandbox.Spec) error { return fmt.Errorf("create: %w", c.err) }
		l, _ := open(t, dir)
		_, err := l.Wrap("park", p).Create(t.Context(), sandbox.Spec{})
		if !errors.Is(err, c.err) || len(files(t, dir)) != c.kept {
			t.Errorf("%s: %v, %d entries, want %d", name, err, len(files(t, dir)), c.kept)
		}
	}
	dir, p := t.TempDir(), &park{}
	p.CloseFunc = func(*sandboxtest.FakeSandbox) error { return errors.New("API is down") }
	l, _ := open(t, dir)
	if err := create(t, l, p).Close(); err == nil || len(files(t, dir)) != 1 {
		t.Errorf("Close that fails: %v, %d entries, want an error and the entry", err, len(files(t, dir)))
	}
	if err := os.Chmod(dir, 0o500); err == nil && os.Getuid() != 0 {
		if _, err := sandbox.OpenLedger(dir); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("OpenLedger in a directory that cannot be written: %v", err)
		}
	}
}

func TestReap(t *testing.T) {
	dir, p := t.TempDir(), &park{}
	live, _ := open(t, dir)
	mine := create(t, live, p)
	dead, die := open(t, dir)
	create(t, dead, p)
	p.CreateFunc = func(context.Context, sandbox.Spec) error { return nil }
	create(t, dead, p)
	die()
	backends := map[string]sandbox.Provider{"park": p}

	p.deny = errors.New("API is down")
	if _, err := sandbox.Reap(t.Context(), dir, backends); !errors.Is(err, p.deny) {
		t.Errorf("Reap with an API that is down: %v", err)
	}
	if _, err := sandbox.Reap(t.Context(), dir, nil); err == nil || !strings.Contains(err.Error(), `"park"`) {
		t.Errorf("Reap without the backend: %v", err)
	}
	p.deny = nil
	done, err := sandbox.Reap(t.Context(), dir, backends)
	slices.Sort(done.Killed)
	if err != nil || !slices.Equal(done.Killed, []string{"fake-2", "fake-3"}) || done.Live != 1 {
		t.Errorf("Reap = %+v, %v, want fake-2 and fake-3 killed and one live", done, err)
	}
	if done, err := sandbox.Reap(t.Context(), dir, backends); err != nil || len(done.Killed) > 0 {
		t.Errorf("Reap again = %+v, %v", done, err)
	}
	if p.Live() != 1 || len(files(t, dir)) != 1 {
		t.Errorf("%d alive, %d entries, want our own", p.Live(), len(files(t, dir)))
	}
	if err := mine.Close(); err != nil {
		t.Error(err)
	}
}

// A creation whose reply was lost has an intent and, somewhere, a sandbox.
func TestReapIntent(t *testing.T) {
	dir, p := t.TempDir(), &park{}
	dead, die := open(t, dir)
	lossy := &losing{p}
	if _, err := dead.Wrap("park", lossy).Create(t.Context(), sandbox.Spec{}); err == nil {
		t.Fatal("Create succeeds")
	}
	die()
	done, err := sandbox.Reap(t.Context(), dir, map[string]sandbox.Provider{"park": p})
	if err != nil || len(done.Killed) != 1 || p.Live() != 0 {
		t.Errorf("Reap = %+v, %v, %d alive", done, err, p.Live())
	}
}

// A process that lives settles what it left in doubt itself.
func TestSettle(t *testing.T) {
	dir, p := t.TempDir(), &park{deny: errors.New("the backend is away")}
	l, die := open(t, dir)
	if _, err := l.Wrap("park", &losing{p}).Create(t.Context(), sandbox.Spec{}); err == nil {
		t.Fatal("Create succeeds")
	}
	if err := l.Settle(t.Context()); !errors.Is(err, p.deny) || len(files(t, dir)) != 1 {
		t.Errorf("Settle: %v, %v left; want the backend's error and the entry", err, files(t, dir))
	}
	p.deny = nil
	if err := l.Settle(t.Context()); err != nil || len(files(t, dir)) != 0 || p.Live() != 0 {
		t.Errorf("Settle: %v, %v left, %d alive", err, files(t, dir), p.Live())
	}
	die()
}

type losing struct{ *park }

func (l *losing) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	_, err := l.park.Create(ctx, spec)
	return nil, errors.Join(err, errors.New("reply lost"))
}

// The folders of another machine are not ours to judge.
func TestReapForeign(t *testing.T) {
	dir, p := t.TempDir(), &park{}
	l, die := open(t, dir)
	create(t, l, p)
	die()
	hosts, _ := filepath.Glob(filepath.Join(dir, "*", "host"))
	if err := os.WriteFile(hosts[0], []byte("elsewhere"), 0o600); err != nil {
		t.Fatal(err)
	}
	done, err := sandbox.Reap(t.Context(), dir, map[string]sandbox.Provider{"park": p})
	if err != nil || done.Foreign != 1 || p.Live() != 1 {
		t.Errorf("Reap = %+v, %v, %d alive, want the other machine's left alone", done, err, p.Live())
	}
	p.age = 48 * time.Hour
	by, err := sandbox.ReapLabelled(t.Context(), p, map[string]string{"run": "one"}, time.Hour, dir)
	if err != nil || len(by.Killed) != 0 {
		t.Errorf("ReapLabelled = %+v, %v, want the other machine's left alone", by, err)
	}
}

func TestReapLabelled(t *testing.T) {
	dir, p := t.TempDir(), &park{age: time.Hour}
	live, _ := open(t, dir)
	create(t, live, p)
	dead, die := open(t, dir)
	create(t, dead, p)
	die()
	if _, err := sandbox.ReapLabelled(t.Context(), p, nil, 0, dir); !errors.Is(err, sandbox.ErrInvalid) || p.Live() != 2 {
		t.Errorf("ReapLabelled of everything: %v, %d alive", err, p.Live())
	}
	if done, err := sandbox.ReapLabelled(t.Context(), p, nil, 2*time.Hour, dir); err != nil || len(done.Killed) != 0 {
		t.Errorf("ReapLabelled of what is older = %+v, %v", done, err)
	}
	if done, err := sandbox.ReapLabelled(t.Context(), p, map[string]string{"run": "two"}, 0, dir); err != nil || len(done.Killed) != 0 {
		t.Errorf("ReapLabelled of another run = %+v, %v", done, err)
	}
	done, err := sandbox.ReapLabelled(t.Context(), p, map[string]string{"run": "one"}, 0, dir)
	if err != nil || !slices.Equal(done.Killed, []string{"fake-2"}) || p.Live() != 1 {
		t.Errorf("ReapLabelled = %+v, %v, %d alive, want the dead process's killed", done, err, p.Live())
	}
}
