// Package claudecode runs Claude Code: the native program alone, for which
// neither node nor npm is needed in the sandbox, or, of the older packages that
// are scripts, node and the package.
//
// Versions that were run with it: 2.1.332 (glibc and musl), 2.1.197, and 2.0.30
// on node 22.23.5, on Linux x86-64.
//
// A rollout's boot installs nothing when the image was prepared, as
// examples/prepare does for Docker images and E2B templates: by an Install whose
// /opt/agentrl is kept.
package claudecode

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"strings"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
)

// Options of a Harness.
type Options struct {
	// Program is the program, npm's package @anthropic-ai/claude-code-linux-x64
	// (or -arm64), or a package @anthropic-ai/claude-code of before 2.1, which
	// needs Node. The zero value uses the image's own.
	Program harness.Asset
	// Musl is the program for images with musl, npm's
	// @anthropic-ai/claude-code-linux-x64-musl. Defaults to Program.
	Musl harness.Asset
	// Node is node for Linux, 18 or later, for a Program that is scripts.
	// Defaults to the image's own.
	Node      harness.Asset
	Store     *harness.Store    // defaults to the user's cache directory
	ExtraArgs string            // shell text, appended last
	ExtraEnvs map[string]string // merged last
}

// Harness runs Claude Code. It is safe for concurrent use.
type Harness struct {
	o   Options
	cli harness.CLI
}

// New returns the harness. Its error is about the files or the arguments in o.
func New(o Options) (*Harness, error) {
	var err error
	if o.ExtraArgs, err = harness.Args("SLIME_AGENT_CC_EXTRA_ARGS", o.ExtraArgs); err != nil {
		return nil, err
	}
	if o.Store == nil {
		o.Store = harness.NewStore("")
	}
	h := &Harness{o, harness.CLI{
		Name: "claude", Store: o.Store, Asset: o.Program, Musl: o.Musl, Node: o.Node,
		Hint: "SLIME_AGENT_CC_TARBALL is npm's package @anthropic-ai/claude-code-linux-x64, which `make harness-assets` brings",
	}}
	return h, h.cli.Check()
}

// DialsBack reports true.
func (h *Harness) DialsBack() bool { return true }

// Install uploads the program unless the image has it. Claude Code's Bash tool
// needs bash or zsh, so an image with neither is refused.
func (h *Harness) Install(ctx context.Context, sb sandbox.Sandbox) error {
	res, err := sb.Exec(ctx, sandbox.Cmd{Script: "command -v bash || command -v zsh", Replayable: true})
	if err != nil {
		return err
	}
	if !res.Ok() {
		return &harness.InstallError{Name: "claude", Reason: "the image has neither bash nor zsh, which its Bash tool needs: add one to the image, or use codex or mini"}
	}
	_, err = h.cli.Install(ctx, sb)
	return err
}

// Run runs `claude -p` on the job. What the web tools would reach is not there.
func (h *Harness) Run(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
	args := harness.Words("-p", "--permission-mode", "bypassPermissions", "--output-format", "stream-json", "--verbose",
		"--strict-mcp-config", "--disallowedTools", "WebSearch,WebFetch") + h.newer("--disable-slash-commands")
	env := h.env(job)
	settings, err := json.Marshal(map[string]any{"env": route(env)})
	if err != nil {
		return harness.Report{}, err
	}
	if !strings.Contains(h.o.ExtraArgs, "--settings") { // of two the last one counts
		args += " --settings " + sandbox.Path(h.cli.Dir()+"/"+settingsFile)
	}
	return h.cli.Run(ctx, sb, harness.Launch{
		Job: job, Args: strings.TrimSpace(args + " " + h.o.ExtraArgs), Env: env, Files: map[string][]byte{settingsFile: settings}, Unset: foreign, Says: []string{`"type":"result"`, `"type": "result"`}, Read: read,
	})
}

const settingsFile = "route.json"

// route are the variables that lead to the policy. Those that a repository's
// own .claude/settings.json sets come before the environment's, and after those
// of settings on the command line.
func route(env map[string]string) map[string]string {
	pinned := map[string]string{}
	for name, value := range env {
		if strings.HasPrefix(name, "ANTHROPIC_") || name == "CLAUDE_CODE_SUBAGENT_MODEL" {
			pinned[name] = value
		}
	}
	return pinned
}

