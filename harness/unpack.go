package harness

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

type content int

const (
	unknown content = iota
	native
	plainTar
	gzipped
	xzipped
)

var elfMagic = []byte("\x7fELF")

// sniff tells what a file is by its first bytes.
func sniff(a Asset) (content, error) {
	f, err := os.Open(a.Path)
	if err != nil {
		return unknown, &AssetError{a, err.Error()}
	}
	defer f.Close()
	head := make([]byte, 512)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return unknown, &AssetError{a, "is too short to be a program: " + err.Error()}
	}
	switch head = head[:n]; {
	case bytes.HasPrefix(head, elfMagic):
		return native, nil
	case bytes.HasPrefix(head, []byte("\x1f\x8b")):
		return gzipped, nil
	case bytes.HasPrefix(head, []byte("\xfd7zXZ\x00")):
		return xzipped, nil
	case n == 512 && string(head[257:262]) == "ustar":
		return plainTar, nil
	}
	return unknown, nil
}

// open returns the tar in the asset. wait reports, after the last read, whether
// all of it was good.
func open(a Asset, kind content) (r io.Reader, wait func() error, err error) {
	f, err := os.Open(a.Path)
	if err != nil {
		return nil, nil, &AssetError{a, err.Error()}
	}
	buffered := bufio.NewReaderSize(f, 1<<20)
	switch kind {
	case plainTar:
		return buffered, f.Close, nil
	case gzipped:
		zip, err := gzip.NewReader(buffered)
		if err != nil {
			f.Close()
			return nil, nil, &AssetError{a, err.Error()}
		}
		return zip, f.Close, nil
	}
	xz := exec.Command("xz", "-dc")
	xz.Stdin = f
	out, err := xz.StdoutPipe()
	if err == nil {
		err = xz.Start()
	}
	if err != nil {
		f.Close()
		return nil, nil, &AssetError{a, "is compressed by xz, which this machine does not have: repack it as .tar.gz (" + err.Error() + ")"}
	}
	return out, func() error {
		out.Close()
		return errors.Join(xz.Wait(), f.Close())
	}, nil
}

// unpack writes the asset's program to file, or its package to file.tar.
func unpack(a Asset, kind content, file string, names []string) (Program, error) {
	found := lookup{names: names, scripts: map[string]bool{}}
	defer found.discard()
	err := eachEntry(a, kind, func(h *tar.Header, r *bufio.Reader) error { return found.entry(h, r, file) })
	switch entry := found.script(); {
	case err != nil:
		return Program{}, err
	case found.native != "":
		return Program{File: file}, os.Rename(found.native, file)
	case entry == "":
		return Program{}, &AssetError{a, found.missing()}
	default:
		return repack(a, kind, file, entry)
	}
}

// eachEntry calls f for the regular files of a tarball. It reads all of it, so
// that one that is damaged anywhere, or was cut, is refused.
func eachEntry(a Asset, kind content, f func(*tar.Header, *bufio.Reader) error) error {
	r, wait, err := open(a, kind)
	if err != nil {
		return err
	}
	damaged := func(err error) error { return &AssetError{a, "is damaged: " + err.Error()} }
	content := bufio.NewReaderSize(nil, 1<<20)
	for entries := tar.NewReader(r); ; {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, r) // the compression's checksum is behind the tar's end
			if errors.Is(err, gzip.ErrHeader) {
				err = nil // some padding behind it
			}
			if err := errors.Join(err, wait()); err != nil {
				return damaged(err)
			}
			return nil
		}
		if err != nil {
			_ = wait() // the tar's own error says more
			return damaged(err)
		}
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeGNUSparse {
			continue
		}
		reads := &noting{r: entries}
		content.Reset(reads)
		if err := f(h, content); err != nil {
			_ = wait() // cut short by us
			if reads.err != nil {
				return damaged(reads.err)
			}
			return err
		}
	}
}

// noting is a reader that notes why it failed, so that a damaged tarball is not
// taken for a cache that cannot be written.
type noting struct {
	r   io.Reader
	err error
}

func (n *noting) Read(p []byte) (int, error) {
	got, err := n.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		n.err = err
	}
	return got, err
}

// repack writes the package as a plain tar, so that the sandbox needs no
// decompressor, and notes the script to run.
func repack(a Asset, kind content, file, entry string) (Program, error) {
	r, wait, err := open(a, kind)
	if err != nil {
		return Program{}, err
	}
	err = publish(file+".tar", 0o644, r)
	if err = errors.Join(err, wait()); err != nil {
		return Program{}, &AssetError{a, err.Error()}
	}
	return Program{File: file + ".tar", Entry: entry}, publish(file+".entry", 0o644, strings.NewReader(entry))
}

// A lookup is what was seen of a tarball so far.
type lookup struct {
	names   []string
	native  string          // the program, where it was found and written for the time being
	scripts map[string]bool // names of files that node could run
	entries []string        // what the package.json files name, outermost first
	pkg     string          // the outermost package: "name@version"
	depth   int             // of that
}

// discard removes what was written and not taken.
func (l *lookup) discard() {
	if l.native != "" {
		os.Remove(l.native)
	}
}

func (l *lookup) entry(h *tar.Header, r *bufio.Reader, file string) (err error) {
	name := path.Clean(h.Name)
	head, _ := r.Peek(64) // shorter at the end of a file
	switch base := path.Base(name); {
	case l.native != "":
		return nil
	case bytes.HasPrefix(head, elfMagic):
		if slices.Contains(l.names, base) {
			l.native, err = stage(file, 0o755, r)
		}
		return err
	case base == "package.json":
		return l.packageFile(name, r)
	case slices.Contains([]string{".js", ".mjs", ".cjs"}, path.Ext(base)), bytes.HasPrefix(head, []byte("#!/usr/bin/env node")):
		l.scripts[name] = true
	}
	return nil
}

// packageFile notes the scripts of a package.json under the names wanted.
// "bin" is an object, or a string that stands for the package's own name.
func (l *lookup) packageFile(name string, r io.Reader) error {
	var p struct {
		Name    string          `json:"name"`
		Version string          `json:"version"`
		Bin     json.RawMessage `json:"bin"`
	}
	if json.NewDecoder(r).Decode(&p) != nil {
		return nil // a test's fixture, often; not what we look for
	}
	if depth := strings.Count(name, "/"); l.pkg == "" || depth < l.depth {
		l.pkg, l.depth = p.Name+"@"+p.Version, depth
	}
	bin := map[string]string{}
	var only string
	if json.Unmarshal(p.Bin, &only) == nil {
		bin[path.Base(p.Name)] = only
	} else if json.Unmarshal(p.Bin, &bin) != nil {
		return nil
	}
	for _, want := range l.names {
		if script, ok := bin[want]; ok {
			l.entries = append(l.entries, path.Join(path.Dir(name), script))
		}
	}
	return nil
}

// script is the outermost script that a package.json names and the tarball has.
func (l *lookup) script() string {
	slices.SortStableFunc(l.entries, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	for _, entry := range l.entries {
		if l.scripts[entry] {
			return entry
		}
	}
	return ""
}

// missing says why the tarball is of no use.
func (l *lookup) missing() string {
	if l.pkg != "" {
		return fmt.Sprintf("is the package %s, which holds no program %q itself: give npm's package for this platform (its name ends in -linux-x64 or -linux-arm64), not its wrapper", l.pkg, l.names)
	}
	return fmt.Sprintf("holds no native program %q and no package.json that names one", l.names)
}
