//go:build linux

package e2btest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// fsRequest holds the fields of all the filesystem calls.
type fsRequest struct {
	Path, Source, Destination string
	Depth                     int
}

func (e *envd) filesystemCall(w http.ResponseWriter, r *http.Request, name string) {
	calls := map[string]func(*user.User, fsRequest) (any, error){
		"Stat": stat, "Move": move, "MakeDir": makeDir, "Remove": remove, "ListDir": listDir,
	}
	call, ok := calls[name]
	if !ok {
		http.Error(w, "404 page not found", 404)
		return
	}
	e.unary(w, r, func(r *http.Request, body []byte) (any, error) {
		u, err := requestUser(r)
		if err != nil {
			return nil, err
		}
		var req fsRequest
		if err := json.Unmarshal(body, &req); err != nil {
			return nil, rpcErrorf("invalid_argument", "unmarshal message: %v", err)
		}
		for _, p := range []*string{&req.Path, &req.Source, &req.Destination} {
			if *p, err = resolve(*p, u); err != nil {
				return nil, rpcErrorf("invalid_argument", "%v", err)
			}
		}
		return call(u, req)
	})
}

// entryInfo describes a path as envd does; 64-bit numbers are strings.
func entryInfo(path string) (map[string]any, error) {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, rpcErrorf("not_found", "file not found: %v", err)
	}
	if err != nil {
		return nil, rpcErrorf("internal", "error getting file info: %v", err)
	}
	d := map[string]any{
		"name": filepath.Base(path), "path": path, "type": "FILE_TYPE_FILE", "mode": info.Mode().Perm(),
		"permissions": info.Mode().String(), "modifiedTime": info.ModTime().UTC().Format(time.RFC3339Nano),
	}
	if info.Size() > 0 {
		d["size"] = strconv.FormatInt(info.Size(), 10)
	}
	switch {
	case info.IsDir():
		d["type"] = "FILE_TYPE_DIRECTORY"
	case info.Mode()&fs.ModeSymlink != 0:
		d["type"] = "FILE_TYPE_SYMLINK"
		d["symlinkTarget"], _ = os.Readlink(path)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		d["owner"], d["group"] = strconv.Itoa(int(st.Uid)), strconv.Itoa(int(st.Gid))
		if u, err := user.LookupId(d["owner"].(string)); err == nil {
			d["owner"] = u.Username
		}
		if g, err := user.LookupGroupId(d["group"].(string)); err == nil {
			d["group"] = g.Name
		}
	}
	return d, nil
}

func entryReply(path string) (any, error) {
	info, err := entryInfo(path)
	if err != nil {
		return nil, err
	}
	return map[string]any{"entry": info}, nil
}

func stat(_ *user.User, req fsRequest) (any, error) { return entryReply(req.Path) }

func move(u *user.User, req fsRequest) (any, error) {
	uid, gid := ids(u)
	if err := ensureDirs(filepath.Dir(req.Destination), uid, gid); err != nil {
		return nil, rpcErrorf("internal", "%v", err)
	}
	if err := os.Rename(req.Source, req.Destination); errors.Is(err, fs.ErrNotExist) {
		return nil, rpcErrorf("not_found", "source file not found: %v", err)
	} else if err != nil {
		return nil, rpcErrorf("internal", "error renaming: %v", err)
	}
	return entryReply(req.Destination)
}

func makeDir(u *user.User, req fsRequest) (any, error) {
	if info, err := os.Stat(req.Path); err == nil {
		if info.IsDir() {
			return nil, rpcErrorf("already_exists", "directory already exists: %s", req.Path)
		}
		return nil, rpcErrorf("invalid_argument", "path already exists but it is not a directory: %s", req.Path)
	}
	uid, gid := ids(u)
	if err := ensureDirs(req.Path, uid, gid); err != nil {
		return nil, rpcErrorf("internal", "%v", err)
	}
	return entryReply(req.Path)
}

func remove(_ *user.User, req fsRequest) (any, error) {
	if err := os.RemoveAll(req.Path); err != nil {
		return nil, rpcErrorf("internal", "error removing file or directory: %v", err)
	}
	return struct{}{}, nil
}

func listDir(_ *user.User, req fsRequest) (any, error) {
	entries := []any{}
	root := filepath.Clean(req.Path)
	if info, err := os.Stat(root); err != nil {
		return nil, rpcErrorf("not_found", "directory not found: %v", err)
	} else if !info.IsDir() {
		return nil, rpcErrorf("invalid_argument", "path is not a directory: %s", root)
	}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		info, err := entryInfo(path)
		if err != nil {
			return err
		}
		entries = append(entries, info)
		if d.IsDir() && depth(rel) >= max(req.Depth, 1) {
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("error reading directory: %w", err)
	}
	return map[string]any{"entries": entries}, nil
}

func depth(rel string) int {
	n := 1
	for dir := filepath.Dir(rel); dir != "."; dir = filepath.Dir(dir) {
		n++
	}
	return n
}
