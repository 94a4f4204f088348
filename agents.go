package agentrl

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/claudecode"
	"github.com/agentrl-go/agentrl/harness/codex"
	"github.com/agentrl-go/agentrl/harness/mini"
	"github.com/agentrl-go/agentrl/harness/opencode"
	"github.com/agentrl-go/agentrl/harness/pi"
	"github.com/agentrl-go/agentrl/harness/shell"
)

// agents are the harnesses by name.
var agents = map[string]func(Config) (harness.Harness, error){
	"claude_code": newClaudeCode,
	"codex":       newCodex,
	"mini":        func(Config) (harness.Harness, error) { return mini.New(mini.Options{}), nil },
	"opencode": func(c Config) (harness.Harness, error) {
		return opencode.New(opencode.Options{Program: harness.Asset{Path: c.OpencodeTarball, SHA256: c.OpencodeSHA256}})
	},
	"pi": func(c Config) (harness.Harness, error) {
		return pi.New(pi.Options{Package: harness.Asset{Path: c.PiTarball, SHA256: c.PiSHA256}, Node: c.node()})
	},
	"shell": func(c Config) (harness.Harness, error) { return shell.New(c.Command, "") },
}

func (c Config) node() harness.Asset { return harness.Asset{Path: c.NodeTarball, SHA256: c.NodeSHA256} }

func newClaudeCode(c Config) (harness.Harness, error) {
	envs, err := harness.Envs("SLIME_AGENT_CC_EXTRA_ENVS", c.ClaudeCodeEnvs)
	if err != nil {
		return nil, err
	}
	return claudecode.New(claudecode.Options{
		Program: harness.Asset{Path: c.ClaudeCodeTarball, SHA256: c.ClaudeCodeSHA256},
		Musl:    harness.Asset{Path: c.ClaudeCodeMuslTarball, SHA256: c.ClaudeCodeMuslSHA256},
		Node:    c.node(), ExtraArgs: c.ClaudeCodeArgs, ExtraEnvs: envs,
	})
}

func newCodex(c Config) (harness.Harness, error) {
	envs, err := harness.Envs("SLIME_AGENT_CODEX_EXTRA_ENVS", c.CodexEnvs)
	if err != nil {
		return nil, err
	}
	return codex.New(codex.Options{
		Program: harness.Asset{Path: c.CodexTarball, SHA256: c.CodexSHA256}, ExtraArgs: c.CodexArgs, ExtraEnvs: envs,
	})
}

func agentNames() []string { return slices.Sorted(maps.Keys(agents)) }

func newHarness(cfg Config) (harness.Harness, error) {
	make, ok := agents[cfg.Agent]
	if !ok {
		return nil, fmt.Errorf("SWE_AGENT=%q: want one of %s", cfg.Agent, strings.Join(agentNames(), ", "))
	}
	if err := cfg.checkPins(); err != nil {
		return nil, err
	}
	return make(cfg)
}

// checkPins refuses a pin that no file can match.
func (c Config) checkPins() error {
	var errs []error
	for _, pin := range []struct{ name, sum string }{
		{"AGENTRL_NODE_SHA256", c.NodeSHA256}, {"AGENTRL_CC_SHA256", c.ClaudeCodeSHA256}, {"AGENTRL_CC_MUSL_SHA256", c.ClaudeCodeMuslSHA256},
		{"AGENTRL_CODEX_SHA256", c.CodexSHA256}, {"AGENTRL_OPENCODE_SHA256", c.OpencodeSHA256}, {"AGENTRL_PI_SHA256", c.PiSHA256},
	} {
		if raw, err := hex.DecodeString(pin.sum); pin.sum != "" && (err != nil || len(raw) != 32) {
			errs = append(errs, fmt.Errorf("%s=%q: want the 64 hexadecimal digits that sha256sum prints", pin.name, pin.sum))
		}
	}
	return errors.Join(errs...)
}
