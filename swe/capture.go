package swe

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/agentrl-go/agentrl/internal/shell"
)

// Limits of a capture, in bytes. A new file above maxNewFile is left out and
// reported; a patch above maxPatch fails the capture.
const (
	maxNewFile  = 1 << 20
	maxBaseFile = 64 << 20 // untracked files that an image ships
	maxPatch    = 256 << 20
	maxIgnored  = 100 // reported ignored paths
)

// found is what a look at the work tree saw. Paths are relative to it.
type found struct {
	other   []string // not in the index, not ignored; "dir/" for a repository inside
	base    []string // in the index
	tracked []string // in the repository's own index, gitlinks left out
	big     []string
	special []string // neither file, link nor directory
	ignored []string
	nested  []string // repositories inside, "dir/"
}

// base takes snapshot S0: the work tree as the agent will find it. HEAD has to
// be the commit, where one is given.
func (s snap) base(ctx context.Context, commit string) (string, error) {
	if err := s.run(ctx, "init", fmt.Sprintf("lists nojunk %d", maxBaseFile)); err != nil {
		return "", err
	}
	if err := s.write(ctx, "lib.sh", []byte(s.library())); err != nil {
		return "", err
	}
	f, facts, err := s.look(ctx, "nojunk")
	if err != nil {
		return "", err
	}
	if head := facts.fact("head"); !strings.HasPrefix(head, commit) {
		return "", &SetupError{Step: "set-up", Output: fmt.Sprintf("HEAD is %s, and the row wants %s", head, commit)}
	}
	add, _ := f.choose(slices.Concat(f.other, f.tracked))
	b, err := s.tree(ctx, f, add, "keep_base")
	return b.fact("tree"), err
}

// diff takes snapshot S1 and returns what lies between S0 and it.
func (s snap) diff(ctx context.Context) (Patch, error) {
	if _, err := s.found(ctx); err != nil {
		return Patch{}, err // without a snapshot there is no library to run
	}
	if err := s.run(ctx, fmt.Sprintf("lists junk %d", maxNewFile)); err != nil {
		return Patch{}, err
	}
	f, before, err := s.look(ctx, "junk")
	if err != nil {
		return Patch{}, err
	}
	add, skipped := f.choose(slices.Concat(f.other, f.forced()))
	b, err := s.tree(ctx, f, add, `difference "$(cat "$SNAP/s0")" "$(cat "$SNAP/tree")"`)
	if err != nil {
		return Patch{}, err
	}
	p := Patch{BaseTree: before.fact("s0"), ResultTree: b.fact("tree"), Skipped: skipped, Scrub: before.fact("proof"), Flags: flags(before, f)}
	for _, path := range b["refused"] {
		p.Skipped = append(p.Skipped, Skipped{path, "git refuses the path"})
	}
	p.Skipped = append(p.Skipped, f.newlyIgnored(before["ignored0"])...)
	if p.Bytes, err = s.read(ctx, "patch", maxPatch); err != nil {
		return Patch{}, err
	}
	if p.BaseList, err = s.read(ctx, "listing", maxPatch); err != nil {
		return Patch{}, err
	}
	changes, err := parseRaw(b["raw"])
	for _, c := range changes {
		p.Files = append(p.Files, FileChange{c.path, c.status})
	}
	return p, err
}

// look reads what the library's lists call found, and lists the files of the
// repositories inside.
func (s snap) look(ctx context.Context, junk string) (found, bundle, error) {
	b, err := s.found(ctx)
	if err != nil {
		return found{}, nil, err
	}
	f := found{
		other: b["other"], base: b["base"], big: b["big"], special: b["special"], ignored: b["ignored"],
		tracked: trackedPaths(b["tracked"], b.fact("prefix")),
	}
	return f, b, s.flatten(ctx, junk, &f)
}

