// Package opencode runs opencode, one native program, over chat completions.
//
// The version that was run with it is 1.18.33 on Linux x86-64 with glibc.
package opencode

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
)

// Options of a Harness.
type Options struct {
	// Program is the program, or npm's package opencode-linux-x64 (or -arm64).
	// The zero value uses the image's own.
	Program   harness.Asset
	Store     *harness.Store    // defaults to the user's cache directory
	ExtraArgs string            // shell text, appended last
	ExtraEnvs map[string]string // merged last
}

// Harness runs opencode. It is safe for concurrent use.
type Harness struct {
	o   Options
	cli harness.CLI
}

// New returns the harness. Its error is about the files or the arguments in o.
func New(o Options) (*Harness, error) {
	var err error
	if o.ExtraArgs, err = harness.Args("ExtraArgs", o.ExtraArgs); err != nil {
		return nil, err
	}
	if o.Store == nil {
		o.Store = harness.NewStore("")
	}
	h := &Harness{o, harness.CLI{
		Name: "opencode", Store: o.Store, Asset: o.Program,
		Hint: "AGENTRL_OPENCODE_TARBALL is npm's package opencode-linux-x64, which `make harness-assets` brings",
	}}
	return h, h.cli.Check()
}

// DialsBack reports true.
func (h *Harness) DialsBack() bool { return true }

// Install uploads the program unless the image has it.
func (h *Harness) Install(ctx context.Context, sb sandbox.Sandbox) error {
	_, err := h.cli.Install(ctx, sb)
	return err
}

// Run runs `opencode run` on the job.
func (h *Harness) Run(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
	config, err := json.Marshal(configOf(job))
	if err != nil {
		return harness.Report{}, fmt.Errorf("opencode's configuration: %w", err)
	}
	env := map[string]string{
		"OPENCODE_CONFIG_CONTENT": string(config), "OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
		"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1", "OPENCODE_DISABLE_TERMINAL_TITLE": "1",
		"XDG_DATA_HOME": harness.DirMark + "/data", "XDG_CONFIG_HOME": harness.DirMark + "/config",
		"XDG_CACHE_HOME": harness.DirMark + "/cache", "XDG_STATE_HOME": harness.DirMark + "/state",
	}
	maps.Copy(env, h.o.ExtraEnvs)
	args := harness.Words("run", "--format", "json", "--model", "agentrl/"+job.Model)
	if h.o.ExtraArgs != "" {
		args += " " + h.o.ExtraArgs
	}
	return h.cli.Run(ctx, sb, harness.Launch{Job: job, Args: args, Env: env, Says: []string{`"type":"step_finish"`, `"type":"error"`}, Read: read})
}

type object = map[string]any

// configOf pins every model to ours, allows what a sandbox allows anyway, and
// tells the truth about the context window.
func configOf(job harness.Job) object {
	model := object{"name": job.Model, "tool_call": true, "reasoning": true}
	if job.MaxContext > 0 {
		output := job.MaxTurn
		if output <= 0 {
			output = min(job.MaxContext/4, 32000)
		}
		model["limit"] = object{"context": job.MaxContext, "output": output}
	}
	label := "agentrl/" + job.Model
	return object{
		"model": label, "small_model": label, "share": "disabled", "autoupdate": false, "snapshot": false,
		"permission": object{"edit": "allow", "bash": "allow", "webfetch": "deny", "external_directory": "allow", "doom_loop": "allow"},
		"provider": object{"agentrl": object{
			"npm": "@ai-sdk/openai-compatible", "name": "agentrl",
			"options": object{"baseURL": job.BaseURL + "/v1", "apiKey": job.Token},
			"models":  object{job.Model: model},
		}},
	}
}

// An event is one line of the log.
type event struct {
	Type    string `json:"type"`
	Session string `json:"sessionID"`
	Part    struct {
		Reason string `json:"reason"`
	} `json:"part"`
	Error struct {
		Name string `json:"name"`
		Data struct {
			Message string `json:"message"`
		} `json:"data"`
	} `json:"error"`
}

// read judges by the last step's end or by the error event.
func read(log harness.Log, exit sandbox.Exit, r *harness.Report) {
	var end event
	log.Last(func(line []byte) bool {
		end = event{}
		return json.Unmarshal(line, &end) == nil && (end.Type == "step_finish" || end.Type == "error")
	})
	if end.Session != "" {
		r.Sessions = []string{end.Session}
	}
	switch {
	case end.Type == "error":
		r.Outcome = harness.OutcomeOf(end.Error.Name + ": " + end.Error.Data.Message)
	case end.Type == "step_finish" && end.Part.Reason == "length":
		r.Outcome = harness.GaveUp
	case end.Type == "step_finish" && exit.Code == 0:
		r.Outcome = harness.Finished
	}
}
