package netprobe

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// listen is an address that answers, and one that refuses.
func listen(t *testing.T) (open, closed string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	return l.Addr().String(), gone.Addr().String()
}

// path is a PATH that has the shell's needs and one tool.
func path(t *testing.T, tools ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, tool := range append([]string{"sleep", "sh"}, tools...) {
		at, err := exec.LookPath(tool)
		if err != nil {
			t.Skipf("no %s here", tool)
		}
		if at, err = filepath.EvalSymlinks(at); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(at, filepath.Join(dir, tool)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func run(t *testing.T, path, script string) error {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.Env = []string{"PATH=" + path}
	out, _ := cmd.Output()
	return Verdict(cmd.ProcessState.ExitCode(), string(out))
}

func TestTools(t *testing.T) {
	open, closed := listen(t)
	for _, tools := range [][]string{{"bash", "timeout"}, {"perl"}, {"nc"}, {"curl"}} {
		t.Run(tools[0], func(t *testing.T) {
			path := path(t, tools...)
			for _, tt := range []struct {
				reach, avoid []string
				want         string
			}{
				{[]string{open}, []string{closed}, ""},
				{[]string{closed}, nil, "is not reached"},
				{nil, []string{closed, open}, "the network is not closed"},
			} {
				script, err := Script(tt.reach, tt.avoid)
				if err != nil {
					t.Fatal(err)
				}
				err = run(t, path, script)
				if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("reach %v, avoid %v: %v, want %q", tt.reach, tt.avoid, err, tt.want)
				}
			}
		})
	}
}

func TestNoTool(t *testing.T) {
	script, _ := Script([]string{"127.0.0.1:1"}, nil)
	if err := run(t, path(t), script); err == nil || !strings.Contains(err.Error(), "none of python3") {
		t.Errorf("without a tool: %v", err)
	}
}

func TestAddresses(t *testing.T) {
	for in, want := range map[string]string{"http://h": "h:80", "https://h/x": "h:443", "http://[::1]:5": "[::1]:5", "h:5": "", "": "", "ftp://h": ""} {
		if got, err := Addr(in); got != want || (err == nil) != (want != "") {
			t.Errorf("Addr(%q) = %q, %v; want %q", in, got, err, want)
		}
	}
	for _, bad := range []string{"", "h", ":5", "h:"} {
		if _, err := Script([]string{bad}, nil); err == nil {
			t.Errorf("Script of %q: no error", bad)
		}
	}
}
