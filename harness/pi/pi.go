// Package pi runs pi, a small coding agent, over chat completions. It is a
// package of scripts: node is installed with it, or taken from the image.
//
// The version that was run with it is 0.74.2 on node 22.23.5, on Linux x86-64.
package pi

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
	// Package is a tarball of npm's package @earendil-works/pi-coding-agent with
	// all that it depends on below node_modules. The zero value uses the image's own.
	Package harness.Asset
	// Node is node for Linux, 20.6 or later. Defaults to the image's own.
	Node      harness.Asset
	Store     *harness.Store    // defaults to the user's cache directory
	ExtraArgs string            // shell text, appended last
	ExtraEnvs map[string]string // merged last
}

// Harness runs pi. It is safe for concurrent use.
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
		Name: "pi", Store: o.Store, Asset: o.Package, Node: o.Node,
		Hint: "AGENTRL_PI_TARBALL and SLIME_AGENT_NODE_TARBALL are what `make harness-assets` brings",
	}}
	return h, h.cli.Check()
}

// DialsBack reports true.
func (h *Harness) DialsBack() bool { return true }

// Install uploads node and the package unless the image has them. An image
// with neither bash nor sh in its PATH is of no use to it.
func (h *Harness) Install(ctx context.Context, sb sandbox.Sandbox) error {
	_, err := h.cli.Install(ctx, sb)
	return err
}

// Run runs pi on the job, without a terminal.
func (h *Harness) Run(ctx context.Context, sb sandbox.Sandbox, job harness.Job) (harness.Report, error) {
	files, err := configOf(job)
	if err != nil {
		return harness.Report{}, fmt.Errorf("pi's configuration: %w", err)
	}
	env := map[string]string{
		"PI_CODING_AGENT_DIR": harness.DirMark, "PI_OFFLINE": "1", "PI_TELEMETRY": "0", "PI_SKIP_VERSION_CHECK": "1",
	}
	maps.Copy(env, h.o.ExtraEnvs)
	args := harness.Words("--mode", "json", "--provider", "agentrl", "--model", job.Model, "--no-extensions", "--no-skills", "--no-prompt-templates")
	if h.o.ExtraArgs != "" {
		args += " " + h.o.ExtraArgs
	}
	return h.cli.Run(ctx, sb, harness.Launch{Job: job, Args: args, Env: env, Files: files, Says: []string{answered}, Read: read})
}

// configOf tells the truth about the context window, of which pi keeps a
// reserve for its summary.
func configOf(job harness.Job) (map[string][]byte, error) {
	type object = map[string]any
	model := object{"id": job.Model, "name": job.Model, "reasoning": true, "input": []string{"text"},
		"cost": object{"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}
	settings := object{"retry": object{"maxRetries": 3}}
	if job.MaxContext > 0 {
		model["contextWindow"] = job.MaxContext
		settings["compaction"] = object{"reserveTokens": min(16384, job.MaxContext/4), "keepRecentTokens": min(20000, job.MaxContext/4)}
	}
	if job.MaxTurn > 0 {
		model["maxTokens"] = job.MaxTurn
	}
	models := object{"providers": object{"agentrl": object{
		"baseUrl": job.BaseURL + "/v1", "api": "openai-completions", "apiKey": job.Token, "models": []any{model},
	}}}
	files := map[string][]byte{}
	for name, content := range map[string]any{"models.json": models, "settings.json": settings} {
		data, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		files[name] = data
	}
	return files, nil
}

// An event is one line of the log.
type event struct {
	Type    string `json:"type"`
	Message struct {
		Role  string `json:"role"`
		Stop  string `json:"stopReason"`
		Error string `json:"errorMessage"`
	} `json:"message"`
}

func (e event) answer() bool { return e.Type == "message_end" && e.Message.Role == "assistant" }

// answered is in the event of each answer. The last event of all holds the
// whole conversation again, and may be longer than what is read of a log.
const answered = `"type":"message_end","message":{"role":"assistant"`

// read judges by the last answer: pi exits with 0 also when it could not go on.
func read(log harness.Log, exit sandbox.Exit, r *harness.Report) {
	var last event
	log.Last(func(line []byte) bool {
		var e event
		if json.Unmarshal(line, &e) == nil && e.answer() {
			if r.Turns++; r.Turns == 1 {
				last = e
			}
		}
		return false
	})
	switch last.Message.Stop {
	case "":
		return
	case "stop":
		r.Outcome = harness.Finished
	case "length":
		r.Outcome = harness.GaveUp
	case "error":
		r.Log = last.Message.Error
		r.Outcome = harness.OutcomeOf(last.Message.Error)
	}
	if exit.Code > 128 {
		r.Outcome = harness.Crashed
	}
}
