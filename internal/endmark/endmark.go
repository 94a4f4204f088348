// Package endmark tells when a shell has ended on a backend whose stream ends
// only when the last holder of the shell's output does: a daemon left in the
// background would otherwise hold every caller. The shell runs under a wrapper
// that writes a mark, unguessable and fresh for each command, behind the
// shell's last byte on both streams; what comes after a mark is somebody
// else's. The wrapper also keeps an exit status apart from a signal's, which
// `$?` alone does not: 137 is both `exit 137` and SIGKILL.
package endmark

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"syscall"
)

// The wrapper runs on dash, bash and busybox. A fresh shell in the middle, its
// stderr caught, waits for the real one: if that was killed, it says so there
// ("Killed"), and not for a plain exit status. Only SIGINT and SIGPIPE are
// reported by no shell: they remain 130 and 141. Descriptors 3 and 4 carry the
// real streams past the substitution and are closed for the command.
const wrapper = `mark=$1; shift
run() {
	exec 3>&1 4>&2 5>&-
	m=$(exec /bin/sh -c '(exec "$@" </dev/null >&3 2>&4 3>&- 4>&-); echo " $?"' sh "$@" 2>&1)
	printf '%s%s%s' "$mark" "$m" "$mark"; printf '%s' "$mark" >&2
}
`

// Where the streams are another user's pipes, the command may write to them
// but not open them anew, as in echo x >/dev/stderr. Pipes that the user's own
// shell makes stand between; the marks go through them behind the output.
const (
	direct = wrapper + `run "$@"`
	piped  = wrapper + `{ run "$@" 2>&1 >&5 | cat >&2 5>&-; } 5>&1 | cat`
)

// A Mark wraps one run of one command and collects its output. It is not safe
// for concurrent use.
type Mark struct {
	limit          int // bytes a stream
	mark           []byte
	stdout, stderr stream
}

// stream is what has come on one stream. The output is kept in pieces: one
// growing slice would need a multiple of it.
type stream struct {
	pieces [][]byte
	size   int    // of the pieces
	tail   []byte // the output's end, in which a mark may have begun
	marked bool
	after  []byte // what came behind the mark
}

// A TooLongError is what Stdout and Stderr return past the limit.
type TooLongError struct{ Limit int }

func (e TooLongError) Error() string {
	return fmt.Sprintf("command wrote more than %d bytes; let it write to a file", e.Limit)
}

// New makes a mark for one run. Output of more than limit bytes on a stream is
// an error.
func New(limit int) *Mark {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return &Mark{limit: limit, mark: []byte("\x1e" + hex.EncodeToString(b) + "\x1e")}
}

// Argv is the command to run in place of shell + script; shell is for example
// {"/bin/sh", "-c"}. The sandbox needs /bin/sh.
func (m *Mark) Argv(shell []string, script string) []string { return m.argv(direct, shell, script) }

// PipedArgv is Argv for a user who does not own the streams. The sandbox needs
// cat as well.
func (m *Mark) PipedArgv(shell []string, script string) []string {
	return m.argv(piped, shell, script)
}

func (m *Mark) argv(wrapper string, shell []string, script string) []string {
	argv := []string{"/bin/sh", "-c", wrapper, "sh", string(m.mark)}
	return append(append(argv, shell...), script)
}

// Stdout takes the next bytes of the command's standard output.
func (m *Mark) Stdout(p []byte) error {
	if _, ended := m.status(); ended {
		return nil
	}
	return m.stdout.add(p, m.mark, m.limit)
}

// Stderr takes the next bytes of the command's standard error.
func (m *Mark) Stderr(p []byte) error {
	if m.stderr.marked {
		return nil
	}
	return m.stderr.add(p, m.mark, m.limit)
}

