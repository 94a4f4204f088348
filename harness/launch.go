package harness

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/agentrl-go/agentrl/internal/shell"
	"github.com/agentrl-go/agentrl/sandbox"
)

// A Launch is one run of a CLI.
type Launch struct {
	Job   Job
	Args  string            // shell text: what follows the program's name
	Env   map[string]string // values may hold DirMark
	Unset []string          // variables of the image that must not reach the program; those that Env sets do
	Files map[string][]byte // configuration, by path below the run's folder; may hold DirMark
	// Says are texts of which one is in every line that Read judges by: those
	// lines are found wherever they are in a long log. Nil for all of its end.
	Says []string
	// Read fills in what the CLI says of its run: Outcome, and Version, Turns
	// and Sessions where it says them. It is not called for a run that was
	// killed or lost.
	Read func(log Log, exit sandbox.Exit, r *Report)
}

// A Log is what a CLI printed: all of it, or its beginning and its end, and the
// lines that tell how the run ended.
type Log struct{ Head, Tail, Said []byte }

// How much of a log is looked at; a result line holds a whole answer.
const (
	headBytes = 64 << 10
	tailBytes = 2 << 20
	saidBytes = 8 << 20
)

// Dir is the folder of a CLI's run: configuration, prompt, log and the CLI's
// own state. It is outside the work directory, where the agent's git status and
// the patch would show it, and readable by the agent's user alone. It is not
// below /tmp either, where Codex refuses to put its helpers.
func (c CLI) Dir() string { return Home + "/run/" + c.Name }

// DirMark in a Launch stands for the run's folder as a program in the sandbox
// sees it.
const DirMark = "@agentrl-dir@"

// Run runs the program as the agent user in the work directory, with the
// prompt as its standard input, watched by RunWatched. A run whose adapter is
// not reached from the sandbox is a Report too.
func (c CLI) Run(ctx context.Context, sb sandbox.Sandbox, l Launch) (Report, error) {
	dir, err := c.configure(ctx, sb, l)
	if err != nil {
		return Report{}, fmt.Errorf("configure %s: %w", c.Name, err)
	}
	env := map[string]string{}
	for name, value := range l.Env {
		env[name] = strings.ReplaceAll(value, DirMark, dir)
	}
	exit, err := RunWatched(ctx, sb, sandbox.Detached{
		Cmd: sandbox.Cmd{Script: c.script(l), User: sandbox.AgentUser, Dir: l.Job.Workdir, Env: env},
		Log: c.logFile(), Stop: l.Job.Stop,
	}, l.Job.BaseURL)
	var unreachable *UnreachableError
	if err != nil && !errors.As(err, &unreachable) {
		return Report{}, fmt.Errorf("run %s: %w", c.Name, err)
	}
	r, err := c.report(ctx, sb, l, exit)
	if err != nil {
		return Report{}, err
	}
	r.Unreached(unreachable)
	return r, nil
}

// Unreached makes it the report of a run whose adapter was not reached, unless
// the agent itself says how it ended; nil changes nothing.
func (r *Report) Unreached(err *UnreachableError) {
	if err != nil && (r.Outcome == Crashed || r.Outcome == GaveUp) {
		r.Outcome, r.Log = Unreachable, strings.TrimSpace(err.Error()+"\n"+r.Log)
	}
}

// logFile is beside the run's folder: within it the agent could remove it.
func (c CLI) logFile() string    { return c.Dir() + ".log" }
func (c CLI) promptFile() string { return c.Dir() + "/prompt" }

// configure makes the run's folder anew and returns its path as programs see it.
func (c CLI) configure(ctx context.Context, sb sandbox.Sandbox, l Launch) (string, error) {
	dir, err := sandbox.Output(ctx, sb, sandbox.Cmd{Script: "printf %s " + sandbox.Path(c.Dir()), Replayable: true})
	if err != nil {
		return "", err
	}
	own := fmt.Sprintf("d=%s; chown -R %s: \"$d\" 2>/dev/null || [ -n \"${%s-}\" ]", sandbox.Path(c.Dir()), sandbox.AgentUser, sandbox.OneUserVar)
	if _, err := sandbox.Output(ctx, sb, sandbox.Cmd{Replayable: true, Script: fmt.Sprintf(
		"d=%s; rm -rf \"$d\" && mkdir -p \"$d\" && chmod 755 \"$d/../..\" \"$d/..\" && chmod 700 \"$d\" || exit 1; %s", sandbox.Path(c.Dir()), own)}); err != nil {
		return "", err
	}
	files := map[string][]byte{c.promptFile(): []byte(PromptText(l.Job.Prompt))}
	for name, content := range l.Files {
		files[c.Dir()+"/"+name] = bytes.ReplaceAll(content, []byte(DirMark), []byte(dir))
	}
	for path, content := range files {
		if err := sb.WriteFile(ctx, path, sandbox.AgentUser, bytes.NewReader(content)); err != nil {
			return "", fmt.Errorf("write %s: %w", path, err)
		}
	}
	_, err = sandbox.Output(ctx, sb, sandbox.Cmd{Script: own, Replayable: true})
	return dir, err
}

// script is the command line. The prompt comes by standard input, so that its
// length is no matter, and ends there: nothing more is ever to be read.
func (c CLI) script(l Launch) string {
	lines := []string{Direct(l.Job.BaseURL)}
	for _, name := range l.Unset {
		if _, ours := l.Env[name]; !ours {
			lines = append(lines, "unset "+name)
		}
	}
	lines = append(lines, "exec <"+sandbox.Path(c.promptFile()), c.Command()+" "+l.Args)
	return strings.Join(lines, "\n")
}

