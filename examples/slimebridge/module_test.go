package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/examples/internal/demo"
)

// TestTemplateKwargsGoOver: slime's Sample has the template's variables in a
// field of its own. Some that are refused show that they came.
func TestTemplateKwargsGoOver(t *testing.T) {
	r := newRig(t, 1, demo.EngineOptions{})
	r.rows[0]["apply_chat_template_kwargs"] = map[string]any{"messages": 1}
	l := r.drive(t, "group")[0]
	if l.code() != "bad_row" || !strings.Contains(l.Sample["metadata"].(map[string]any)["failure"].(map[string]any)["message"].(string), "apply_chat_template_kwargs") {
		t.Errorf("sample %v, want one that was refused for its kwargs", l.Sample)
	}
}

// TestAbortWhileTheServiceStarts: slime's abort loop must come to rest, whatever
// the service does.
func TestAbortWhileTheServiceStarts(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	r := newRig(t, 2, demo.EngineOptions{})
	r.rows[0]["label"] = "project__lib-7"
	delete(r.rows[0]["metadata"].(map[string]any), "instance_id")
	program := filepath.Join(r.dir, "slow")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 25\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r.env = append(r.env, "AGENTRL_BRIDGE_BIN="+program)
	lines := r.drive(t, "slowstart")
	if len(lines) != 3 || lines[0].Abort > 10 {
		t.Fatalf("abort: %+v, want it over within 10 s", lines)
	}
	for _, l := range lines[1:] {
		if l.Sample["status"] != "aborted" || l.code() != "cancelled" || l.Listed {
			t.Errorf("sample %v", l.Sample)
		}
	}
	if id := lines[1].Sample["metadata"].(map[string]any)["instance_id"]; id != "project__lib-7" {
		t.Errorf("instance_id %v, want the label, as a rollout has it", id)
	}
	t.Logf("figure: abort flag while the service starts: at rest after %.1f s", lines[0].Abort)
}

// TestManyDescriptors: a trainer's process holds more than select takes.
func TestManyDescriptors(t *testing.T) {
	r := newRig(t, 1, demo.EngineOptions{})
	lines := r.drive(t, "crowded")
	if len(lines) != 2 || lines[0].Sample["status"] != "completed" || lines[1].Health == nil {
		t.Errorf("%+v", lines)
	}
}

// TestRowsThatJSONCannotHold are named, before anything is sent.
func TestRowsThatJSONCannotHold(t *testing.T) {
	r := newRig(t, 1, demo.EngineOptions{})
	if l := r.drive(t, "nan")[0]; !strings.Contains(l.Error, "sample 0 holds what JSON cannot") {
		t.Errorf("error %q", l.Error)
	}
}
