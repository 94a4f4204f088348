//go:build linux

package e2btest_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

const octets = "application/octet-stream"

func uploadDownload(t *testing.T, w wire) {
	name := "/tmp/new dir/ünï çode.bin"
	body := strings.Repeat("0123456789\x00\xff", 1<<18)
	code, reply, ct := w.upload(t, name, "daemon", octets, strings.NewReader(body))
	status(t, "upload", code, 200)
	contains(t, "reply", reply, `"type":"file"`)
	contains(t, "content type", ct, "text/plain")
	code, got, header := w.download(t, name)
	status(t, "download", code, 200)
	if got != body || header.Get("Content-Length") != fmt.Sprint(len(body)) {
		t.Errorf("download: %d bytes, Content-Length %s, want %d", len(got), header.Get("Content-Length"), len(body))
	}
	s := w.start(t, sh("stat -c '%U %a' '"+name+"' '/tmp/new dir'"))
	if s.stdout.String() != "daemon 644\ndaemon 755\n" {
		t.Errorf("owner and mode: %q", &s.stdout)
	}
}

func emptyFile(t *testing.T, w wire) {
	code, _, _ := w.upload(t, "/tmp/empty", "root", octets, http.NoBody)
	status(t, "upload", code, 200)
	code, got, _ := w.download(t, "/tmp/empty")
	if code != 200 || got != "" {
		t.Errorf("download: %d %q", code, got)
	}
}

func noFilePart(t *testing.T, w wire) {
	body := "--x\r\nContent-Disposition: form-data; name=\"other\"\r\n\r\nv\r\n--x--\r\n"
	code, reply, _ := w.upload(t, "/tmp/p", "root", "multipart/form-data; boundary=x", strings.NewReader(body))
	if code != 200 || strings.TrimSpace(reply) != "[]" {
		t.Errorf("without a part: %d %q", code, reply)
	}
	body = strings.Replace(body, `name="other"`, `name="file"; filename="/tmp/sub/part"`, 1)
	code, _, _ = w.upload(t, "", "root", "multipart/form-data; boundary=x", strings.NewReader(body))
	status(t, "with a part", code, 200)
	if _, got, _ := w.download(t, "/tmp/sub/part"); got != "v" {
		t.Errorf("part: %q", got)
	}
}

func fileErrors(t *testing.T, w wire) {
	code, body, _ := w.download(t, "/no/such")
	status(t, "missing", code, 404)
	contains(t, "missing", body, "path '/no/such' does not exist")
	code, body, _ = w.download(t, "/tmp")
	status(t, "directory", code, 400)
	contains(t, "directory", body, "is a directory")
	for _, row := range []struct {
		path, user, ct, text string
		status               int
	}{
		{"/tmp", "root", octets, "path is a directory: /tmp", 400},
		{"/tmp/x", "root", "text/plain", "unsupported content type: text/plain", 400},
		{"", "root", octets, "path query parameter is required for raw body upload", 400},
		{"~daemon/x", "root", octets, "cannot expand user-specific home dir", 400},
		{"/tmp/x", "nosuch", octets, "error looking up user 'nosuch'", 401},
		{"/etc/passwd/x", "root", octets, "path is a file: /etc/passwd", 500},
	} {
		code, body, _ := w.upload(t, row.path, row.user, row.ct, strings.NewReader("x"))
		status(t, row.text, code, row.status)
		contains(t, row.path, body, row.text)
	}
	resp := w.request(t, "HEAD", "/files?path=/etc/passwd", "", nil, nil)
	resp.Body.Close()
	status(t, "HEAD", resp.StatusCode, 405)
}

