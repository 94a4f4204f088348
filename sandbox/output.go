package sandbox

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf8"

	"github.com/agentrl-go/agentrl/internal/shell"
)

// Output runs a command that has to succeed and returns its standard output
// without the newlines at its end, as $(…) does. A command that does not exit
// with 0 is an *ExitError.
func Output(ctx context.Context, sb Sandbox, cmd Cmd) (string, error) {
	res, err := sb.Exec(ctx, cmd)
	if err != nil {
		return "", err
	}
	if !res.Ok() {
		return "", &ExitError{Cmd: cmd, Result: res}
	}
	return strings.TrimRight(string(res.Stdout), "\n"), nil
}

// Tail returns the last max bytes of a regular file, read as root. A missing
// file, and anything that is not a regular file, is fs.ErrNotExist.
func Tail(ctx context.Context, sb Sandbox, path string, max int) ([]byte, error) {
	const missing = 44
	script := fmt.Sprintf("f=%s; [ -f \"$f\" ] || exit %d; exec tail -c %d <\"$f\"", Path(path), missing, max)
	cmd := Cmd{Script: script, Replayable: true}
	res, err := sb.Exec(ctx, cmd)
	switch {
	case err != nil:
		return nil, fmt.Errorf("tail of %s: %w", path, err)
	case res.Code == missing:
		return nil, &fs.PathError{Op: "tail", Path: path, Err: fs.ErrNotExist}
	case !res.Ok():
		return nil, &ExitError{Cmd: cmd, Result: res}
	}
	return res.Stdout, nil
}

// Path spells an absolute path of the sandbox as one word of a script. It is
// the quoted path wherever a sandbox has a root of its own. In a sandbox that
// is only a directory of the host (sandbox/local without the rights for
// namespaces) the script's paths are the host's, and RootVar, which is set
// there and nowhere else, leads into the directory. Paths in Cmd.Dir,
// WriteFile, ReadFile and Detached.Log need no spelling.
func Path(path string) string {
	return `"${` + RootVar + `-}"` + shell.Quote(path)
}

// Variables that a backend sets for every command, before any others, when a
// sandbox is less than a machine of its own.
const (
	// RootVar holds the directory that stands for the sandbox's root.
	RootVar = "AGENTRL_ROOT"
	// OneUserVar is set when every command runs as the same user, whatever
	// Cmd.User says: no user is created then, and nothing is killed by user.
	OneUserVar = "AGENTRL_ONE_USER"
)

func (e *ExitError) Error() string {
	how := fmt.Sprintf("exited with status %d", e.Result.Code)
	if e.Result.Signal != "" {
		how = "was killed by " + e.Result.Signal
	}
	text := fmt.Sprintf("command %q %s", clip(e.Cmd.Script, 80), how)
	if said := strings.TrimSpace(string(e.Result.Stderr)); said != "" {
		text += ": " + clipFront(said, 400)
	}
	return text
}

// clip keeps the first n bytes of s, cut between characters.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

// clipFront keeps the last n bytes of s, cut between characters: what went
// wrong is at the end of what a command says.
func clipFront(s string, n int) string {
	if len(s) <= n {
		return s
	}
	from := len(s) - n
	for from < len(s) && !utf8.RuneStart(s[from]) {
		from++
	}
	return "…" + s[from:]
}
