package swetest_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
	"github.com/agentrl-go/agentrl/swe"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

func TestProtocol(t *testing.T) {
	row := map[string]any{"image": "i", "workdir": "/w", "want": "42"}
	for _, c := range []struct {
		answer string
		want   swe.Outcome
	}{{"42", swe.Solved}, {"41", swe.Failed}, {"", swe.EmptyPatch}} {
		task := swetest.Parse(t, &swetest.Protocol{}, row)
		agent, grader := box(t), box(t)
		if err := task.Prepare(t.Context(), agent); err != nil {
			t.Fatal(err)
		}
		if c.answer != "" {
			if err := agent.WriteFile(t.Context(), "/w/"+swetest.AnswerFile, "", strings.NewReader(c.answer)); err != nil {
				t.Fatal(err)
			}
		}
		p, err := task.Diff(t.Context(), agent)
		if err != nil {
			t.Fatal(err)
		}
		if e, err := task.Evaluate(t.Context(), grader, p); err != nil || e.Outcome != c.want {
			t.Errorf("answer %q: %+v, %v", c.answer, e, err)
		}
		if _, err := task.Evaluate(t.Context(), agent, p); err == nil && c.answer != "" {
			t.Error("graded in the agent's sandbox")
		}
	}
}

func TestBend(t *testing.T) {
	wrong := errors.New("bent")
	p := &swetest.Protocol{Bend: func(_ context.Context, call string, _ sandbox.Sandbox) error {
		if call == "diff" {
			return wrong
		}
		return nil
	}}
	task := swetest.Parse(t, p, map[string]any{"image": "i", "workdir": "/w", "want": "42"})
	if _, err := task.Diff(t.Context(), box(t)); !errors.Is(err, wrong) {
		t.Error(err)
	}
}

func box(t *testing.T) sandbox.Sandbox {
	sb, err := (&sandboxtest.Fake{}).Create(t.Context(), sandbox.Spec{Image: "i"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sb.Close() })
	return sb
}
