// Package claudecode runs Claude Code, the native program alone: neither node
// nor npm is needed in the sandbox.
package claudecode

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/internal/shell"
	"github.com/agentrl-go/agentrl/sandbox"
)

// Options of a Harness.
type Options struct {
	Program   harness.Asset // the program, or npm's package @anthropic-ai/claude-code-linux-x64; the zero value uses the image's own
	Musl      harness.Asset // for images with musl: @anthropic-ai/claude-code-linux-x64-musl
	Store     *harness.Store
	ExtraArgs string            // shell text, appended last
	ExtraEnvs map[string]string // merged last
}

// Harness runs Claude Code. It is safe for concurrent use.
type Harness struct {
	o   Options
	cli harness.CLI
}

// New returns the harness.
func New(o Options) *Harness {
	return &Harness{o, harness.CLI{Name: "claude", Store: o.Store, Asset: o.Program, Musl: o.Musl}}
}

// DialsBack reports true.
func (h *Harness) DialsBack() bool { return true }

// Install uploads the program. Claude Code's Bash tool needs bash or zsh, so an
// image with neither is refused.
func (h *Harness) Install(ctx context.Context, sb sandbox.Sandbox) error {
	res, err := sb.Exec(ctx, sandbox.Cmd{Script: "command -v bash || command -v zsh", Replayable: true})
	if err != nil {
		return err
	}
	if !res.Ok() {
		return &harness.InstallError{Name: "claude", Reason: "the image has neither bash nor zsh, which its Bash tool needs"}
	}
	_, err = h.cli.Install(ctx, sb)
	return err
}

// Paths of a run, outside the work directory: the agent's git status must not
// show them.
const (
	logFile    = "/tmp/agentrl-claude.jsonl"
	promptFile = "/tmp/agentrl-claude.prompt"
)

// Run runs `claude -p` on the job.
func (h *Harness) Run(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
	var unreachable *harness.UnreachableError
	if err := harness.Dial(ctx, sb, job.BaseURL); errors.As(err, &unreachable) {
		return harness.Report{Outcome: harness.Unreachable, Exit: sandbox.Exit{Code: 1}, Log: err.Error()}, nil
	} else if err != nil {
		return harness.Report{}, err
	}
	if err := sb.WriteFile(ctx, promptFile, sandbox.AgentUser, strings.NewReader(job.Prompt)); err != nil {
		return harness.Report{}, fmt.Errorf("write prompt: %w", err)
	}
	exit, err := sandbox.RunDetached(ctx, sb, sandbox.Detached{
		Cmd: sandbox.Cmd{Script: h.script(), User: sandbox.AgentUser, Dir: job.Workdir, Env: h.env(job)},
		Log: logFile, Stop: job.Stop,
	})
	if err != nil {
		return harness.Report{}, fmt.Errorf("run claude: %w", err)
	}
	log, err := harness.Tail(ctx, sb, logFile, 256<<10)
	if err != nil {
		return harness.Report{}, fmt.Errorf("claude's log: %w", err)
	}
	return reportOf(exit, log), nil
}

// script is the command line. The prompt comes by standard input, so that its
// length is no matter; what the web tools would reach is not there.
func (h *Harness) script() string {
	args := []string{"-p", "--permission-mode", "bypassPermissions", "--output-format", "stream-json", "--verbose",
		"--disable-slash-commands", "--strict-mcp-config", "--disallowedTools", "WebSearch,WebFetch"}
	for i := range args {
		args[i] = shell.Quote(args[i])
	}
	line := h.cli.Command() + " " + strings.Join(args, " ")
	if h.o.ExtraArgs != "" {
		line += " " + h.o.ExtraArgs
	}
	return line + " <" + sandbox.Path(promptFile)
}

// env silences side traffic, pins every model label to ours, and tells the
// truth about the context window. The names are those that versions 2.1.197 to
// 2.1.332 read.
func (h *Harness) env(job harness.Job) map[string]string {
	env := map[string]string{
		"ANTHROPIC_BASE_URL": job.BaseURL, "ANTHROPIC_AUTH_TOKEN": job.Token,
		"ANTHROPIC_MODEL": job.Model, "ANTHROPIC_DEFAULT_HAIKU_MODEL": job.Model, "CLAUDE_CODE_SUBAGENT_MODEL": job.Model,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
		"CLAUDE_CODE_ATTRIBUTION_HEADER": "0", "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1", "DISABLE_AUTOUPDATER": "1",
	}
	if job.MaxContext > 0 {
		env["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = strconv.Itoa(job.MaxContext)
		env["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = strconv.Itoa(max(job.MaxContext, 100000)) // smaller ones are not taken
	}
	if job.MaxTurn > 0 {
		env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = strconv.Itoa(job.MaxTurn)
	}
	maps.Copy(env, harness.NoProxy(job.BaseURL))
	maps.Copy(env, h.o.ExtraEnvs)
	return env
}

// A result is the last line of the log: what Claude Code says of its run. Its
// subtype is "success" for fatal errors too.
type result struct {
	Type      string `json:"type"`
	Subtype   string `json:"subtype"`
	IsError   bool   `json:"is_error"`
	Terminal  string `json:"terminal_reason"`
	Result    string `json:"result"`
	Turns     int    `json:"num_turns"`
	Session   string `json:"session_id"`
	Status    int    `json:"api_error_status"`
	StopCause string `json:"stop_reason"`
}

func reportOf(exit sandbox.Exit, log []byte) harness.Report {
	report := harness.Report{Exit: exit, Outcome: harness.Crashed, Log: harness.LastLines(log, 12)}
	var r result
	line := harness.LastEvent(log, func(line []byte) bool {
		var e result
		return json.Unmarshal(line, &e) == nil && e.Type == "result"
	})
	said := line != nil && json.Unmarshal(line, &r) == nil
	report.Turns = r.Turns
	report.Version, report.Sessions = initOf(log)
	switch {
	case exit.State == sandbox.TimedOut:
		report.Outcome = harness.Budget
	case exit.State == sandbox.Lost || !said:
	default:
		report.Outcome = r.outcome()
	}
	return report
}

func (r result) outcome() harness.Outcome {
	text := strings.ToLower(r.Result)
	switch {
	case r.Subtype == "error_max_turns", r.Terminal == "max_turns":
		return harness.MaxTurns
	case r.StopCause == "refusal":
		return harness.Refused
	case !r.IsError:
		return harness.Finished
	case r.Terminal == "blocking_limit", r.Terminal == "prompt_too_long", strings.Contains(text, "prompt is too long"):
		return harness.ContextExhausted
	case strings.Contains(text, "unable to connect"), strings.Contains(text, "connection error"), strings.Contains(text, "connection refused"):
		return harness.Unreachable
	case r.Status == 400, r.Status == 403, strings.HasPrefix(text, "api error: 40"):
		return harness.Refused
	case r.Status >= 500, r.Status == 429, strings.HasPrefix(text, "api error: 5"):
		return harness.Unreachable
	}
	return harness.GaveUp
}

// initOf reads version and session ids from the events in the log.
func initOf(log []byte) (version string, sessions []string) {
	seen := map[string]bool{}
	for line := range strings.SplitSeq(string(log), "\n") {
		var e struct {
			Version string `json:"claude_code_version"`
			Session string `json:"session_id"`
		}
		if json.Unmarshal([]byte(line), &e) != nil {
			continue
		}
		if e.Version != "" {
			version = e.Version
		}
		if e.Session != "" && !seen[e.Session] {
			seen[e.Session] = true
			sessions = append(sessions, e.Session)
		}
	}
	return version, sessions
}
