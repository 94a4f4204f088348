package swe

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

// snapLib is the shell library that captures and applies patches.
//
//go:embed snap.sh
var snapLib string

// stepLimit bounds one step of capture or application. The largest repository
// measured took 15 s.
const stepLimit = 10 * time.Minute

// stateRoot is where our state in a sandbox lives: root's, outside of every
// work directory.
const stateRoot = "/var/lib/agentrl-swe/"

// A CaptureError is a failed snapshot, capture or restoration. It says nothing
// about the agent's work: a failed capture is not an empty patch.
type CaptureError struct {
	Step   string // "init", "lists", "tree", …
	Code   int    // exit status of the step; 0 when it ended otherwise
	Output string // the end of what it printed
}

func (e *CaptureError) Error() string {
	return fmt.Sprintf("capture: %s ended with %d: %s", e.Step, e.Code, strings.TrimSpace(e.Output))
}

// snap is the state that capture and application keep in one sandbox: a git
// repository of our own, an index, lists. It lives below a root-owned path.
type snap struct {
	sb  sandbox.Sandbox
	wd  string
	dir string
}

func newSnap(sb sandbox.Sandbox, workdir string) snap {
	sum := sha256.Sum256([]byte(sb.ID() + "\x00" + workdir))
	return snap{sb, workdir, stateRoot + hex.EncodeToString(sum[:8])}
}

// run runs calls of the library, one a line, to their end, through cut
// connections, and never twice. Calls share a job where they can: each job
// costs a few round trips.
func (s snap) run(ctx context.Context, calls ...string) error {
	lib := ". " + sandbox.Path(s.dir+"/lib.sh") + "\n"
	step, _, _ := strings.Cut(calls[0], " ")
	if step == "init" {
		lib = s.library()
	}
	log := s.dir + ".log"
	exit, err := detached(ctx, s.sb, sandbox.Cmd{Script: lib + strings.Join(calls, "\n") + "\n"}, log, stepLimit)
	if err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	if exit == (sandbox.Exit{}) {
		return nil
	}
	out, err := tail(ctx, s.sb, log)
	return cmp.Or[error](err, &CaptureError{Step: step, Code: exit.Code, Output: out})
}

func (s snap) library() string {
	return "WD=" + sandbox.Path(s.wd) + " SNAP=" + sandbox.Path(s.dir) + "\n" + snapLib
}

// writeList writes a list for the library's next call; an empty one is no file.
func (s snap) writeList(ctx context.Context, name string, paths []string) error {
	if len(paths) == 0 {
		return nil
	}
	return s.write(ctx, name, joinNUL(paths))
}

func (s snap) write(ctx context.Context, name string, data []byte) error {
	if err := s.sb.WriteFile(ctx, s.dir+"/"+name, "", bytes.NewReader(data)); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (s snap) read(ctx context.Context, name string, max int) ([]byte, error) {
	return readFile(ctx, s.sb, s.dir+"/"+name, max)
}

// readFile reads a whole file; one larger than max is an error.
func readFile(ctx context.Context, sb sandbox.Sandbox, path string, max int) ([]byte, error) {
	r, err := sb.ReadFile(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, int64(max)+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > max {
		return nil, &CaptureError{Step: "read", Output: fmt.Sprintf("%s is larger than %d bytes", path, max)}
	}
	return data, nil
}

// found reads the lists and facts that the last calls left.
func (s snap) found(ctx context.Context) (bundle, error) {
	data, err := s.read(ctx, "found", maxPatch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &CaptureError{Step: "read", Output: "no snapshot: was the work directory prepared in this sandbox?"}
	}
	if err != nil {
		return nil, err
	}
	return parseBundle(splitNUL(data)), nil
}

// A bundle is several lists by name.
type bundle map[string][]string

// parseBundle reads entries in which an empty one announces the next list's name.
func parseBundle(entries []string) bundle {
	b, name := bundle{}, ""
	for i := 0; i < len(entries); i++ {
		if entries[i] == "" && i+1 < len(entries) {
			i++
			name = entries[i]
			b[name] = nil
			continue
		}
		b[name] = append(b[name], strings.TrimPrefix(entries[i], "./"))
	}
	return b
}

// fact is a list of at most one entry.
func (b bundle) fact(name string) string {
	if len(b[name]) == 0 {
		return ""
	}
	return b[name][0]
}

func splitNUL(data []byte) []string {
	text := strings.TrimSuffix(string(data), "\x00")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\x00")
}

func joinNUL(paths []string) []byte {
	return []byte(strings.Join(paths, "\x00") + "\x00")
}
