package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/parse"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/template"
	"github.com/agentrl-go/agentrl/adapter/token"
)

// made is what checks leave for later ones.
type made struct {
	cfg    agentrl.Config
	tok    *token.Tokenizer
	tmpl   *template.Template
	client *sglang.Client
	at     place
	g      *agentrl.Generator
	rows   []row
}

func (d *doctor) close() {
	if d.g == nil {
		return
	}
	if err := d.g.Close(); err != nil {
		d.warn("look for sandboxes that are left", "closing: %v", err)
	}
}

// environment reads the variables.
func (d *doctor) environment(context.Context) {
	var err error
	if d.cfg, err = agentrl.ConfigFromEnv(d.environ); err != nil {
		d.fail("correct the variables; README has the table of them", "%v", err)
		return
	}
	for _, w := range d.cfg.Warnings {
		d.warn("correct or unset the variable", "%s", w)
	}
	if len(d.cfg.Warnings) == 0 {
		d.fine("every variable is understood")
	}
}

// checkpoint loads tokenizer and chat template.
func (d *doctor) checkpoint(context.Context) {
	if d.o.args.HFCheckpoint == "" {
		d.fail("give -checkpoint the directory of the model that is served", "no checkpoint is named")
		return
	}
	var err error
	if d.tok, err = token.Load(d.o.args.HFCheckpoint); err != nil {
		d.fail("see the package docs of adapter/token for what is refused and why", "%v", err)
	}
	if d.tmpl, err = template.Load(d.o.args.HFCheckpoint); err != nil {
		d.fail("see the package docs of adapter/template and internal/jinja for what is refused and why", "%v", err)
	}
	if d.tok != nil && d.tmpl != nil {
		d.fine("%d tokens; the chat template compiles", d.tok.VocabSize())
	}
}

// chatTemplate reports what its deltas are worth.
func (d *doctor) chatTemplate(context.Context) {
	v := d.tmpl.Conform(template.RenderOptions{})
	switch v.Policy {
	case template.Exact:
		d.fine("exact continuation\n%s", v)
	case template.Mixed:
		d.warn("nothing, if such turns are rare; each of them may begin a sample of its own", "exact continuation in some cases only\n%s", v)
	default:
		d.warn("serve the model with a template that leaves earlier turns as they are, or expect about one sample a turn", "every turn is rendered anew\n%s", v)
	}
}

// parsers checks the names.
func (d *doctor) parsers(context.Context) {
	if _, err := parse.New(d.o.args.ToolCallParser, d.o.args.ReasoningParser, parse.Strict); err != nil {
		d.fail("give the names that the server was started with", "%v", err)
		return
	}
	if d.o.args.ToolCallParser == "" {
		d.warn("give -tool-parser", "no tool-call parser: an agent's tool calls will be text")
		return
	}
	d.fine("tool calls %q, reasoning %q", d.o.args.ToolCallParser, d.o.args.ReasoningParser)
}

// files looks at what harnesses install from.
func (d *doctor) files(context.Context) {
	seen := 0
	c := d.cfg
	for _, f := range []struct{ variable, path, pin, sum string }{
		{"SLIME_AGENT_NODE_TARBALL", c.NodeTarball, "AGENTRL_NODE_SHA256", c.NodeSHA256},
		{"SLIME_AGENT_CC_TARBALL", c.ClaudeCodeTarball, "AGENTRL_CC_SHA256", c.ClaudeCodeSHA256},
		{"AGENTRL_CC_MUSL_TARBALL", c.ClaudeCodeMuslTarball, "AGENTRL_CC_MUSL_SHA256", c.ClaudeCodeMuslSHA256},
		{"SLIME_AGENT_CODEX_TARBALL", c.CodexTarball, "AGENTRL_CODEX_SHA256", c.CodexSHA256},
		{"AGENTRL_OPENCODE_TARBALL", c.OpencodeTarball, "AGENTRL_OPENCODE_SHA256", c.OpencodeSHA256},
		{"AGENTRL_PI_TARBALL", c.PiTarball, "AGENTRL_PI_SHA256", c.PiSHA256},
	} {
		if f.path == "" {
			continue
		}
		seen++
		sum, size, err := hashFile(f.path)
		switch {
		case err != nil:
			d.fail("put the file there or unset the variable", "%s: %v", f.variable, err)
		case size == 0:
			d.fail("fetch it again", "%s: %s is empty", f.variable, f.path)
		case f.sum != "" && !strings.EqualFold(f.sum, sum):
			d.fail("fetch it again, or correct the pin", "%s: %s has sha256 %s, %s is %s", f.variable, f.path, sum, f.pin, f.sum)
		default:
			d.fine("%s: %s, %d bytes, sha256 %s", f.variable, f.path, size, sum)
		}
	}
	if seen == 0 {
		d.fine("none is named; the images have what the harness needs, or it needs nothing")
	}
}

func hashFile(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	size, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), size, err
}

// directories sees whether a run can write what it is to leave. A record that
// can't be written is only a warning in a run's log.
func (d *doctor) directories(context.Context) {
	seen := 0
	for _, f := range []struct{ variable, path string }{
		{"AGENTRL_RUN_DIR", d.cfg.RunDir}, {"AGENTRL_RECORD_DIR", d.cfg.RecordDir}, {"AGENTRL_LEDGER_DIR", d.cfg.LedgerDir},
	} {
		if f.path == "" {
			continue
		}
		seen++
		if err := writable(f.path); err != nil {
			d.fail("make the directory, or give this user the right to write there", "%s: %v", f.variable, err)
			continue
		}
		d.fine("%s: %s can be written", f.variable, f.path)
	}
	if seen == 0 {
		d.fine("none is named: no run records, recordings or ledger are kept")
	}
}

// writable makes the directory, as a run does, and a file in it.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// configuration makes the Generator, as a run does.
func (d *doctor) configuration(context.Context) {
	if d.client == nil { // a URL that is none is named already
		d.skip("it needs %q, which was not well", "engine")
		return
	}
	cfg := d.cfg
	cfg.GradeEmpty = true
	g, err := agentrl.New(cfg, d.o.args)
	if err != nil {
		d.fail("the message names the variable", "%v", err)
		return
	}
	d.g = g
	if d.bend != nil {
		d.bend(g)
	}
	c := g.Config
	d.fine("agent %s, sandboxes %s, trajectory %s, parse %s\nagent %v, evaluation %v, guard %v, at most %s sandboxes", c.Agent, c.Sandbox, c.Trajectory, c.Parse,
		c.AgentBudget, c.EvalTimeout, c.Guard, limit(c.MaxSandboxes))
}

func limit(n int) string {
	if n == 0 {
		return "any number of"
	}
	return fmt.Sprint(n)
}

// short keeps the first lines of a long text.
func short(text string, lines int) string {
	all := strings.Split(strings.TrimSpace(text), "\n")
	if len(all) <= lines {
		return strings.Join(all, "\n")
	}
	return strings.Join(all[:lines], "\n") + fmt.Sprintf("\n… and %d more", len(all)-lines)
}