// report puts together what is known of a run that is over.
func (c CLI) report(ctx context.Context, sb sandbox.Sandbox, l Launch, exit sandbox.Exit) (Report, error) {
	log, err := readLog(ctx, sb, c.logFile(), l.Says)
	if err != nil {
		return Report{}, fmt.Errorf("log of %s: %w", c.Name, err)
	}
	r := Report{Exit: exit, Outcome: Crashed, Log: LastLines(log.Tail, 12)}
	l.Read(log, exit, &r)
	switch exit.State {
	case sandbox.TimedOut:
		r.Outcome = Budget
	case sandbox.Lost:
		r.Outcome = Crashed
	}
	if r.Outcome != Finished && r.Exit == (sandbox.Exit{}) {
		r.Exit.Code = 1 // some exit with 0 whatever became of them
	}
	if r.Outcome == Unreachable {
		r.Log = (&UnreachableError{l.Job.BaseURL, LastLines([]byte(r.Log), 1)}).Error() + "\n" + r.Log
	}
	return r, c.leavings(ctx, sb, &r)
}

// leavings adds the version, and the sessions whose transcripts lie in the
// run's folder: those of nested agents are nowhere else.
func (c CLI) leavings(ctx context.Context, sb sandbox.Sandbox, r *Report) error {
	out, err := sandbox.Output(ctx, sb, sandbox.Cmd{Replayable: true, Script: fmt.Sprintf(
		"head -n 1 %s 2>/dev/null || echo; find %s -name '*.jsonl' 2>/dev/null | sort | head -n 1000",
		sandbox.Path(c.VersionFile()), sandbox.Path(c.Dir()))})
	if err != nil {
		return err
	}
	version, files, _ := strings.Cut(out, "\n")
	if r.Version == "" {
		r.Version = version
	}
	for file := range strings.FieldsSeq(files) {
		r.addSession(sessionOf(file))
	}
	return nil
}

// addSession notes a session id once.
func (r *Report) addSession(id string) {
	if id != "" && !slices.Contains(r.Sessions, id) {
		r.Sessions = append(r.Sessions, id)
	}
}

var uuid = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// sessionOf is the id that a transcript is named by: TIMESTAMP-UUID, or a name
// of its own.
func sessionOf(file string) string {
	name := strings.TrimSuffix(path.Base(file), ".jsonl")
	if id := uuid.FindString(name); id != "" {
		return id
	}
	if strings.HasPrefix(name, "agent-") {
		return name
	}
	return "" // a history, not a transcript
}

// readLog reads both ends of a log, and of a long one the lines that say
// something. A missing one is empty.
func readLog(ctx context.Context, sb sandbox.Sandbox, file string, says []string) (Log, error) {
	tail, err := sandbox.Tail(ctx, sb, file, tailBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return Log{}, nil
	}
	if err != nil || len(tail) < tailBytes {
		return Log{Head: tail, Tail: tail, Said: tail}, err
	}
	r, err := sb.ReadFile(ctx, file)
	if err != nil {
		return Log{}, err
	}
	defer r.Close()
	log := Log{Tail: tail, Said: tail}
	if log.Head, err = io.ReadAll(io.LimitReader(r, headBytes)); err != nil || len(says) == 0 {
		return log, err
	}
	script := "LC_ALL=C grep -aF"
	for _, text := range says {
		script += " -e " + shell.Quote(text)
	}
	res, err := sb.Exec(ctx, sandbox.Cmd{Script: fmt.Sprintf("%s <%s | tail -c %d", script, sandbox.Path(file), saidBytes), Replayable: true})
	if res.Ok() && len(res.Stdout) > 0 {
		log.Said = res.Stdout
	}
	return log, err
}

// Last is the last line that is a JSON object which match accepts; nil for
// none. What went before such an object in its line, a text or an object that
// was broken off, is passed over.
func (l Log) Last(match func(line []byte) bool) []byte {
	lines := bytes.Split(l.Said, []byte("\n"))
	for i := len(lines) - 1; i >= 0; i-- {
		if line := object(lines[i]); line != nil && match(line) {
			return line
		}
	}
	return nil
}

// maxStarts bounds how often one line, which may be the garbage of megabytes,
// is looked at.
const maxStarts = 32

// object is the JSON object that a line ends with; nil for none.
func object(line []byte) []byte {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[len(line)-1] != '}' {
		return nil
	}
	for range maxStarts {
		at := bytes.IndexByte(line, '{')
		if at < 0 {
			return nil
		}
		if line = line[at:]; json.Valid(line) {
			return line
		}
		line = line[1:]
	}
	return nil
}

// LastLines are the last n lines of a log, as text for a report: at most 4 kB.
func LastLines(log []byte, n int) string {
	lines := bytes.Split(bytes.TrimSpace(log), []byte("\n"))
	text := bytes.Join(lines[max(len(lines)-n, 0):], []byte("\n"))
	return strings.ToValidUTF8(string(text[max(len(text)-4096, 0):]), "\uFFFD")
}

// PromptText is a prompt as every agent can read it: UTF-8 without NUL.
func PromptText(prompt string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(prompt, "\uFFFD"), "\x00", "\uFFFD")
}
