package swe

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/internal/shell"
	"github.com/agentrl-go/agentrl/sandbox"
)

// oneUser succeeds in a sandbox whose commands all run as one user: there is
// nobody to give anything to, and the machine's configuration is not ours.
const oneUser = `[ -n "${` + sandbox.OneUserVar + `-}" ]`

// A Workspace is what rows of all formats have in common: a work directory, how
// it is set up, and how an agent's changes to it are captured and applied. Its
// methods are safe for concurrent use in many sandboxes; its fields are not
// changed after Parse. All that is remembered between Prepare and Diff lives in
// the sandbox, below a path that is root's.
type Workspace struct {
	Workdir    string            // absolute, not "/"
	Statement  string            // the problem, for ProblemFile
	Commit     string            // HEAD after the steps, whole or its beginning; "" is not checked
	Steps      []Step            // run as the agent's user in both sandboxes, in order
	Env        map[string]string // of steps and tests
	PathPrefix []string          // put before PATH, for the agent's shells as well
	Shell      string            // words that run a script file, "bash -l"; "" is bash, or sh in images without it
	Tools      []string          // programs that have to be there; git always
	Protected  Globs             // files that grading takes from the base, whatever the patch did to them
	Scrub      bool              // the agent finds no commits but HEAD's own history

	egress sandbox.Egress // of the grading sandbox
}

// A Step is a command of a workspace's set-up. It has to succeed.
type Step struct {
	Name   string        // the row's key, for errors
	Script string        // run with -e
	Limit  time.Duration // defaults to 10 minutes
}

// A SetupError is a set-up that did not succeed: what follows would be a wrong base.
type SetupError struct {
	Step   string
	Exit   sandbox.Exit
	Output string // its end
}

func (e *SetupError) Error() string {
	how := fmt.Sprintf("exited with %d", e.Exit.Code)
	if e.Exit == (sandbox.Exit{}) {
		how = "did not give what the row needs"
	}
	switch e.Exit.State {
	case sandbox.TimedOut:
		how = "ran out of time"
	case sandbox.Lost:
		how = "vanished"
	}
	return fmt.Sprintf("%s %s: %s", e.Step, how, strings.TrimSpace(e.Output))
}

// Prepare sets up the agent's side: user, steps, scrub, snapshot S0, problem
// statement. Nothing of the graders' is written.
func (w *Workspace) Prepare(ctx context.Context, sb sandbox.Sandbox) error {
	if _, err := w.setUp(ctx, sb); err != nil {
		return err
	}
	snap := newSnap(sb, w.Workdir)
	if _, err := snap.base(ctx, w.Commit); err != nil {
		return err
	}
	if w.Scrub {
		if err := snap.run(ctx, "scrub"); err != nil {
			return err
		}
	}
	if err := w.writeProfile(ctx, sb); err != nil {
		return err
	}
	path := w.Workdir + "/" + ProblemFile
	if err := sb.WriteFile(ctx, path, sandbox.AgentUser, strings.NewReader(w.Statement)); err != nil {
		return fmt.Errorf("write the problem statement: %w", err)
	}
	return nil
}

// Diff captures what changed since Prepare. The agent's processes have to be
// dead. It may be called again and returns the same.
func (w *Workspace) Diff(ctx context.Context, sb sandbox.Sandbox) (Patch, error) {
	return newSnap(sb, w.Workdir).diff(ctx)
}

// setUp is what both sandboxes go through. It returns the tools found.
func (w *Workspace) setUp(ctx context.Context, sb sandbox.Sandbox) (map[string]string, error) {
	if err := sandbox.EnsureUser(ctx, sb); err != nil {
		return nil, fmt.Errorf("make the agent's user: %w", err)
	}
	if _, err := sandbox.Output(ctx, sb, sandbox.Cmd{Script: "mkdir -p -m 755 " + sandbox.Path(stateRoot), Replayable: true}); err != nil {
		return nil, fmt.Errorf("make room for the state: %w", err)
	}
	if err := w.own(ctx, sb); err != nil {
		return nil, err
	}
	tools, err := w.probe(ctx, sb)
	if err != nil {
		return nil, err
	}
	for i, step := range w.Steps {
		if err := w.step(ctx, sb, i, step); err != nil {
			return nil, err
		}
	}
	return tools, nil
}

// own gives the work directory to the agent and lets git read it for everyone.
func (w *Workspace) own(ctx context.Context, sb sandbox.Sandbox) error {
	script := "set -eu\n" + oneUser + " && exit 0\ncd -- " + sandbox.Path(w.Workdir) + "\n" +
		"u=$(id -u " + sandbox.AgentUser + ") g=$(id -g " + sandbox.AgentUser + ")\n" +
		"chown -R -h \"$u:$g\" .\n" +
		"git config --system --get-all safe.directory 2>/dev/null | grep -qxF '*' || git config --system --add safe.directory '*' || :\n"
	exit, err := detached(ctx, sb, sandbox.Cmd{Script: script}, w.logOf(sb, "own"), stepLimit)
	if err != nil {
		return fmt.Errorf("give the work directory to the agent: %w", err)
	}
	if exit == (sandbox.Exit{}) {
		return nil
	}
	out, err := tail(ctx, sb, w.logOf(sb, "own"))
	return cmp.Or[error](err, &SetupError{"give the work directory to the agent", exit, out})
}

