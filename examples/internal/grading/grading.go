// Package grading is what the examples that grade patches without an agent
// share: a Generator with a protocol and a sandbox backend and nothing else,
// and files of JSON lines.
package grading

import (
	"fmt"
	"os"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/swe"
	"github.com/agentrl-go/agentrl/swe/harbor"
	"github.com/agentrl-go/agentrl/swe/scaleswe"
	"github.com/agentrl-go/agentrl/swe/statusmap"
	"github.com/agentrl-go/agentrl/swe/swebench"
	"github.com/agentrl-go/agentrl/swe/swepro"
)

// Open returns a Generator for Grade alone: no engine, no adapter, no agent.
// With empty it also runs the tests of an empty patch.
func Open(protocol, backend string, empty bool) (*agentrl.Generator, error) {
	cfg, err := agentrl.ConfigFromEnv(os.Environ())
	if err != nil {
		return nil, err
	}
	cfg.GradeEmpty = empty
	g := &agentrl.Generator{Config: cfg}
	if g.Protocol, err = newProtocol(protocol, empty); err != nil {
		return nil, err
	}
	cfg.Sandbox = backend
	if g.Sandboxes, err = agentrl.NewProvider(cfg); err != nil {
		return nil, fmt.Errorf("-sandbox %s: %w", backend, err)
	}
	return g, nil
}

func newProtocol(name string, empty bool) (swe.Protocol, error) {
	switch name {
	case "scaleswe":
		return scaleswe.New(scaleswe.Options{GradeEmpty: empty, Pro: swepro.New(swepro.Options{GradeEmpty: empty})}), nil
	case "swebench":
		return swebench.New(swebench.Options{GradeEmpty: empty}), nil
	case "swepro":
		return swepro.New(swepro.Options{GradeEmpty: empty}), nil
	case "statusmap":
		return statusmap.New(statusmap.Options{GradeEmpty: empty}), nil
	case "harbor":
		return harbor.New(harbor.Options{GradeEmpty: empty}), nil
	}
	return nil, fmt.Errorf("-protocol %q: want scaleswe, swebench, swepro, statusmap or harbor", name)
}

// ID is a row's instance id, for people.
func ID(row agentrl.Sample) string {
	id, _ := row.Metadata["instance_id"].(string)
	return id
}
