package adaptertest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// Golden runs a dialect over the archives that match pattern, in txtar format.
// Each holds "request", an HTTP request as it is on the wire without a length,
// and "answer", the chat.Answer to give to it; the test compares "decoded", what
// the dialect made of the request, "echo", what it expects to come back, and
// "response", what it sent. With update it rewrites them instead.
func Golden(t *testing.T, d chat.Dialect, pattern string, update bool) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no golden files match %s (%v)", pattern, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) { golden(t, d, path, update) })
	}
}

func golden(t *testing.T, d chat.Dialect, path string, update bool) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := split(data)
	r, body, err := readRequest(files["request"])
	if err != nil {
		t.Fatalf("request: %v", err)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "-- request --\n%s-- answer --\n%s", files["request"], files["answer"])
	req, err := d.Decode(r, body)
	if err != nil {
		fmt.Fprintf(&out, "-- decoded --\nerror: %v\n", err)
	} else {
		var answer chat.Answer
		if err := json.Unmarshal(files["answer"], &answer); err != nil {
			t.Fatalf("answer: %v", err)
		}
		w := httptest.NewRecorder()
		if err := d.Respond(w, req).Answer(answer); err != nil {
			t.Fatalf("Answer: %v", err)
		}
		echo := d.Echo(req, answer)
		req.Wire = nil
		fmt.Fprintf(&out, "-- decoded --\n%s-- echo --\n%s-- response --\n%d %s\n%s", indent(t, req), indent(t, echo),
			w.Code, w.Header().Get("Content-Type"), times.ReplaceAllString(w.Body.String(), "$1:0"))
		if !bytes.HasSuffix(out.Bytes(), []byte("\n")) {
			out.WriteByte('\n')
		}
	}
	if update {
		if err := os.WriteFile(path, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, want := out.String(), string(data); got != want {
		t.Errorf("%s differs; got\n%s\nwant\n%s\n(go test -update rewrites it)", path, got, want)
	}
}

// times matches what a clock wrote.
var times = regexp.MustCompile(`("created(?:_at)?"):\d+`)

// split reads an archive: files that begin with "-- NAME --" lines.
func split(data []byte) map[string][]byte {
	files := map[string][]byte{}
	name := ""
	for line := range bytes.Lines(data) {
		if n, ok := bytes.CutPrefix(bytes.TrimRight(line, "\n"), []byte("-- ")); ok && bytes.HasSuffix(n, []byte(" --")) {
			name = string(bytes.TrimSuffix(n, []byte(" --")))
			continue
		}
		files[name] = append(files[name], line...)
	}
	return files
}

func readRequest(data []byte) (*http.Request, []byte, error) {
	head, body, ok := bytes.Cut(data, []byte("\n\n"))
	if !ok {
		return nil, nil, errors.New("no blank line after the headers")
	}
	r, err := http.ReadRequest(bufio.NewReader(io.MultiReader(bytes.NewReader(head), strings.NewReader("\n\n"))))
	return r, body, err
}

func indent(t *testing.T, v any) string {
	t.Helper()
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(v); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
