package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/swe"
)

// A row is one that the protocol understood.
type row struct {
	line   int
	sample agentrl.Sample
	spec   swe.Spec
}

// dataset reads all rows by the training protocol.
func (d *doctor) dataset(context.Context) {
	if d.o.rows == "" {
		d.warn("give -rows the dataset", "no dataset is named")
		return
	}
	f, err := os.Open(d.o.rows)
	if err != nil {
		d.fail("correct -rows", "%v", err)
		return
	}
	defer f.Close()
	var bad []string
	n := 0
	in := bufio.NewReaderSize(f, 1<<20)
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if len(bytes.TrimSpace(text)) > 0 {
			n++
			if why := d.lint(line, text); why != nil {
				bad = append(bad, fmt.Sprintf("line %d: %v", line, why))
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			d.fail("correct -rows", "%v", err)
			return
		}
	}
	switch {
	case n == 0:
		d.fail("correct -rows", "%s has no rows", d.o.rows)
	case len(bad) > 0:
		d.fail("correct or drop these rows: each would be an aborted sample", "%d of %d rows can't be trained on\n%s", len(bad), n, short(strings.Join(bad, "\n"), 10))
	default:
		d.fine("%d rows by the protocol %s", n, d.g.Config.TrainProtocol)
	}
}

// lint parses one row, and keeps the first ones.
func (d *doctor) lint(line int, text []byte) error {
	var raw struct {
		Prompt   json.RawMessage            `json:"prompt"`
		Label    json.RawMessage            `json:"label"`
		Metadata map[string]json.RawMessage `json:"metadata"`
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		var wrong *json.UnmarshalTypeError
		if errors.As(err, &wrong) {
			return fmt.Errorf("%s is a JSON %s: want an object", cmp.Or(wrong.Field, "the row"), wrong.Value)
		}
		return err
	}
	task, err := d.g.Protocol.Parse(swe.Row(raw))
	if err != nil {
		return err
	}
	r := row{line: line, spec: task.Spec()}
	if err := json.Unmarshal(text, &r.sample); err != nil {
		return err
	}
	if len(d.rows) < max(d.o.grade, 1) {
		d.rows = append(d.rows, r)
	}
	return nil
}

// backend asks for sandboxes that the doctor left: there are none, but the
// backend has to be there and to take the key.
func (d *doctor) backend(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	name := d.g.Config.Sandbox
	reaper, ok := d.g.Sandboxes.(sandbox.Reaper)
	if !ok {
		d.fine("%s keeps no list that could be asked for; the boot shows it", name)
		return
	}
	start := time.Now()
	if _, err := reaper.List(ctx, map[string]string{"run": "doctor"}); err != nil {
		d.fail("see that "+name+" runs, and that its variables (E2B_API_KEY and _URL, DOCKER_HOST) name it", "%s: %v", name, err)
		return
	}
	d.fine("%s answers in %v", name, time.Since(start).Round(time.Millisecond))
}

// sandbox boots one, installs the harness and dials back from inside.
func (d *doctor) sandbox(ctx context.Context) {
	spec := sandbox.Spec{Image: d.o.image, Workdir: d.o.workdir}
	if len(d.rows) > 0 && d.o.image == "" {
		spec = d.rows[0].spec.Agent
	}
	if spec.Image == "" {
		d.skip("no image is known: give -image or -rows")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	spec.Labels = map[string]string{"run": "doctor"}
	spec.Lifetime = d.g.Config.SandboxLifetime
	start := time.Now()
	sb, err := d.g.Sandboxes.Create(ctx, spec)
	if err != nil {
		d.fail(advice(&agentrl.StageError{Stage: agentrl.StageCreate, Err: err}), "boot %s: %v", spec.Image, err)
		return
	}
	defer func() {
		if err := sb.Close(); err != nil {
			d.warn("look for it at the backend", "close %s: %v", sb.ID(), err)
		}
	}()
	booted := time.Since(start)
	if err := d.g.Harness.Install(ctx, sb); err != nil {
		d.fail("look at the harness's files and at the image", "install %s: %v", d.g.Config.Agent, err)
		return
	}
	installed := time.Since(start) - booted
	if !d.dialsBack(ctx, sb) {
		return
	}
	d.fine("%s booted in %v, %s installed in %v", spec.Image, booted.Round(10*time.Millisecond), d.g.Config.Agent, installed.Round(10*time.Millisecond))
}

// dialsBack reaches the adapter from inside, where the harness will have to.
func (d *doctor) dialsBack(ctx context.Context, sb sandbox.Sandbox) bool {
	if !d.g.Harness.DialsBack() {
		return true
	}
	session, err := d.g.Adapter.OpenSession(ctx, "agentrl-doctor", adapter.SessionOptions{})
	if err != nil {
		d.fail("", "open a session: %v", err)
		return false
	}
	defer func() { _ = d.g.Adapter.DropSession(session.ID) }() // idempotent, and the process ends
	if err := harness.Dial(ctx, sb, session.BaseURL); err != nil {
		d.fail("set ADAPTER_PUBLIC_HOST to an address of this host that sandboxes can reach, or ADAPTER_PUBLIC_URL to a tunnel's", "%v", err)
		return false
	}
	return true
}

// grading grades the empty patch and the gold patch of a few rows.
func (d *doctor) grading(ctx context.Context) {
	if len(d.rows) == 0 || d.o.grade <= 0 {
		d.skip("no rows to grade")
		return
	}
	gold := 0
	for _, r := range d.rows[:min(d.o.grade, len(d.rows))] {
		empty, err := d.g.Grade(ctx, r.sample, swe.Patch{})
		if err == nil && empty.Keep && empty.Outcome == swe.Solved {
			d.fail("drop the row: it rewards doing nothing", "line %d, %s: the tests pass without any change", r.line, r.spec.InstanceID)
			return
		}
		if !d.graded(r, "the empty patch", empty, err) {
			return
		}
		patch := goldPatch(r.sample)
		if patch == "" {
			continue
		}
		e, err := d.g.Grade(ctx, r.sample, swe.Patch{Bytes: []byte(patch)})
		if !d.graded(r, "the gold patch", e, err) {
			return
		}
		if e.Outcome != swe.Solved {
			d.fail("drop or correct the row: nobody can solve it", "line %d, %s: the gold patch: %s: %s", r.line, r.spec.InstanceID, e.Outcome, short(e.Reason, 5))
			return
		}
		gold++
	}
	d.fine("the empty patch fails in %d rows, the gold patch solves %d; `preflight` tries them all", min(d.o.grade, len(d.rows)), gold)
}

// graded reports whether the grading says something about the patch.
func (d *doctor) graded(r row, what string, e swe.Evaluation, err error) bool {
	switch {
	case err != nil:
		d.fail(advice(err), "line %d, %s: %s: %v", r.line, r.spec.InstanceID, what, err)
		return false
	case !e.Keep:
		d.fail("look at the row's grader and its image", "line %d, %s: %s: %s: %s", r.line, r.spec.InstanceID, what, e.Outcome, short(e.Reason, 5))
		return false
	}
	return true
}

// advice names the code of a failure, by which the guide says what to do.
func advice(err error) string {
	return "examples/guide/failures.md says what to do about " + agentrl.FailureOf(err).Code
}

// goldPatch is the row's own solution; "" when it has none.
func goldPatch(s agentrl.Sample) string {
	remote, _ := s.Metadata["remote_env_info"].(map[string]any)
	for _, m := range []map[string]any{s.Metadata, remote} {
		if text, ok := m["patch"].(string); ok && text != "" {
			return text
		}
	}
	return ""
}