// probe finds the programs that the row needs, as the agent's user sees them.
func (w *Workspace) probe(ctx context.Context, sb sandbox.Sandbox) (map[string]string, error) {
	var script strings.Builder
	script.WriteString(w.path())
	names := append([]string{"git", "bash", "python3", "python", "pytest"}, w.Tools...)
	for _, name := range names {
		fmt.Fprintf(&script, "printf '%%s=%%s\\n' %s \"$(command -v %s)\"\n", shell.Quote(name), shell.Quote(name))
	}
	out, err := sandbox.Output(ctx, sb, sandbox.Cmd{Script: script.String(), User: sandbox.AgentUser, Env: w.Env, Replayable: true})
	if err != nil {
		return nil, fmt.Errorf("look for the tools: %w", err)
	}
	found := map[string]string{}
	for line := range strings.Lines(out) {
		if name, path, ok := strings.Cut(strings.TrimSpace(line), "="); ok && path != "" {
			found[name] = path
		}
	}
	for _, name := range append([]string{"git"}, w.Tools...) {
		if found[name] == "" {
			return nil, &SetupError{Step: "look for the tools", Output: "the image has no " + name + " on the agent's PATH (a row may set path_prefix)"}
		}
	}
	return found, nil
}

func (w *Workspace) step(ctx context.Context, sb sandbox.Sandbox, i int, step Step) error {
	limit := step.Limit
	if limit == 0 {
		limit = 10 * time.Minute
	}
	script := Script{Name: fmt.Sprintf("step%d", i), Body: "set -e\n" + step.Script + "\n", User: sandbox.AgentUser, Limit: limit}
	exit, out, err := w.runScript(ctx, sb, script)
	if err != nil {
		return fmt.Errorf("%s: %w", step.Name, err)
	}
	if exit != (sandbox.Exit{}) {
		return &SetupError{step.Name, exit, out}
	}
	return nil
}

// writeProfile makes the PATH prefix part of every shell that the agent starts.
func (w *Workspace) writeProfile(ctx context.Context, sb sandbox.Sandbox) error {
	if len(w.PathPrefix) == 0 {
		return nil
	}
	line := w.path()
	script := "set -eu\n" + oneUser + " && exit 0\ncd ~" + sandbox.AgentUser + "\nfor f in .bashrc .profile; do\n" +
		"{ printf '%s' " + shell.Quote(line) + "; [ ! -f $f ] || grep -vxF " + shell.Quote(strings.TrimSpace(line)) + " $f || :; } >$f.new\n" +
		"chown " + sandbox.AgentUser + " $f.new\nmv $f.new $f\ndone\n"
	if _, err := sandbox.Output(ctx, sb, sandbox.Cmd{Script: script, Replayable: true}); err != nil {
		return fmt.Errorf("write the agent's profile: %w", err)
	}
	return nil
}

// path is the shell line that sets PATH; "" without a prefix.
func (w *Workspace) path() string {
	if len(w.PathPrefix) == 0 {
		return ""
	}
	return "export PATH=" + shell.Quote(strings.Join(w.PathPrefix, ":")) + `:"$PATH"` + "\n"
}

// A Script is a file of shell text to run in the work directory.
type Script struct {
	Name  string // unique within the workspace: [a-z0-9-]
	Body  string
	Shell string // overrides the workspace's
	User  string // "" is root
	Env   map[string]string
	Limit time.Duration
}

// logOf is where a script's output is: out of the reach of what it runs.
func (w *Workspace) logOf(sb sandbox.Sandbox, name string) string {
	return newSnap(sb, w.Workdir).dir + "." + name + ".log"
}

// runScript runs a script to its end, once. A script that fails is an Exit, not
// an error.
func (w *Workspace) runScript(ctx context.Context, sb sandbox.Sandbox, s Script) (sandbox.Exit, string, error) {
	file := newSnap(sb, w.Workdir).dir + ".run/" + s.Name
	if err := sb.WriteFile(ctx, file, "", strings.NewReader(s.Body)); err != nil {
		return sandbox.Exit{}, "", fmt.Errorf("write the script: %w", err)
	}
	words, path := cmp.Or(s.Shell, w.Shell), sandbox.Path(file)
	run := "exec " + words + " " + path
	if words == "" {
		run = "if command -v bash >/dev/null; then exec bash " + path + "; fi\nexec sh " + path
	}
	env := maps.Clone(w.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, s.Env)
	cmd := sandbox.Cmd{Script: w.path() + run + "\n", User: s.User, Dir: w.Workdir, Env: env}
	log := w.logOf(sb, s.Name)
	exit, err := detached(ctx, sb, cmd, log, s.Limit)
	if err != nil {
		return exit, "", err
	}
	out, err := tail(ctx, sb, log)
	return exit, out, err
}

// detached runs a command with a limit.
func detached(ctx context.Context, sb sandbox.Sandbox, cmd sandbox.Cmd, log string, limit time.Duration) (sandbox.Exit, error) {
	stop := make(chan struct{})
	timer := time.AfterFunc(limit, func() { close(stop) })
	defer timer.Stop()
	return sandbox.RunDetached(ctx, sb, sandbox.Detached{Cmd: cmd, Log: log, Stop: stop})
}

// tail is the end of a log, for people.
func tail(ctx context.Context, sb sandbox.Sandbox, log string) (string, error) {
	out, err := sandbox.Tail(ctx, sb, log, 16<<10)
	return string(out), err
}
