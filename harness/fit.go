package harness

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentrl-go/agentrl/sandbox"
)

// needs is what a native program asks of an image, as its ELF tables say. The
// zero value asks for nothing: it is of another format.
type needs struct {
	machine  string   // as uname names it; "" for one that is not told apart
	loader   string   // path of the dynamic loader
	versions []string // of the symbols of glibc's libc.so.6, "GLIBC_2.17"
}

func needsOf(file string) (needs, error) {
	f, err := elf.Open(file)
	var format *elf.FormatError
	if errors.As(err, &format) {
		return needs{}, nil
	}
	if err != nil {
		return needs{}, err
	}
	defer f.Close()
	n := needs{machine: machines[f.Machine]}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP && p.Filesz < 4096 {
			path := make([]byte, p.Filesz)
			if _, err := p.ReadAt(path, 0); err != nil {
				return needs{}, nil
			}
			n.loader = string(bytes.TrimRight(path, "\x00"))
		}
	}
	libraries, err := f.DynamicVersionNeeds()
	if err != nil {
		return n, nil // it has no such table
	}
	for _, l := range libraries {
		for _, v := range l.Needs {
			if l.Name == "libc.so.6" && v.Flags&elf.DynamicVersionFlag(elf.VER_FLG_WEAK) == 0 {
				n.versions = append(n.versions, v.Dep)
			}
		}
	}
	return n, nil
}

// machines are those that the CLIs are built for.
var machines = map[elf.Machine]string{elf.EM_X86_64: "x86_64", elf.EM_AARCH64: "aarch64"}

// fitting is the first of the loads whose programs an image can run. Where
// that cannot be told, as with a loader that is not glibc's, it is the first
// too: --version will tell. None of 400 MB is uploaded to fail.
func (c CLI) fitting(ctx context.Context, sb sandbox.Sandbox, loads []load) (load, error) {
	var reasons []string
	for _, l := range loads {
		why := ""
		for name, p := range l.natives() {
			n, err := needsOf(p.File)
			if err != nil {
				return load{}, err
			}
			if n.machine == "" {
				continue
			}
			image, err := libcOf(ctx, sb, n.loader)
			if err != nil {
				return load{}, err
			}
			if n.foreign(image.machine) {
				return load{}, &InstallError{c.Name, fmt.Sprintf("%s is built for %s, and the sandbox is %s; %s", name, n.machine, image.machine, c.Hint)}
			}
			if why = n.unmet(name, image); why != "" {
				break
			}
		}
		if why == "" {
			return l, nil
		}
		reasons = append(reasons, why)
	}
	return load{}, &InstallError{c.Name, strings.Join(reasons, "; ") + ": use another image, a program built for this one (AGENTRL_CC_MUSL_TARBALL is Claude Code's for musl), or an agent that needs no C library: codex, which is static, or mini"}
}

// foreign reports whether a machine, as its uname says, is certainly another
// one. Machines that run both, and names that are not known, are not refused.
func (n needs) foreign(uname string) bool {
	if uname == "arm64" {
		uname = "aarch64"
	}
	return uname != n.machine && (uname == "x86_64" || uname == "aarch64")
}

// libc is the C library of an image, and the machine that it is for.
type libc struct {
	machine  string
	loader   bool     // the program's dynamic loader is there
	other    string   // the loader that the image has instead
	versions []string // of glibc's symbols; nil where they cannot be told
}

func libcOf(ctx context.Context, sb sandbox.Sandbox, loader string) (libc, error) {
	out, err := sandbox.Output(ctx, sb, sandbox.Cmd{Script: "r=" + sandbox.Path("") + "\n" + libcScript, Env: map[string]string{"LOADER": loader, "LC_ALL": "C"}, Replayable: true})
	if err != nil {
		return libc{}, fmt.Errorf("look for the image's C library: %w", err)
	}
	machine, out, _ := strings.Cut(out, "\n")
	if other, missing := strings.CutPrefix(out, "missing"); missing {
		return libc{machine: machine, other: strings.TrimSpace(other)}, nil
	}
	return libc{machine: machine, loader: true, versions: strings.Fields(out)}, nil
}

// libcScript finds glibc's library beside its loader, where every distribution
// has it, and prints the versions of its symbols.
const libcScript = `uname -m 2>/dev/null || echo
[ -n "$LOADER" ] || exit 0
l=$r$LOADER
[ -e "$l" ] || { set -- "$r"/lib/ld-musl-*; [ -e "$1" ] || set --; echo missing $1; exit 0; }
real=$(readlink -f "$l" 2>/dev/null) && [ -n "$real" ] || real=$l
lib=${real%/*}/libc.so.6
[ -e "$lib" ] || exit 0
tr -c 'A-Z_0-9.' '\n' <"$lib" | grep -E '^GLIBC_([0-9.]+|ABI_[A-Z_]+)$' | sort -u
exit 0`

// unmet is what the image lacks for a program; "" for nothing.
func (n needs) unmet(name string, image libc) string {
	switch {
	case n.loader == "":
		return "" // it is static
	case !image.loader && image.other != "":
		return fmt.Sprintf("%s is built for glibc (%s), and the image has musl (%s)", name, n.loader, image.other)
	case !image.loader:
		return fmt.Sprintf("%s needs the dynamic loader %s, which the image does not have", name, n.loader)
	case len(image.versions) == 0:
		return ""
	}
	missing := slices.DeleteFunc(slices.Clone(n.versions), func(v string) bool { return slices.Contains(image.versions, v) })
	if len(missing) == 0 {
		return ""
	}
	return fmt.Sprintf("the image's glibc is %s, and %s needs %s", newest(image.versions), name, newest(missing))
}

// newest is the highest of versions like GLIBC_2.17, without the prefix.
func newest(versions []string) string {
	return strings.TrimPrefix(slices.MaxFunc(versions, func(a, b string) int { return slices.Compare(numbers(a), numbers(b)) }), "GLIBC_")
}

func numbers(version string) []int {
	var list []int
	for part := range strings.SplitSeq(strings.TrimPrefix(version, "GLIBC_"), ".") {
		n, _ := strconv.Atoi(part) // ABI_DT_RELR is below all numbers
		list = append(list, n)
	}
	return list
}