func fileRange(t *testing.T, w wire) {
	w.upload(t, "/tmp/ranged", "root", octets, strings.NewReader("0123456789"))
	code, got, header := w.download(t, "/tmp/ranged", "Range", "bytes=-4")
	if code != 206 || got != "6789" || header.Get("Last-Modified") == "" {
		t.Errorf("tail: %d %q, Last-Modified %q", code, got, header.Get("Last-Modified"))
	}
	if code, got, _ := w.download(t, "/tmp/ranged", "Range", "bytes=3-"); code != 206 || got != "3456789" {
		t.Errorf("rest: %d %q", code, got)
	}
}

func gzipOnRequest(t *testing.T, w wire) {
	w.start(t, sh("head -c 1000000 /dev/urandom > /tmp/zipped"))
	_, body, header := w.download(t, "/tmp/zipped", "Accept-Encoding", "gzip")
	if header.Get("Content-Encoding") != "gzip" || header.Get("Content-Length") != "" {
		t.Fatalf("headers %v", header)
	}
	r, err := gzip.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); err != nil || len(b) != 1000000 {
		t.Errorf("%d bytes, error %v", len(b), err)
	}
}

func filesystemCalls(t *testing.T, w wire) {
	const fs = "/filesystem.Filesystem/"
	dir := fmt.Sprintf("/tmp/d%d", time.Now().UnixNano())
	code, v := w.call(t, fs+"Stat", params{"path": dir})
	status(t, "Stat of nothing", code, 404)
	contains(t, "Stat of nothing", fmt.Sprint(v["message"]), "file not found: lstat")
	for _, want := range []int{200, 409} {
		code, _ = w.call(t, fs+"MakeDir", params{"path": dir})
		status(t, "MakeDir", code, want)
	}
	w.upload(t, dir+"/a", "daemon", octets, strings.NewReader("12345"))
	code, v = w.call(t, fs+"Move", params{"source": dir + "/a", "destination": dir + "/new/b"})
	status(t, "Move", code, 200)
	e, _ := v["entry"].(map[string]any)
	if e["size"] != "5" || e["type"] != "FILE_TYPE_FILE" || e["owner"] != "daemon" {
		t.Errorf("entry %v", e)
	}
	code, v = w.call(t, fs+"Move", params{"source": dir + "/a", "destination": dir + "/c"})
	status(t, "Move of nothing", code, 404)
	contains(t, "Move of nothing", fmt.Sprint(v["message"]), "source file not found")
	for range 2 {
		code, _ = w.call(t, fs+"Remove", params{"path": dir})
		status(t, "Remove", code, 200)
	}
}

// cutUploadStays: an upload overwrites in place, so that one which breaks off
// leaves its beginning.
func cutUploadStays(t *testing.T, w wire) {
	const name = "/tmp/cut"
	w.upload(t, name, "root", octets, strings.NewReader("what was there before"))
	body := io.MultiReader(strings.NewReader(strings.Repeat("x", 1<<20)), breaks{})
	req, _ := http.NewRequest("POST", w.url+"/files?"+url.Values{"path": {name}, "username": {"root"}}.Encode(), body)
	req.Header = w.header.Clone()
	req.ContentLength = 2 << 20
	req.Header.Set("Content-Type", octets)
	if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
		resp.Body.Close()
		t.Errorf("the cut upload was answered with %d", resp.StatusCode)
	}
	time.Sleep(300 * time.Millisecond)
	if _, got, _ := w.download(t, name); !strings.HasPrefix(got, "xxx") || len(got) >= 2<<20 {
		t.Errorf("after the cut: %d bytes, %.20q", len(got), got)
	}
}

type breaks struct{}

func (breaks) Read([]byte) (int, error) {
	time.Sleep(300 * time.Millisecond)
	return 0, io.ErrUnexpectedEOF
}

func filesActAsRoot(t *testing.T, w wire) {
	code, _, _ := w.upload(t, "/root/by-daemon", "daemon", octets, strings.NewReader("x"))
	status(t, "upload", code, 200)
	if s := w.start(t, sh("stat -c %U /root/by-daemon; rm /root/by-daemon")); s.stdout.String() != "daemon\n" {
		t.Errorf("owner %q", &s.stdout)
	}
}