// trackedPaths reads `ls-files -s -z` entries ("mode id stage\tpath") and keeps
// the files below prefix, relative to it.
func trackedPaths(entries []string, prefix string) []string {
	var paths []string
	for _, e := range entries {
		meta, p, ok := strings.Cut(e, "\t")
		if !ok || strings.HasPrefix(meta, "160000 ") {
			continue
		}
		if prefix != "" {
			if p, ok = strings.CutPrefix(p, prefix+"/"); !ok {
				continue
			}
		}
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return slices.Compact(paths) // a path in conflict has several stages
}

// flatten replaces each repository inside the work tree, at any depth, by its files.
func (s snap) flatten(ctx context.Context, junk string, f *found) error {
	isDir := func(p string) bool { return strings.HasSuffix(p, "/") }
	todo := slices.DeleteFunc(slices.Clone(f.other), func(p string) bool { return !isDir(p) })
	f.other = slices.DeleteFunc(f.other, isDir)
	for len(todo) > 0 {
		dir := todo[0]
		todo = todo[1:]
		f.nested = append(f.nested, dir)
		if err := s.run(ctx, "nested "+junk+" "+shell.Quote(dir)+` >"$SNAP/inside"`); err != nil {
			return err
		}
		data, err := s.read(ctx, "inside", maxPatch)
		if err != nil {
			return err
		}
		for _, p := range splitNUL(data) {
			if isDir(p) {
				todo = append(todo, dir+p)
				continue
			}
			f.other = append(f.other, dir+p)
		}
	}
	return nil
}

// forced are the paths that only the repository's own index names: added by
// force although they are ignored.
func (f found) forced() []string {
	known := set(f.base)
	return slices.DeleteFunc(slices.Clone(f.tracked), func(p string) bool { return known[p] || generated(p) })
}

// generated paths are not wanted even when somebody added them by force.
func generated(p string) bool {
	if strings.HasSuffix(p, ".pyc") {
		return true
	}
	for part := range strings.SplitSeq(p, "/") {
		switch part {
		case "__pycache__", "node_modules", ".venv":
			return true
		}
	}
	return false
}

// choose sorts candidates into those to add and those to leave out.
func (f found) choose(candidates []string) (add []string, skipped []Skipped) {
	big, special, base := set(f.big), set(f.special), set(f.base)
	nested := set(f.nested)
	slices.Sort(candidates)
	for _, p := range slices.Compact(candidates) {
		switch {
		case ours(p), special[p], nested[p+"/"]:
		case big[p] && !base[p]:
			skipped = append(skipped, Skipped{p, "new and larger than the limit"})
		default:
			add = append(add, p)
		}
	}
	for _, p := range f.special {
		skipped = append(skipped, Skipped{p, "neither a file nor a link"})
	}
	return add, skipped
}

// ours are the files that we put into the work directory.
func ours(p string) bool { return p == ProblemFile || strings.HasPrefix(p, ".harness/") }

// tree brings the index to the state of the work tree and writes its tree; then
// it makes one more call of the library. It returns what that left.
func (s snap) tree(ctx context.Context, f found, add []string, then string) (bundle, error) {
	remove := slices.Clone(f.special)
	for _, dir := range f.nested {
		remove = append(remove, path.Clean(dir)) // where a file was, there is a repository now
	}
	if err := s.writeList(ctx, "remove", remove); err != nil {
		return nil, err
	}
	if err := s.writeList(ctx, "add", add); err != nil {
		return nil, err
	}
	if err := s.run(ctx, "tree", then); err != nil {
		return nil, err
	}
	return s.found(ctx)
}

// newlyIgnored reports ignored paths that were not there before the agent.
func (f found) newlyIgnored(before []string) []Skipped {
	old := set(before)
	var skipped []Skipped
	for _, p := range f.ignored {
		if old[p] || ours(p) || p == ".harness/" {
			continue
		}
		if len(skipped) == maxIgnored {
			return append(skipped, Skipped{p, "ignored; more follow"})
		}
		skipped = append(skipped, Skipped{p, "ignored"})
	}
	return skipped
}

// flags compares the repository's own state with what it was before the agent.
func flags(b bundle, f found) CaptureFlags {
	had := b.fact("gitdir0") != ""
	return CaptureFlags{
		BaseDirty:    b.fact("headtree") != "" && b.fact("headtree") != b.fact("s0"),
		HeadMoved:    had && (b.fact("head") != b.fact("head0") || b.fact("branch") != b.fact("branch0")),
		GitDestroyed: had && b.fact("head0") != "" && b.fact("head") == "",
		Nested:       len(f.nested) > 0,
	}
}

// A change is one path that differs between two trees.
type change struct {
	path, status     string
	oldMode, oldBlob string
}

// parseRaw reads `diff-tree -z --raw --no-renames`: pairs of
// ":oldmode newmode oldid newid status" and path.
func parseRaw(fields []string) ([]change, error) {
	var changes []change
	for i := 0; i+1 < len(fields); i += 2 {
		meta := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(meta) != 5 || len(meta[4]) != 1 {
			return nil, &CaptureError{Step: "raw", Output: "unknown line " + fields[i]}
		}
		changes = append(changes, change{fields[i+1], meta[4], meta[0], meta[2]})
	}
	if len(fields)%2 != 0 {
		return nil, &CaptureError{Step: "raw", Output: "the list is cut"}
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.path, b.path) })
	return changes, nil
}

func set(paths []string) map[string]bool {
	m := make(map[string]bool, len(paths))
	for _, p := range paths {
		m[p] = true
	}
	return m
}
