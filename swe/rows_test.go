package swe

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPromptText(t *testing.T) {
	for _, c := range []struct{ prompt, want string }{
		{`"plain"`, "plain"},
		{`[{"role":"system","content":"S"},{"role":"user","content":"U1"},{"role":"user","content":"U2"}]`, "U1"},
		{`[{"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url"},{"type":"text","text":""},{"type":"tool_result","content":[{"type":"text","text":"b"}]},"c"]}]`, "a\n[image omitted]\nb\nc"},
		{`[{"role":"user","content":null},{"role":"user","content":"later"}]`, ""},
		{`{"role":"user","content":"x"}`, ""},
		{`null`, ""}, {``, ""}, {`[]`, ""}, {`[1]`, ""},
	} {
		if got := PromptText(json.RawMessage(c.prompt)); got != c.want {
			t.Errorf("PromptText(%s) = %q, want %q", c.prompt, got, c.want)
		}
	}
}

func TestPythonList(t *testing.T) {
	for _, c := range []struct {
		text string
		want []string
	}{
		{`['a', "b"]`, []string{"a", "b"}},
		{`["it's", 'say "x"', 'a\'b']`, []string{"it's", `say "x"`, "a'b"}},
		{`('a',)`, []string{"a"}},
		{`[ 'a' 'b' , 'c' , ]`, []string{"ab", "c"}},
		{`['\n\t\\\x41\u00e9\U0001F600\101\d']`, []string{"\n\t\\A\u00e9\U0001F600A\\d"}},
		{`[]`, []string{}},
	} {
		got, err := PythonList(c.text)
		if err != nil || !cmp.Equal(got, c.want) {
			t.Errorf("PythonList(%s) = %q, %v, want %q", c.text, got, err, c.want)
		}
	}
	for _, bad := range []string{``, `a`, `['a'`, `['a' 1]`, `['a'] + []`, `[__import__('os')]`, `[f'a']`, `['\x4']`, `['\N{DASH}']`, `["a]`, `['a''`, "['a\nb']"} {
		if got, err := PythonList(bad); err == nil {
			t.Errorf("PythonList(%s) = %q, want an error", bad, got)
		}
	}
}

func fields(t testing.TB, text string) Fields {
	t.Helper()
	var row Row
	if err := json.Unmarshal([]byte(text), &row.Metadata); err != nil {
		t.Fatal(err)
	}
	return row.Fields()
}

func TestLists(t *testing.T) {
	want := []string{"a", "b"}
	f := fields(t, `{"json":["a","b"],"text":"[\"a\",\"b\"]","python":"['a', 'b']","null":[null],"name":"a.py","n":3,"none":null,"empty":"[]"}`)
	for _, key := range []string{"json", "text", "python"} {
		if got, err := f.List(key); err != nil || !cmp.Equal(got, want) {
			t.Errorf("List(%s) = %q, %v", key, got, err)
		}
	}
	for _, key := range []string{"null", "name", "n"} {
		var rowErr *RowError
		if got, err := f.List(key); !errors.As(err, &rowErr) || rowErr.Key != "metadata."+key {
			t.Errorf("List(%s) = %q, %v, want a RowError", key, got, err)
		}
	}
	for _, key := range []string{"none", "missing", "empty"} {
		if got, err := f.List(key); err != nil || len(got) != 0 {
			t.Errorf("List(%s) = %q, %v, want none", key, got, err)
		}
	}
}

func TestSteps(t *testing.T) {
	for _, c := range []struct{ value, want string }{
		{`"git checkout abc -f\\n"`, "git checkout abc -f\n"},
		{`"a\\nb"`, "a\nb"},
		{`"printf 'x\\n' >f"`, `printf 'x\n' >f`},
		{`"printf \"x\\n\" >f\\necho"`, "printf \"x\\n\" >f\necho"},
		{`"echo a\\\\nb"`, `echo a\\nb`},
		{`"a\nb"`, "a\nb"},
		{`["a",null,"","b"]`, "a\nb"},
	} {
		steps, err := fields(t, `{"pre_commands":`+c.value+`}`).Steps("pre_commands")
		if err != nil || len(steps) != 1 || steps[0].Script != c.want {
			t.Errorf("Steps of %s: %+v, %v, want %q", c.value, steps, err, c.want)
		}
	}
	for _, bad := range []string{`7`, `{"a":1}`, `["a",1]`} {
		if steps, err := fields(t, `{"pre_commands":`+bad+`}`).Steps("pre_commands"); err == nil {
			t.Errorf("Steps of %s: %+v, want an error", bad, steps)
		}
	}
}

