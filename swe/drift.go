package swe

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// A Drift is a path on which two bases differ: an image or a set-up that does
// not give the same twice.
type Drift struct {
	Path    string
	Was, Is string // "mode type id" as `git ls-tree` has it, at the capture and here; "" where there is no such file
}

// String is for people.
func (d Drift) String() string {
	return fmt.Sprintf("%s: was %s, is %s", d.Path, cmp.Or(d.Was, "missing"), cmp.Or(d.Is, "missing"))
}

// drifted compares the list that a patch brought with that of the base here.
func (g *Grading) drifted(ctx context.Context, was []byte) ([]Drift, error) {
	if err := g.snap.run(ctx, `listing "$(cat "$SNAP/s0")"`); err != nil {
		return nil, err
	}
	is, err := g.snap.read(ctx, "listing", maxPatch)
	if err != nil {
		return nil, err
	}
	return compareListings(was, is)
}

// compareListings returns where two listings differ, by path.
func compareListings(was, is []byte) ([]Drift, error) {
	before, err := parseListing(was)
	if err != nil {
		return nil, fmt.Errorf("the files of the patch's base: %w", err)
	}
	here, err := parseListing(is)
	if err != nil {
		return nil, fmt.Errorf("the files of the base: %w", err)
	}
	var drifts []Drift
	for path, entry := range before {
		if here[path] != entry {
			drifts = append(drifts, Drift{path, entry, here[path]})
		}
	}
	for path, entry := range here {
		if _, ok := before[path]; !ok {
			drifts = append(drifts, Drift{path, "", entry})
		}
	}
	slices.SortFunc(drifts, func(a, b Drift) int { return strings.Compare(a.Path, b.Path) })
	return drifts, nil
}

// parseListing reads `git ls-tree -r -z`: "mode type id\tpath" entries.
func parseListing(data []byte) (map[string]string, error) {
	files := map[string]string{}
	for _, line := range splitNUL(data) {
		entry, path, ok := strings.Cut(line, "\t")
		if !ok {
			return nil, fmt.Errorf("unknown line %q", line)
		}
		files[path] = entry
	}
	return files, nil
}
