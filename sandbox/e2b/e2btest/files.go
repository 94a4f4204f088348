//go:build linux

package e2btest

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// fileError is an HTTP error of /files, whose code is a number.
type fileError struct {
	status  int
	message string
}

func (e *fileError) Error() string { return e.message }

func fileErrorf(status int, format string, args ...any) error {
	return &fileError{status, fmt.Sprintf(format, args...)}
}

func (e *envd) files(w http.ResponseWriter, r *http.Request) {
	var err error
	switch r.Method {
	case http.MethodGet:
		err = download(w, r)
	case http.MethodPost:
		err = upload(w, r)
	default:
		w.WriteHeader(405)
	}
	if err != nil {
		// A reply that overtakes a body which is still coming resets the connection.
		_, _ = io.CopyN(io.Discard, r.Body, 1<<20)
	}
	if ferr := (*fileError)(nil); errors.As(err, &ferr) {
		apiError(w, ferr.status, "", ferr.message)
	} else if err != nil {
		apiError(w, 500, "", err.Error())
	}
}

// fileUser is the user who resolves relative names and owns what is written;
// everything is done as root.
func fileUser(r *http.Request) (*user.User, error) {
	name := r.URL.Query().Get("username")
	if name == "" {
		name = "root"
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fileErrorf(401, "error looking up user '%s': %v", name, err)
	}
	return u, nil
}

func resolve(path string, u *user.User) (string, error) {
	if strings.HasPrefix(path, "~") {
		if len(path) > 1 && path[1] != '/' {
			return "", fileErrorf(400, "cannot expand user-specific home dir")
		}
		path = filepath.Join(u.HomeDir, path[1:])
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(u.HomeDir, path)
	}
	return path, nil
}

func download(w http.ResponseWriter, r *http.Request) error {
	u, err := fileUser(r)
	if err != nil {
		return err
	}
	path, err := resolve(r.URL.Query().Get("path"), u)
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err != nil {
		return fileErrorf(404, "path '%s' does not exist", path)
	}
	if info.IsDir() {
		return fileErrorf(400, "path '%s' is a directory", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return fileErrorf(500, "error opening file '%s': %v", path, err)
	}
	defer f.Close()
	w.Header().Set("Content-Disposition", mime.FormatMediaType("inline", map[string]string{"filename": filepath.Base(path)}))
	w.Header().Set("Content-Type", "application/octet-stream")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") && r.Header.Get("Range") == "" {
		w.Header().Set("Content-Encoding", "gzip")
		gw := gzip.NewWriter(w)
		defer gw.Close()
		_, _ = io.Copy(gw, f)
		return nil
	}
	http.ServeContent(w, r, path, info.ModTime(), f)
	return nil
}

// upload writes in place: a body that breaks off leaves half a file.
func upload(w http.ResponseWriter, r *http.Request) error {
	u, err := fileUser(r)
	if err != nil {
		return err
	}
	ct := r.Header.Get("Content-Type")
	var written []map[string]string
	switch {
	case strings.HasPrefix(ct, "application/octet-stream"):
		path := r.URL.Query().Get("path")
		if path == "" {
			return fileErrorf(400, "path query parameter is required for raw body upload")
		}
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			if body, err = gzip.NewReader(r.Body); err != nil {
				return fileErrorf(400, "error decompressing request body: %v", err)
			}
		}
		entry, err := writeOne(path, u, body)
		if err != nil {
			return err
		}
		written = append(written, entry)
	case strings.HasPrefix(ct, "multipart/form-data"):
		if written, err = uploadParts(r, u); err != nil {
			return err
		}
	default:
		return fileErrorf(400, "unsupported content type: %s, expected multipart/form-data or application/octet-stream", ct)
	}
	if written == nil {
		written = []map[string]string{}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	return json.NewEncoder(w).Encode(written)
}

func uploadParts(r *http.Request, u *user.User) (written []map[string]string, err error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, fileErrorf(500, "error parsing multipart form: %v", err)
	}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			return written, nil
		}
		if err != nil {
			return nil, fileErrorf(500, "error reading form: %v", err)
		}
		if part.FormName() != "file" {
			continue
		}
		path := r.URL.Query().Get("path")
		if path == "" { // the part's own name, whose directories FileName would cut off
			_, params, _ := mime.ParseMediaType(part.Header.Get("Content-Disposition"))
			path = params["filename"]
		}
		entry, err := writeOne(path, u, part)
		if err != nil {
			return nil, err
		}
		written = append(written, entry)
	}
}

func writeOne(path string, u *user.User, body io.Reader) (map[string]string, error) {
	path, err := resolve(path, u)
	if err != nil {
		return nil, err
	}
	uid, gid := ids(u)
	if err := ensureDirs(filepath.Dir(path), uid, gid); err != nil {
		return nil, fileErrorf(500, "error ensuring directories: %v", err)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil, fileErrorf(400, "path is a directory: %s", path)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return nil, fileErrorf(500, "error opening file: %v", err)
	}
	defer f.Close()
	if err := os.Chown(path, uid, gid); err != nil {
		return nil, fileErrorf(500, "error changing file ownership: %v", err)
	}
	if _, err := io.Copy(f, body); errors.Is(err, syscall.ENOSPC) {
		return nil, fileErrorf(507, "not enough disk space available: %v", err)
	} else if err != nil {
		return nil, fileErrorf(500, "error writing file: %v", err)
	}
	return map[string]string{"name": filepath.Base(path), "path": path, "type": "file"}, nil
}

func ids(u *user.User) (uid, gid int) {
	uid, _ = strconv.Atoi(u.Uid)
	gid, _ = strconv.Atoi(u.Gid)
	return uid, gid
}

// ensureDirs makes the directories that are missing, owned by the user.
func ensureDirs(dir string, uid, gid int) error {
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		return fmt.Errorf("path is a file: %s", dir)
	}
	if err == nil {
		return nil
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return fmt.Errorf("path is a file: %s", filepath.Dir(dir))
	}
	if err := ensureDirs(filepath.Dir(dir), uid, gid); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.Chown(dir, uid, gid)
}
