package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// An Asset is a file on this machine that a harness installs from: a native
// program, the tarball of an npm package that holds one, or the tarball of a
// package whose program is a script for node. What it is, is recognised by its
// content; a tarball may be plain, gzipped or, with xz on this machine, xz.
type Asset struct {
	Path   string
	SHA256 string // hex, of the file; "" accepts any content
}

// An AssetError says what is wrong with an Asset. It is permanent: another
// sandbox does not help.
type AssetError struct {
	Asset  Asset
	Reason string
}

func (e *AssetError) Error() string { return fmt.Sprintf("asset %q: %s", e.Asset.Path, e.Reason) }

// Permanent reports true: no retry helps.
func (e *AssetError) Permanent() bool { return true }

// A Program is what an Asset holds.
type Program struct {
	File   string // on this machine: the native program, or the package as a plain tar
	SHA256 string // of File, hex
	Entry  string // the script within the package, for node to run; "" for a native program
}

// A Store finds the programs in assets, checks their hashes, and unpacks each
// tarball once. It is safe for concurrent use; several processes may share its
// directory.
type Store struct {
	dir string

	mu   sync.Mutex
	sums map[version]string // hashes of files already read
}

// version is a file as it was when it was read.
type version struct {
	path     string
	size     int64
	modified time.Time
}

// NewStore returns a store that unpacks into dir; "" is agentrl in the user's
// cache directory. The directory is made when it is needed.
func NewStore(dir string) *Store {
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = os.TempDir()
		}
		dir = filepath.Join(cache, "agentrl", "assets")
	}
	return &Store{dir: dir, sums: map[version]string{}}
}

// Check reports what is wrong with the asset's file, without unpacking it: it
// is missing, or not the one that is pinned. An asset without a path is fine.
func (s *Store) Check(a Asset) error {
	if a.Path == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.SHA256 == "" {
		if _, err := os.Stat(a.Path); err != nil {
			return &AssetError{a, err.Error()}
		}
		return nil
	}
	_, err := s.sum(a)
	return err
}

// Program returns the asset's program. names are what it may be called in a
// tarball: base names of a native one, keys of "bin" in a package.json.
func (s *Store) Program(a Asset, names ...string) (Program, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum, err := s.sum(a)
	if err != nil {
		return Program{}, err
	}
	kind, err := sniff(a)
	switch {
	case err != nil:
		return Program{}, err
	case kind == native:
		return Program{File: a.Path, SHA256: sum}, nil
	case kind == unknown:
		return Program{}, &AssetError{a, "is neither a native program nor a tarball: give npm's package as `npm pack` saves it, or the program itself"}
	}
	return s.unpacked(a, kind, sum, names)
}

// unpacked is the program of a tarball whose hash is sum.
func (s *Store) unpacked(a Asset, kind content, sum string, names []string) (Program, error) {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return Program{}, fmt.Errorf("asset cache: %w", err)
	}
	file := filepath.Join(s.dir, sum+"-"+names[0])
	if p, ok := s.cached(file); ok {
		return p, nil
	}
	p, err := unpack(a, kind, file, names)
	if err != nil {
		return Program{}, err
	}
	if p.SHA256, err = s.sum(Asset{Path: p.File}); err != nil {
		return Program{}, err
	}
	return p, publish(file+".sum", 0o644, strings.NewReader(p.SHA256))
}

// cached is what a former call unpacked to file, if it is what it was then: a
// machine that went down may have kept a file's name and lost its content. The
// hash is noted last, when all the rest is there.
func (s *Store) cached(file string) (Program, bool) {
	noted, err := os.ReadFile(file + ".sum")
	if err != nil {
		return Program{}, false
	}
	p := Program{File: file, SHA256: string(noted)}
	if _, err := os.Stat(file); err != nil {
		entry, err := os.ReadFile(file + ".entry")
		if err != nil {
			return Program{}, false
		}
		p.File, p.Entry = file+".tar", string(entry)
	}
	_, err = s.sum(Asset{Path: p.File, SHA256: p.SHA256})
	return p, err == nil && p.SHA256 != ""
}

// sum is the file's hash, checked against the asset's.
func (s *Store) sum(a Asset) (string, error) {
	if a.Path == "" {
		return "", &AssetError{a, "no file is configured"}
	}
	info, err := os.Stat(a.Path)
	switch {
	case err != nil:
		return "", &AssetError{a, err.Error()}
	case !info.Mode().IsRegular():
		return "", &AssetError{a, "is not a regular file"}
	}
	v := version{a.Path, info.Size(), info.ModTime()}
	sum, known := s.sums[v]
	if !known {
		if sum, err = hash(a.Path); err != nil {
			return "", &AssetError{a, err.Error()}
		}
		s.sums[v] = sum
	}
	if a.SHA256 != "" && !strings.EqualFold(sum, a.SHA256) {
		return "", &AssetError{a, fmt.Sprintf("has SHA-256 %s, want %s: it is another file than the one that was pinned", sum, a.SHA256)}
	}
	return sum, nil
}

func hash(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// publish writes a file of the cache, all of it or nothing.
func publish(file string, mode os.FileMode, content io.Reader) error {
	tmp, err := stage(file, mode, content)
	if err != nil {
		return err
	}
	return os.Rename(tmp, file)
}

// stage writes a file beside the one that it is to become. On an error nothing
// of it is left.
func stage(file string, mode os.FileMode, content io.Reader) (name string, err error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".unpack-*")
	if err != nil {
		return "", fmt.Errorf("asset cache: %w", err)
	}
	_, err = io.Copy(tmp, content)
	if err = errors.Join(err, tmp.Chmod(mode), tmp.Close()); err != nil {
		os.Remove(tmp.Name())
		return "", fmt.Errorf("asset cache: %w", err)
	}
	return tmp.Name(), nil
}