func (s *stream) add(p, mark []byte, limit int) error {
	if s.size+len(s.after)+len(p) > limit+4096 { // behind stdout's first mark stand a message and the second
		return TooLongError{limit}
	}
	if s.marked {
		s.after = append(s.after, p...)
		return nil
	}
	border := append(s.tail[:len(s.tail):len(s.tail)], p[:min(len(p), len(mark)-1)]...)
	at := bytes.Index(border, mark) - len(s.tail) // in p; below 0 it began before
	if at < -len(s.tail) {
		at = bytes.Index(p, mark)
	} else if at < 0 {
		s.cutBack(-at)
		s.marked, s.after = true, append(s.after, p[at+len(mark):]...)
		return nil
	}
	if at >= 0 {
		s.keep(p[:at])
		s.marked, s.after = true, append(s.after, p[at+len(mark):]...)
		return nil
	}
	s.keep(p)
	if n := len(mark) - 1; len(p) >= n {
		s.tail = append(s.tail[:0], p[len(p)-n:]...)
	} else {
		s.tail = append(s.tail, p...)
		s.tail = s.tail[max(len(s.tail)-n, 0):]
	}
	return nil
}

// keep appends to the pieces, which grow up to a megabyte.
func (s *stream) keep(p []byte) {
	for len(p) > 0 {
		last := len(s.pieces) - 1
		if last < 0 || len(s.pieces[last]) == cap(s.pieces[last]) {
			s.pieces = append(s.pieces, make([]byte, 0, min(max(s.size, len(p), 512), 1<<20)))
			last++
		}
		piece := s.pieces[last]
		n := min(len(p), cap(piece)-len(piece))
		s.pieces[last] = append(piece, p[:n]...)
		s.size += n
		p = p[n:]
	}
}

// cutBack takes the last n bytes of the output away.
func (s *stream) cutBack(n int) {
	s.size -= n
	for n > 0 {
		last := len(s.pieces) - 1
		k := min(n, len(s.pieces[last]))
		s.pieces[last] = s.pieces[last][:len(s.pieces[last])-k]
		if n -= k; len(s.pieces[last]) == 0 {
			s.pieces = s.pieces[:last]
		}
	}
}

// Done reports whether the shell has ended and all of its output is here.
func (m *Mark) Done() bool {
	_, ok := m.status()
	return ok && m.stderr.marked
}

// status is what stands between the two marks on stdout: the shell's message,
// empty unless a signal killed the command, a space, the exit status.
func (m *Mark) status() (string, bool) {
	if !m.stdout.marked {
		return "", false
	}
	text, _, ok := bytes.Cut(m.stdout.after, m.mark)
	return string(text), ok
}

// Output is what the command itself wrote so far.
func (m *Mark) Output() (stdout, stderr []byte) {
	return m.stdout.own(), m.stderr.own()
}

func (s *stream) own() []byte {
	if len(s.pieces) == 1 {
		return s.pieces[0]
	}
	return bytes.Join(s.pieces, nil)
}

// Status is the shell's exit status, or the signal that killed it: then code
// is 0. It fails unless Done.
func (m *Mark) Status() (code int, signal string, err error) {
	text, ok := m.status()
	if !ok {
		return 0, "", errors.New("no end mark")
	}
	i := bytes.LastIndexByte([]byte(text), ' ')
	if i < 0 {
		return 0, "", fmt.Errorf("end mark without a status: %.40q", text)
	}
	code, err = strconv.Atoi(text[i+1:])
	if err != nil {
		return 0, "", fmt.Errorf("end mark with status %.40q", text[i+1:])
	}
	killed := len(bytes.TrimSpace([]byte(text[:i]))) > 0
	if name := SignalName(code - 128); killed && name != "" {
		return 0, name, nil
	}
	return code, "", nil
}

// Linux's numbers, which the sandbox's kernel speaks.
var signals = [...]string{1: "SIGHUP", "SIGINT", "SIGQUIT", "SIGILL", "SIGTRAP", "SIGABRT", "SIGBUS", "SIGFPE", "SIGKILL",
	"SIGUSR1", "SIGSEGV", "SIGUSR2", "SIGPIPE", "SIGALRM", "SIGTERM", "SIGSTKFLT", "SIGCHLD", "SIGCONT", "SIGSTOP", "SIGTSTP",
	"SIGTTIN", "SIGTTOU", "SIGURG", "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGIO", "SIGPWR", "SIGSYS"}

// SignalName is the name of Linux's signal n, "" when there is none.
func SignalName(n int) string {
	if n <= 0 || n >= len(signals) {
		return ""
	}
	return signals[n]
}

// SignalOf is the name of the signal that Go describes with text, as in
// "signal: killed"; "" when none is.
func SignalOf(text string) string {
	for n := range signals {
		if n > 0 && syscall.Signal(n).String() == text {
			return signals[n]
		}
	}
	return ""
}