func TestGlobs(t *testing.T) {
	for _, c := range []struct {
		path string
		want bool
	}{
		{"tests/a.py", true}, {"tests/deep/b.txt", true}, {"pkg/tests/c.py", true}, {"conftest.py", true}, {"pkg/conftest.py", true},
		{"pkg/test_x.py", true}, {"x_test.go", true}, {"web/a.spec.ts", true}, {"pytest.ini", true}, {"pytest.py", true}, {"_pytest/x.py", true},
		{"src/_pytest/runner.py", false}, {"django/test/client.py", false}, {"sympy/testing/x.py", false}, {"setup.cfg", false},
		{"pkg/pytest.py", false}, {"latest.py", false}, {"pkg/contest.py", false}, {"evil.dist-info/entry_points.txt", true},
	} {
		if got := TestFiles().Match(c.path); got != c.want {
			t.Errorf("TestFiles matches %s: %v, want %v", c.path, got, c.want)
		}
	}
}

func TestTouched(t *testing.T) {
	patch := "diff --git a/x.py b/x.py\n--- a/x.py\n+++ b/x.py\n@@ -1 +1 @@\n-a\n+b\n" +
		"diff --git a/new dir/n.py b/new dir/n.py\nnew file mode 100644\n--- /dev/null\n+++ b/new dir/n.py\t\n@@ -0,0 +1 @@\n+n\n" +
		"diff --git a/old.py b/moved.py\nrename from old.py\nrename to moved.py\n" +
		"diff --git a/e b/e\nnew file mode 100644\n"
	want := map[string]bool{"x.py": true, "new dir/n.py": true, "old.py": true, "moved.py": true, "e": true}
	if diff := cmp.Diff(want, touched([]byte(patch))); diff != "" {
		t.Errorf("touched (-want +got):\n%s", diff)
	}
}

func FuzzRows(f *testing.F) {
	f.Add(`"p"`, `['a', "b\x41"]`, `a\nb 'c\n'`)
	f.Fuzz(func(t *testing.T, prompt, list, commands string) {
		PromptText(json.RawMessage(prompt))
		if got, err := PythonList(list); err == nil {
			again, err := PythonList("[" + pythonList(got) + "]")
			if err != nil || !cmp.Equal(got, again) {
				t.Errorf("%q read again: %q, %v", got, again, err)
			}
		}
		breakLines(commands)
	})
}

// pythonList spells strings so that only bytes that need no escape are left bare.
func pythonList(items []string) string {
	out := ""
	for _, s := range items {
		out += "'"
		for i := range len(s) {
			switch c := s[i]; c {
			case '\\', '\'':
				out += "\\" + string(c)
			case '\n':
				out += `\n`
			default:
				out += s[i : i+1]
			}
		}
		out += "',"
	}
	return out
}

func FuzzPatch(f *testing.F) {
	f.Add([]byte("diff --git a/x b/x\nnew file mode 100644\n--- /dev/null\n+++ b/x\n@@ -0,0 +1 @@\n+os._exit(0)\n"))
	f.Add([]byte("\x00tracked\x00a\x00\x00raw\x00:100644 100644 a b M\x00x\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		PatchSignals(data)
		touched(data)
		b := parseBundle(splitNUL(data))
		if _, err := parseRaw(b["raw"]); err != nil {
			var capture *CaptureError
			if !errors.As(err, &capture) {
				t.Error(err)
			}
		}
		trackedPaths(b["tracked"], "pkg")
	})
}

func TestHint(t *testing.T) {
	b := Bucket{Missing: []string{"tests/a.py::test_x[1 - 2"}}
	for _, c := range []struct {
		have []string
		want string
	}{
		{[]string{"tests/b.py::test_y", "tests/a.py::test_x[1-2]"}, "; tests/a.py::test_x[1 - 2 is missing, nearest tests/a.py::test_x[1-2]"},
		{[]string{"other"}, "; tests/a.py::test_x[1 - 2 is missing"},
	} {
		if got := b.Hint(c.have); got != c.want {
			t.Errorf("Hint(%q) = %q, want %q", c.have, got, c.want)
		}
	}
	if got := (Bucket{Passed: []string{"a"}}).Hint(nil); got != "" {
		t.Errorf("Hint of nothing missing: %q", got)
	}
}

func TestWhatIsMissingIsNamed(t *testing.T) {
	for name, c := range map[string]struct {
		row  Row
		want string
	}{
		"no image":     {Row{Metadata: map[string]json.RawMessage{"workdir": json.RawMessage(`"/r"`)}}, "missing_image_or_workdir: the row has neither metadata.image nor metadata.remote_env_info.image_url"},
		"no workdir":   {Row{Metadata: map[string]json.RawMessage{"image": json.RawMessage(`"i"`)}}, "missing_image_or_workdir: the row has neither metadata.workdir nor metadata.remote_env_info.workdir"},
		"wrong prompt": {Row{Prompt: json.RawMessage(`17`), Metadata: map[string]json.RawMessage{"image": json.RawMessage(`"i"`), "workdir": json.RawMessage(`"/r"`)}}, "prompt: got 17, want a string"},
	} {
		var w Workspace
		_, err := w.ReadRow(c.row)
		if err == nil {
			err = w.NeedStatement(c.row)
		}
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