// newer is shell text for an option that versions before 2.1 refuse.
func (h *Harness) newer(option string) string {
	return " $(case $(cat " + sandbox.Path(h.cli.VersionFile()) + " 2>/dev/null) in [01].*|2.0.*) ;; *) echo " + option + ";; esac)"
}

// foreign are variables of an image that would lead to another provider.
var foreign = []string{"ANTHROPIC_API_KEY", "ANTHROPIC_CUSTOM_HEADERS", "CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY",
	"CLAUDE_CODE_OAUTH_TOKEN", "CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT"}

// env silences side traffic, pins every model label to ours, and tells the
// truth about the context window. The names are those that versions 2.1.197 to
// 2.1.332 read.
func (h *Harness) env(job harness.Job) map[string]string {
	env := map[string]string{
		"ANTHROPIC_BASE_URL": job.BaseURL, "ANTHROPIC_AUTH_TOKEN": job.Token,
		"ANTHROPIC_MODEL": job.Model, "ANTHROPIC_SMALL_FAST_MODEL": job.Model, "ANTHROPIC_DEFAULT_HAIKU_MODEL": job.Model,
		"ANTHROPIC_DEFAULT_SONNET_MODEL": job.Model, "ANTHROPIC_DEFAULT_OPUS_MODEL": job.Model, "CLAUDE_CODE_SUBAGENT_MODEL": job.Model,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS": "1",
		"CLAUDE_CODE_ATTRIBUTION_HEADER": "0", "CLAUDE_CODE_DISABLE_BACKGROUND_TASKS": "1", "DISABLE_AUTOUPDATER": "1",
		"CLAUDE_CONFIG_DIR": harness.DirMark + "/config",
		// A connection that stays away ends the run after some 15 s instead of
		// three minutes; a wait within a request is the adapter's and takes none.
		"CLAUDE_CODE_MAX_RETRIES": "5",
	}
	if job.MaxContext > 0 {
		env["CLAUDE_CODE_MAX_CONTEXT_TOKENS"] = strconv.Itoa(job.MaxContext)
		env["CLAUDE_CODE_AUTO_COMPACT_WINDOW"] = strconv.Itoa(max(job.MaxContext, 100000)) // smaller ones are not taken
	}
	if job.MaxTurn > 0 {
		env["CLAUDE_CODE_MAX_OUTPUT_TOKENS"] = strconv.Itoa(job.MaxTurn)
	}
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
	StopCause string `json:"stop_reason"`
}

func read(log harness.Log, _ sandbox.Exit, r *harness.Report) {
	r.Version, r.Sessions = initOf(log.Head)
	line := log.Last(func(line []byte) bool {
		var e result
		return json.Unmarshal(line, &e) == nil && e.Type == "result"
	})
	var said result
	if line == nil || json.Unmarshal(line, &said) != nil {
		return
	}
	r.Turns, r.Outcome = said.Turns, said.outcome()
	if said.IsError && said.Result != "" {
		r.Log = said.Result // the log's last lines hold little else, in many words
	}
}

func (r result) outcome() harness.Outcome {
	switch {
	case r.Subtype == "error_max_turns", r.Terminal == "max_turns":
		return harness.MaxTurns
	case r.StopCause == "refusal":
		return harness.Refused
	case !r.IsError:
		return harness.Finished
	case r.Terminal == "blocking_limit", r.Terminal == "prompt_too_long":
		return harness.ContextExhausted
	case strings.Contains(r.Result, "output token maximum"):
		return harness.GaveUp // cut again and again
	}
	return harness.OutcomeOf(r.Result)
}

// initOf reads version and session of the log's first events.
func initOf(head []byte) (version string, sessions []string) {
	for line := range strings.SplitSeq(string(head), "\n") {
		var e struct {
			Version string `json:"claude_code_version"`
			Session string `json:"session_id"`
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Session != "" {
			return e.Version, []string{e.Session}
		}
	}
	return "", nil
}
