package harness

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// An Asset is a file on this machine that a harness installs from: a native
// program, or the gzipped tarball of an npm package that holds one.
type Asset struct {
	Path   string
	SHA256 string // hex; "" accepts any content
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

// A Store finds the programs in assets, checks their hashes, and unpacks each
// tarball once. It is safe for concurrent use.
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
// cache directory.
func NewStore(dir string) (*Store, error) {
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			cache = os.TempDir()
		}
		dir = filepath.Join(cache, "agentrl", "assets")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("asset cache: %w", err)
	}
	return &Store{dir: dir, sums: map[version]string{}}, nil
}

// Program returns the path of the native program in the asset, on this
// machine, and its own SHA-256. names are the base names that it may have in a
// tarball.
func (s *Store) Program(a Asset, names ...string) (file, sum string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum, err = s.sum(a)
	if err != nil {
		return "", "", err
	}
	kind, err := sniff(a)
	switch {
	case err != nil:
		return "", "", err
	case kind == native:
		return a.Path, sum, nil
	case kind != gzipped:
		return "", "", &AssetError{a, "is neither a native program nor a .tgz: give npm's platform package as `npm pack` saves it, or the program itself"}
	}
	file = filepath.Join(s.dir, sum[:16]+"-"+names[0])
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		if err := extract(a, file, names); err != nil {
			return "", "", err
		}
	}
	sum, err = s.sum(Asset{Path: file})
	return file, sum, err
}

// sum is the file's hash, checked against the asset's.
func (s *Store) sum(a Asset) (string, error) {
	if a.Path == "" {
		return "", &AssetError{a, "no file is configured"}
	}
	info, err := os.Stat(a.Path)
	if err != nil {
		return "", &AssetError{a, err.Error()}
	}
	v := version{a.Path, info.Size(), info.ModTime()}
	sum, known := s.sums[v]
	if !known {
		if sum, err = hash(a.Path); err != nil {
			return "", &AssetError{a, err.Error()}
		}
		s.sums[v] = sum
	}
	if a.SHA256 != "" && sum != a.SHA256 {
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

type content int

const (
	unknown content = iota
	native
	gzipped
)

var elf = []byte("\x7fELF")

// sniff tells what a file is by its first bytes.
func sniff(a Asset) (content, error) {
	f, err := os.Open(a.Path)
	if err != nil {
		return unknown, &AssetError{a, err.Error()}
	}
	defer f.Close()
	head := make([]byte, 4)
	if _, err := io.ReadFull(f, head); err != nil {
		return unknown, &AssetError{a, "is too short to be a program: " + err.Error()}
	}
	switch {
	case bytes.Equal(head, elf):
		return native, nil
	case head[0] == 0x1f && head[1] == 0x8b:
		return gzipped, nil
	}
	return unknown, nil
}

// extract writes the first native program of one of the names to file, all of
// it or nothing.
func extract(a Asset, file string, names []string) error {
	f, err := os.Open(a.Path)
	if err != nil {
		return &AssetError{a, err.Error()}
	}
	defer f.Close()
	zip, err := gzip.NewReader(bufio.NewReaderSize(f, 1<<20))
	if err != nil {
		return &AssetError{a, err.Error()}
	}
	for entries := tar.NewReader(zip); ; {
		entry, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return &AssetError{a, fmt.Sprintf("holds no native program %q: give npm's package for this platform, not its wrapper", names)}
		}
		if err != nil {
			return &AssetError{a, "is damaged: " + err.Error()}
		}
		if entry.Typeflag != tar.TypeReg || !slices.Contains(names, path.Base(entry.Name)) {
			continue
		}
		content := bufio.NewReaderSize(entries, 1<<20)
		if head, _ := content.Peek(4); !bytes.Equal(head, elf) {
			continue // a launcher script of the same name
		}
		return writeProgram(file, content)
	}
}

func writeProgram(file string, content io.Reader) (err error) {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".unpack-*")
	if err != nil {
		return fmt.Errorf("asset cache: %w", err)
	}
	defer os.Remove(tmp.Name()) // which after the rename is no more
	if _, err = io.Copy(tmp, content); err == nil {
		err = tmp.Chmod(0o755)
	}
	if err = errors.Join(err, tmp.Close()); err != nil {
		return fmt.Errorf("asset cache: %w", err)
	}
	return os.Rename(tmp.Name(), file)
}
