package swe

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/agentrl-go/agentrl/sandbox"
)

// An ApplyReport says how a patch came to a grading sandbox.
type ApplyReport struct {
	Tier      string   // "exact"; under drift also "3way", "loose", "fuzz"; "" when it was rejected
	Drift     bool     // the base differs from the one that the patch was captured on, or that is not known
	Drifted   []Drift  // where it differs, by path; nil when the patch does not say what it was captured on
	Tree      string   // the tree after application, before protected paths were restored
	Restored  []string // protected paths that the patch had changed
	Rejection string   // what git said
	Tampered  bool     // a captured patch that did not give the tree it was captured with
}

// A Grading is a workspace in a grading sandbox: set up, with its snapshot
// taken. It is used by one goroutine.
type Grading struct {
	Tools map[string]string // programs found, by name

	w    *Workspace
	snap snap
	sb   sandbox.Sandbox
	base string
}

// Grading sets up the graders' side in a fresh sandbox.
func (w *Workspace) Grading(ctx context.Context, sb sandbox.Sandbox) (*Grading, error) {
	tools, err := w.setUp(ctx, sb)
	if err != nil {
		return nil, err
	}
	s := newSnap(sb, w.Workdir)
	base, err := s.base(ctx, w.Commit)
	if err != nil {
		return nil, err
	}
	return &Grading{Tools: tools, w: w, snap: s, sb: sb, base: base}, nil
}

// ApplyOptions say what is not taken from a patch.
type ApplyOptions struct {
	Protected Globs  // restored to the base afterwards
	Tests     []byte // the graders' own patch, applied last; its files are restored before
	Official  []byte // a patch whose files are restored too, and that is not applied
}

// Apply applies a patch, restores the protected paths, and then applies the
// graders' own patch. It works in index space: the files
// change only when all of it has succeeded. A patch that does not apply is a
// report without Tier; an error is the sandbox's, or *OfficialError.
func (g *Grading) Apply(ctx context.Context, p Patch, o ApplyOptions) (ApplyReport, error) {
	report := ApplyReport{Drift: p.BaseTree != g.base}
	if report.Drift && len(p.BaseList) > 0 {
		var err error
		if report.Drifted, err = g.drifted(ctx, p.BaseList); err != nil {
			return report, err
		}
	}
	if err := g.index(ctx, p, &report); err != nil || report.Tier == "" {
		return report, err
	}
	changes, tree, err := g.changes(ctx)
	if err != nil {
		return report, err
	}
	report.Tree = tree
	report.Tampered = !report.Drift && p.ResultTree != "" && tree != p.ResultTree
	if report.Tampered {
		report.Tier, report.Rejection = "", "the patch gives another tree than the one it was captured with: its bytes were changed"
		return report, nil
	}
	tests, official := touched(o.Tests), touched(o.Official)
	keep := func(p string) bool { return o.Protected.Match(p) || tests[p] || official[p] }
	if report.Restored, err = g.restore(ctx, changes, keep); err != nil {
		return report, err
	}
	if err := g.official(ctx, o.Tests); err != nil {
		return report, err
	}
	if len(report.Restored) > 0 || len(o.Tests) > 0 {
		if changes, _, err = g.changes(ctx); err != nil {
			return report, err
		}
	}
	return report, g.materialise(ctx, changes)
}

// changes are the working index's differences from the base, and its tree.
func (g *Grading) changes(ctx context.Context) ([]change, string, error) {
	b, err := g.snap.found(ctx)
	if err != nil {
		return nil, "", err
	}
	changes, err := parseRaw(b["raw"])
	return changes, b.fact("tree"), err
}

// index applies the patch to the working index by the first tier that takes it.
func (g *Grading) index(ctx context.Context, p Patch, report *ApplyReport) error {
	data := p.Bytes
	if p.ResultTree == "" && len(data) > 0 && !bytes.HasSuffix(data, []byte("\n")) {
		data = append(slices.Clone(data), '\n') // stored patches often lost it
	}
	if err := g.snap.write(ctx, "incoming", data); err != nil {
		return err
	}
	tiers := []string{"exact"}
	if report.Drift {
		tiers = append(tiers, "3way", "loose", "fuzz")
	}
	if len(data) == 0 {
		tiers = []string{"nothing"}
	}
	for _, tier := range tiers {
		err := g.snap.run(ctx, "apply_tier "+tier)
		var failed *CaptureError
		switch {
		case err == nil:
			report.Tier = tier
			return nil
		case !errors.As(err, &failed) || failed.Code != 1:
			return err
		case report.Rejection == "":
			report.Rejection = strings.TrimSpace(failed.Output)
		}
	}
	return nil
}

// restore puts protected paths back to the base and returns them.
func (g *Grading) restore(ctx context.Context, changes []change, protected func(string) bool) ([]string, error) {
	var paths, entries []string
	for _, c := range changes {
		if !protected(c.path) {
			continue
		}
		paths = append(paths, c.path)
		mode := cmp.Or(strings.TrimLeft(c.oldMode, "0"), "0") // 0: it was not there
		entries = append(entries, mode+" "+c.oldBlob+"\t"+c.path)
	}
	if len(paths) == 0 {
		return nil, nil
	}
	if err := g.snap.writeList(ctx, "entries", entries); err != nil {
		return nil, err
	}
	return paths, g.snap.run(ctx, "restore")
}

// An OfficialError is a graders' patch that does not apply to the row's own base.
type OfficialError struct{ Output string }

func (e *OfficialError) Error() string {
	return "the row's test patch does not apply: " + strings.TrimSpace(e.Output)
}

func (g *Grading) official(ctx context.Context, tests []byte) error {
	if len(bytes.TrimSpace(tests)) == 0 {
		return nil
	}
	if !bytes.HasSuffix(tests, []byte("\n")) {
		tests = append(slices.Clone(tests), '\n')
	}
	if err := g.snap.write(ctx, "tests", tests); err != nil {
		return err
	}
	err := g.snap.run(ctx, "official")
	var failed *CaptureError
	if errors.As(err, &failed) && failed.Code == 1 {
		return &OfficialError{failed.Output}
	}
	return err
}

// materialise writes what the working index holds into the work tree.
func (g *Grading) materialise(ctx context.Context, changes []change) error {
	var gone, put []string
	for _, c := range changes {
		if c.status == "D" {
			gone = append(gone, c.path)
		} else {
			put = append(put, c.path)
		}
	}
	for _, list := range []struct {
		name  string
		paths []string
	}{{"gone", gone}, {"dirs", parents(gone)}, {"put", put}, {"own", append(parents(put), put...)}} {
		if err := g.snap.writeList(ctx, list.name, list.paths); err != nil {
			return err
		}
	}
	return g.snap.run(ctx, "materialise "+sandbox.AgentUser)
}

// parents are the directories above paths, deepest first.
func parents(paths []string) []string {
	seen := map[string]bool{}
	for _, p := range paths {
		for d := path.Dir(p); d != "." && !seen[d]; d = path.Dir(d) {
			seen[d] = true
		}
	}
	dirs := make([]string, 0, len(seen))
	for d := range seen {
		dirs = append(dirs, d)
	}
	slices.SortFunc(dirs, func(a, b string) int { return strings.Count(b, "/") - strings.Count(a, "/") })
	return dirs
}

// Reset brings the work tree back to the base, for a second run that tells a
// broken image from a broken patch.
func (g *Grading) Reset(ctx context.Context) error { return g.snap.run(ctx, "back") }
