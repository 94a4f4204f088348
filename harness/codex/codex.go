// Package codex runs Codex, the static program alone, over the Responses API:
// current versions speak nothing else.
package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
)

// Options of a Harness.
type Options struct {
	Program   harness.Asset // the program, or npm's package @openai/codex@VERSION-linux-x64; the zero value uses the image's own
	Store     *harness.Store
	ExtraArgs string            // shell text, appended last
	ExtraEnvs map[string]string // merged last
}

// Harness runs Codex. It is safe for concurrent use.
type Harness struct {
	o   Options
	cli harness.CLI
}

// New returns the harness.
func New(o Options) *Harness {
	return &Harness{o, harness.CLI{Name: "codex", Store: o.Store, Asset: o.Program}}
}

// DialsBack reports true.
func (h *Harness) DialsBack() bool { return true }

// Install uploads the program. It is statically linked: any image will do.
func (h *Harness) Install(ctx context.Context, sb sandbox.Sandbox) error {
	_, err := h.cli.Install(ctx, sb)
	return err
}

// Paths of a run, outside the work directory.
const (
	logFile    = "/tmp/agentrl-codex.jsonl"
	promptFile = "/tmp/agentrl-codex.prompt"
	configDir  = "/tmp/agentrl-codex"
)

// Run runs `codex exec` on the job.
func (h *Harness) Run(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
	var unreachable *harness.UnreachableError
	if err := harness.Dial(ctx, sb, job.BaseURL); errors.As(err, &unreachable) {
		return harness.Report{Outcome: harness.Unreachable, Exit: sandbox.Exit{Code: 1}, Log: err.Error()}, nil
	} else if err != nil {
		return harness.Report{}, err
	}
	if err := h.configure(ctx, sb, job); err != nil {
		return harness.Report{}, err
	}
	exit, err := sandbox.RunDetached(ctx, sb, sandbox.Detached{
		Cmd: sandbox.Cmd{Script: h.script(), User: sandbox.AgentUser, Dir: job.Workdir, Env: h.env(job)},
		Log: logFile, Stop: job.Stop,
	})
	if err != nil {
		return harness.Report{}, fmt.Errorf("run codex: %w", err)
	}
	log, err := harness.Tail(ctx, sb, logFile, 256<<10)
	if err != nil {
		return harness.Report{}, fmt.Errorf("codex's log: %w", err)
	}
	return reportOf(exit, log), nil
}

func (h *Harness) configure(ctx context.Context, sb sandbox.Sandbox, job harness.Job) error {
	config, err := toml.Marshal(configOf(job))
	if err != nil {
		return fmt.Errorf("codex's configuration: %w", err)
	}
	for path, content := range map[string][]byte{configDir + "/config.toml": config, promptFile: []byte(job.Prompt)} {
		if err := sb.WriteFile(ctx, path, sandbox.AgentUser, bytes.NewReader(content)); err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
	}
	_, err = sandbox.Output(ctx, sb, sandbox.Cmd{Script: "chown " + sandbox.AgentUser + ": " + sandbox.Path(configDir) + " 2>/dev/null || [ -w " + sandbox.Path(configDir) + " ]", Replayable: true})
	return err
}

// table is a table of a TOML document.
type table map[string]any

// configOf silences side traffic, takes off the sandbox within the sandbox,
// and tells the truth about the context window: Codex has no way back from an
// overflow and has to compact in time.
func configOf(job harness.Job) table {
	c := table{
		"model": job.Model, "model_provider": "agentrl", "approval_policy": "never", "sandbox_mode": "danger-full-access",
		"web_search": "disabled", "check_for_update_on_startup": false, "project_doc_max_bytes": 0,
		"analytics": table{"enabled": false},
		"skills":    table{"include_instructions": false, "bundled": table{"enabled": false}},
		"features": table{"goals": false, "plugins": false, "apps": false, "remote_plugin": false, "view_image": false,
			"unbounded_connection_retries": false},
		"model_providers": table{"agentrl": table{
			"name": "agentrl", "base_url": job.BaseURL + "/v1", "env_key": "OPENAI_API_KEY", "wire_api": "responses",
			"stream_idle_timeout_ms": 3_600_000,
		}},
	}
	if job.MaxContext > 0 {
		c["model_context_window"] = job.MaxContext
	}
	return c
}

// script is the command line; the prompt comes by standard input.
func (h *Harness) script() string {
	line := h.cli.Command() + " exec --json --skip-git-repo-check"
	if h.o.ExtraArgs != "" {
		line += " " + h.o.ExtraArgs
	}
	return "export CODEX_HOME=" + sandbox.Path(configDir) + "; " + line + " - <" + sandbox.Path(promptFile)
}

func (h *Harness) env(job harness.Job) map[string]string {
	env := map[string]string{"OPENAI_API_KEY": job.Token}
	maps.Copy(env, harness.NoProxy(job.BaseURL))
	maps.Copy(env, h.o.ExtraEnvs)
	return env
}

// An event is one line of the log.
type event struct {
	Type   string `json:"type"`
	Thread string `json:"thread_id"`
	Error  struct {
		Message string `json:"message"`
	} `json:"error"`
	Message string `json:"message"`
}

func reportOf(exit sandbox.Exit, log []byte) harness.Report {
	report := harness.Report{Exit: exit, Outcome: harness.Crashed, Version: "codex", Log: harness.LastLines(log, 12)}
	var last event
	for line := range bytes.SplitSeq(log, []byte("\n")) {
		var e event
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		switch e.Type {
		case "thread.started":
			report.Sessions = append(report.Sessions, e.Thread)
		case "turn.started":
			report.Turns++
		case "turn.completed", "turn.failed":
			last = e
		}
	}
	switch {
	case exit.State == sandbox.TimedOut:
		report.Outcome = harness.Budget
	case exit.State == sandbox.Lost || last.Type == "":
	case last.Type == "turn.completed":
		report.Outcome = harness.Finished
	default:
		report.Outcome = outcomeOf(last.Error.Message)
	}
	return report
}

// outcomeOf reads Codex's words for a failed turn.
func outcomeOf(message string) harness.Outcome {
	text := strings.ToLower(message)
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(text, p) {
				return true
			}
		}
		return false
	}
	switch {
	case has("ran out of room", "context window", "context_length_exceeded"):
		return harness.ContextExhausted
	case has("connection", "error sending request", "stream disconnected", "unexpected status 5", "exceeded retry limit"):
		return harness.Unreachable
	case has("turn limit", "token limit of this session"):
		return harness.MaxTurns
	case has("unexpected status 40", "400 bad request", "invalid_request"):
		return harness.Refused
	}
	return harness.GaveUp
}
