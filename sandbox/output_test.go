package sandbox

import (
	"os/exec"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestExitErrorText(t *testing.T) {
	err := &ExitError{
		Cmd:    Cmd{Script: strings.Repeat("é", 100), Env: map[string]string{"KEY": "secret"}},
		Result: Result{Code: 3, Stderr: []byte("first\n" + strings.Repeat("日", 400) + "last\n")},
	}
	text := err.Error()
	if !strings.Contains(text, "status 3") || !strings.HasSuffix(text, "last") || strings.Contains(text, "secret") {
		t.Errorf("Error() = %q", text)
	}
	if len(text) > 700 || !utf8.ValidString(text) {
		t.Errorf("Error() has %d bytes, valid UTF-8: %t", len(text), utf8.ValidString(text))
	}
	if text := (&ExitError{Result: Result{Signal: "SIGKILL"}}).Error(); !strings.Contains(text, "killed by SIGKILL") {
		t.Errorf("Error() = %q", text)
	}
}

func TestPath(t *testing.T) {
	for root, want := range map[string]string{"": "/a b/it's $x", "/r o/o't": "/r o/o't/a b/it's $x"} {
		c := exec.Command("sh", "-c", "printf %s "+Path("/a b/it's $x"))
		c.Env = []string{RootVar + "=" + root}
		if out, err := c.Output(); err != nil || string(out) != want {
			t.Errorf("with root %q a script reads %q, %v, want %q", root, out, err, want)
		}
	}
}

// What a job's script answers comes out of the sandbox.
func FuzzParseAnswer(f *testing.F) {
	for _, s := range []string{"EXIT 0", "EXIT 137", "EXIT -1", "STOPPED", "LOST", "RUNNING", "", "EXIT 9999999999999999999", "EXIT  1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, answer string) {
		exit, err := parseAnswer(answer)
		if err != nil && exit != (Exit{}) || exit.Code < 0 || exit.Code > 255 || exit.State != Exited && exit.Code != 0 {
			t.Errorf("parseAnswer(%q) = %v, %v", answer, exit, err)
		}
	})
}
