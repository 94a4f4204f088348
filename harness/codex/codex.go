// Package codex runs Codex, the static program alone, over the Responses API:
// current versions speak nothing else.
//
// The version that was run with it is 0.171.0 on Linux x86-64. Those before
// 0.95.0 accept another configuration and were not tried.
//
// A rollout's boot installs nothing when the image was prepared, as
// examples/prepare does for Docker images and E2B templates: by an Install whose
// /opt/agentrl is kept.
package codex

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
)

// Options of a Harness.
type Options struct {
	// Program is the program, or npm's package @openai/codex@VERSION-linux-x64
	// (or -arm64). The zero value uses the image's own.
	Program   harness.Asset
	Store     *harness.Store    // defaults to the user's cache directory
	ExtraArgs string            // shell text, appended last
	ExtraEnvs map[string]string // merged last
}

// Harness runs Codex. It is safe for concurrent use.
type Harness struct {
	o   Options
	cli harness.CLI
}

// New returns the harness. Its error is about the files or the arguments in o.
func New(o Options) (*Harness, error) {
	var err error
	if o.ExtraArgs, err = harness.Args("SLIME_AGENT_CODEX_EXTRA_ARGS", o.ExtraArgs); err != nil {
		return nil, err
	}
	if o.Store == nil {
		o.Store = harness.NewStore("")
	}
	h := &Harness{o, harness.CLI{
		Name: "codex", Store: o.Store, Asset: o.Program,
		Hint: "SLIME_AGENT_CODEX_TARBALL is npm's package @openai/codex@VERSION-linux-x64, which `make harness-assets` brings",
	}}
	return h, h.cli.Check()
}

// DialsBack reports true.
func (h *Harness) DialsBack() bool { return true }

// Install uploads the program unless the image has it. It is statically
// linked: any image will do.
func (h *Harness) Install(ctx context.Context, sb sandbox.Sandbox) error {
	_, err := h.cli.Install(ctx, sb)
	return err
}

// Run runs `codex exec` on the job.
func (h *Harness) Run(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
	config, err := toml.Marshal(configOf(job))
	if err != nil {
		return harness.Report{}, fmt.Errorf("codex's configuration: %w", err)
	}
	env := map[string]string{"OPENAI_API_KEY": job.Token, "CODEX_HOME": harness.DirMark}
	maps.Copy(env, h.o.ExtraEnvs)
	args := "exec --json --skip-git-repo-check"
	if h.o.ExtraArgs != "" {
		args += " " + h.o.ExtraArgs
	}
	return h.cli.Run(ctx, sb, harness.Launch{
		Job: job, Args: args + " -", Env: env, Files: map[string][]byte{"config.toml": config},
		Says: []string{`"type":"turn.`}, Read: read,
	})
}

// table is a table of a TOML document.
type table map[string]any

// configOf silences side traffic, takes off the sandbox within the sandbox,
// and tells the truth about the context window: Codex has no way back from an
// overflow and has to compact in time. By default it waits for a network
// without end; a connection that stays away ends the run after some 10 s here.
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
			"stream_idle_timeout_ms": 3_600_000, "request_max_retries": 2, "stream_max_retries": 4,
		}},
	}
	if job.MaxContext > 0 {
		c["model_context_window"] = job.MaxContext
	}
	return c
}

// An event is one line of the log.
type event struct {
	Type   string `json:"type"`
	Thread string `json:"thread_id"`
	Error  struct {
		Message string `json:"message"`
	} `json:"error"`
}

// read judges by the last turn's end. Codex does not say how many requests a
// run took.
func read(log harness.Log, _ sandbox.Exit, r *harness.Report) {
	for line := range bytes.SplitSeq(log.Head, []byte("\n")) {
		var e event
		if json.Unmarshal(line, &e) == nil && e.Type == "thread.started" {
			r.Sessions = append(r.Sessions, e.Thread)
			break
		}
	}
	var end event
	log.Last(func(line []byte) bool {
		end = event{}
		return json.Unmarshal(line, &end) == nil && strings.HasPrefix(end.Type, "turn.") && end.Type != "turn.started"
	})
	switch end.Type {
	case "turn.completed":
		r.Outcome = harness.Finished
	case "turn.failed":
		r.Outcome = harness.OutcomeOf(end.Error.Message)
	}
}
