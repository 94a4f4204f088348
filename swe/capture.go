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

// base takes snapshot S0: the work tree as the agent will find it.
func (s snap) base(ctx context.Context) (string, error) {
	if err := s.run(ctx, "init", fmt.Sprintf("lists nojunk %d", maxBaseFile)); err != nil {
		return "", err
	}
	if err := s.write(ctx, "lib.sh", []byte(s.library())); err != nil {
		return "", err
	}
	f, err := s.look(ctx, "nojunk")
	if err != nil {
		return "", err
	}
	add, _ := f.choose(slices.Concat(f.other, f.tracked))
	tree, _, err := s.tree(ctx, f, add, "keep_base")
	return tree, err
}

// diff takes snapshot S1 and returns what lies between S0 and it.
func (s snap) diff(ctx context.Context) (Patch, error) {
	base, err := s.fact(ctx, "s0") // asked first: without a snapshot there is no library either
	if err != nil {
		return Patch{}, err
	}
	if err := s.run(ctx, fmt.Sprintf("lists junk %d", maxNewFile)); err != nil {
		return Patch{}, err
	}
	f, err := s.look(ctx, "junk")
	if err != nil {
		return Patch{}, err
	}
	add, skipped := f.choose(slices.Concat(f.other, f.forced()))
	result, refused, err := s.tree(ctx, f, add, `difference "$(cat "$SNAP/s0")" "$(cat "$SNAP/tree")"`)
	if err != nil {
		return Patch{}, err
	}
	p := Patch{BaseTree: base, ResultTree: result, Skipped: append(skipped, refused...)}
	ignored, err := s.newlyIgnored(ctx, f)
	if err != nil {
		return Patch{}, err
	}
	p.Skipped = append(p.Skipped, ignored...)
	if p.Flags, err = s.flags(ctx, f); err != nil {
		return Patch{}, err
	}
	if p.Scrub, err = s.fact(ctx, "proof"); err != nil {
		return Patch{}, err
	}
	if p.Bytes, err = s.read(ctx, "patch", maxPatch); err != nil {
		return Patch{}, err
	}
	changes, err := s.changes(ctx)
	for _, c := range changes {
		p.Files = append(p.Files, FileChange{c.path, c.status})
	}
	return p, err
}

// look reads what the library's lists call found, and lists the files of the
// repositories inside.
func (s snap) look(ctx context.Context, junk string) (found, error) {
	var f found
	var entries []string
	for name, into := range map[string]*[]string{"other": &f.other, "base": &f.base, "tracked": &entries, "big": &f.big, "special": &f.special, "ignored": &f.ignored} {
		list, err := s.list(ctx, name)
		if err != nil {
			return f, err
		}
		for i := range list {
			list[i] = strings.TrimPrefix(list[i], "./")
		}
		*into = list
	}
	prefix, err := s.fact(ctx, "prefix")
	if err != nil {
		return f, err
	}
	f.tracked = trackedPaths(entries, prefix)
	return f, s.flatten(ctx, junk, &f)
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
		inside, err := s.list(ctx, "inside")
		if err != nil {
			return err
		}
		for _, p := range inside {
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
// it makes one more call of the library.
func (s snap) tree(ctx context.Context, f found, add []string, then string) (tree string, refused []Skipped, err error) {
	remove := slices.Clone(f.special)
	for _, dir := range f.nested {
		remove = append(remove, path.Clean(dir)) // where a file was, there is a repository now
	}
	if err := s.write(ctx, "remove", joinNUL(remove)); err != nil {
		return "", nil, err
	}
	if err := s.write(ctx, "add", joinNUL(add)); err != nil {
		return "", nil, err
	}
	if err := s.run(ctx, "tree", then); err != nil {
		return "", nil, err
	}
	paths, err := s.list(ctx, "refused")
	if err != nil {
		return "", nil, err
	}
	for _, p := range paths {
		refused = append(refused, Skipped{p, "git refuses the path"})
	}
	tree, err = s.fact(ctx, "tree")
	return tree, refused, err
}

// newlyIgnored reports ignored paths that were not there before the agent.
func (s snap) newlyIgnored(ctx context.Context, f found) ([]Skipped, error) {
	before, err := s.list(ctx, "ignored0")
	if err != nil {
		return nil, err
	}
	old := set(before)
	var skipped []Skipped
	for _, p := range f.ignored {
		if old["./"+p] || old[p] || ours(p) || p == ".harness/" {
			continue
		}
		if len(skipped) == maxIgnored {
			return append(skipped, Skipped{p, "ignored; more follow"}), nil
		}
		skipped = append(skipped, Skipped{p, "ignored"})
	}
	return skipped, nil
}

// flags compares the repository's own state with what it was before the agent.
func (s snap) flags(ctx context.Context, f found) (CaptureFlags, error) {
	facts := map[string]string{}
	for _, name := range []string{"s0", "headtree", "head0", "head", "branch0", "branch", "gitdir0"} {
		v, err := s.fact(ctx, name)
		if err != nil {
			return CaptureFlags{}, err
		}
		facts[name] = v
	}
	had := facts["gitdir0"] != ""
	return CaptureFlags{
		BaseDirty:    facts["headtree"] != "" && facts["headtree"] != facts["s0"],
		HeadMoved:    had && (facts["head"] != facts["head0"] || facts["branch"] != facts["branch0"]),
		GitDestroyed: had && facts["head0"] != "" && facts["head"] == "",
		Nested:       len(f.nested) > 0,
	}, nil
}

// A change is one path that differs between two trees.
type change struct {
	path, status     string
	oldMode, oldBlob string
}

// changes reads the raw differences that the last step left.
func (s snap) changes(ctx context.Context) ([]change, error) {
	fields, err := s.list(ctx, "raw")
	if err != nil {
		return nil, err
	}
	return parseRaw(fields)
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
