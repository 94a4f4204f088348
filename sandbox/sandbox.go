// Package sandbox is the contract between agentrl and whatever runs untrusted
// code for it: a machine with a file system and a shell, made from an image,
// used for one agent or one evaluation, and thrown away. Backends are
// sub-packages; sandboxtest.Test is the contract as a test.
package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// AgentUser is the unprivileged user that agents and tests run as.
const AgentUser = "agent"

// A Provider creates sandboxes. It is safe for concurrent use.
type Provider interface {
	// Create boots a sandbox and returns when commands can be run in it. On an
	// error nothing of it is left alive, or the ledger knows of it.
	Create(ctx context.Context, spec Spec) (Sandbox, error)
}

// Egress says what a sandbox may reach on the network.
type Egress string

const (
	EgressOpen    Egress = ""        // whatever the backend's network reaches
	EgressAdapter Egress = "adapter" // Spec.Adapter and nothing else
	EgressOff     Egress = "off"     // nothing
)

// A Spec says what to boot.
type Spec struct {
	Image    string            // what an image is, is the backend's: a reference, a template, a directory
	Workdir  string            // absolute; a backend verifies it after boot: see ErrNoWorkdir. "" verifies nothing
	Env      map[string]string // in every command's environment
	Labels   map[string]string // [A-Za-z0-9._-] only; what a reaper finds the sandbox by
	Lifetime time.Duration     // the backend may destroy the sandbox after this; 0 means the backend's default
	Egress   Egress
	Adapter  string // base URL of the adapter, for EgressAdapter and for a dial-back route
}

// A Sandbox is one running machine. Its methods are safe for concurrent use.
type Sandbox interface {
	// ID names the sandbox at its backend.
	ID() string
	// Exec runs a command to its end. A non-zero exit is a Result; an error
	// means that the outcome is unknown, or ErrGone that there is no sandbox.
	Exec(ctx context.Context, cmd Cmd) (Result, error)
	// WriteFile puts content at path, owned by user ("" is root), atomically:
	// the path holds the old bytes or all of the new. Parents are made. The
	// content is read from its start, again if the transport has to. The mode
	// is 0644; a path is absolute.
	WriteFile(ctx context.Context, path, user string, content io.ReadSeeker) error
	// ReadFile opens a file as root. A missing one is fs.ErrNotExist; a read
	// that ends before the file does is an error, never a short file.
	ReadFile(ctx context.Context, path string) (io.ReadCloser, error)
	// Close destroys the sandbox and everything that runs in it. It is detached
	// from every context, bounded by itself, and idempotent. Its error is to be
	// logged and ledgered; it fails no rollout.
	Close() error
}

// An Extender is a Sandbox whose life ends by itself and can be made longer.
type Extender interface {
	// Extend makes sure that the sandbox lives for d from now at least, as far
	// as the backend allows.
	Extend(ctx context.Context, d time.Duration) error
}

// A Cmd is one shell command: `sh -c Script`, no login shell, stdin /dev/null.
// It has returned when the shell has exited, whoever still holds its output. A
// user or a directory that the sandbox does not have is an error wrapping
// ErrInvalid: the command did not run.
type Cmd struct {
	Script     string            // any length; spell absolute paths in it with Path
	User       string            // "" is root; HOME, USER and LOGNAME are the user's
	Env        map[string]string // beside the sandbox's own, and before it
	Dir        string            // absolute; "" is "/"
	Replayable bool              // may be run again when it is unknown whether it ran
}

// Check refuses what a process cannot be given. The error is an ErrInvalid.
func (c Cmd) Check() error {
	texts := []string{c.Script, c.User, c.Dir}
	for k, v := range c.Env {
		if k == "" || strings.Contains(k, "=") {
			return fmt.Errorf("%w: variable %q", ErrInvalid, k)
		}
		texts = append(texts, k, v)
	}
	for _, s := range texts {
		if strings.ContainsRune(s, 0) {
			return fmt.Errorf("%w: a command cannot hold a NUL byte", ErrInvalid)
		}
	}
	return nil
}

// A Result is how a command ended.
type Result struct {
	Code   int    // exit status; 0 when Signal is set
	Signal string // "SIGKILL", … when the shell itself was killed by a signal, else ""
	Stdout []byte
	Stderr []byte
}

// Ok reports whether the command exited with status 0.
func (r Result) Ok() bool { return r.Code == 0 && r.Signal == "" }

// Errors that callers tell apart with errors.Is. Backends wrap them.
var (
	// ErrGone: the sandbox does not exist any more.
	ErrGone = errors.New("sandbox is gone")
	// ErrUnresponsive: the sandbox exists and does not answer.
	ErrUnresponsive = errors.New("sandbox does not answer")
	// ErrUnauthorized: the backend refuses the key or the permission.
	ErrUnauthorized = errors.New("sandbox backend refused the credentials")
	// ErrInvalid: the backend refuses the request as wrong; the same will be refused again.
	ErrInvalid = errors.New("sandbox backend refused the request")
	// ErrNoImage: the backend has no such image.
	ErrNoImage = errors.New("no such sandbox image")
	// ErrNoWorkdir: the image booted without the work directory: the wrong image.
	ErrNoWorkdir = errors.New("sandbox image has no such work directory")
	// ErrNoSpace: the sandbox's disk is full.
	ErrNoSpace = errors.New("no space left in sandbox")
	// ErrCut: a stream ended before the command did; the command may still run.
	ErrCut = errors.New("command stream was cut")
)

// NothingLeft marks the error of a creation after which certainly no sandbox is
// left, made or half-made: a Ledger keeps its entry of any other, for a reaper
// to look. Errors that refuse a creation, such as ErrNoImage, say so themselves.
func NothingLeft(err error) error { return &nothingLeftError{err} }

type nothingLeftError struct{ err error }

func (e *nothingLeftError) Error() string { return e.err.Error() }

func (e *nothingLeftError) Unwrap() error { return e.err }

// RateLimitError: the backend wants fewer requests or fewer sandboxes.
type RateLimitError struct {
	RetryAfter time.Duration // 0 when the backend does not say
	Message    string
}

func (e *RateLimitError) Error() string { return "sandbox backend limits the rate: " + e.Message }

// CapacityError: the backend has no room now.
type CapacityError struct{ Code, Message string }

func (e *CapacityError) Error() string {
	return "sandbox backend has no capacity (" + e.Code + "): " + e.Message
}

// ExitError is the error of Output for a command that did not exit with 0.
type ExitError struct {
	Cmd    Cmd
	Result Result
}
