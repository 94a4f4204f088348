package jinja

import (
	"strings"
	"sync"
	"testing"
	"time"
)

func TestErrors(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"a\n{{ raise_exception('no') }}", "template line 2: no"},
		{"a\nb\n{{ x.y.z }}", "template line 3: object has no attribute 'y'"},
		{"{{ nope.a }}", "template line 1: 'nope' is undefined"},
		{"{% for i in 5 %}{% endfor %}", "template line 1: 'int' object is not iterable"},
		{"\n{% if x %}", "template line 2: unexpected end of template: expected elif or else or endif for the open tag if"},
		{"{{ x", "got end of template"},
		{"{% include 'a' %}", "template line 1: the tag include is not supported here"},
		{"{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}", "maximum recursion depth exceeded"},
		{"{{ 10 ** 100000 }}", "a power this large is not supported"},
		{"{{ 'ab' * 100000000 }}", "more than is supported"},
		{strings.Repeat("{% if 1 %}", 300), "nested deeper than 200"},
		{"{{ " + strings.Repeat("(", 300), "nested deeper than 200"},
		{"\xff", "the template is not valid UTF-8"},
		{"{{ '\\ud800' }}", "is not a character"},
		{"{{ it.items }}", "can't be printed"},
	} {
		vars, _ := ParseJSON([]byte(`{"x":{},"it":{"items":1}}`))
		tmpl, err := Compile(c.source)
		if err == nil {
			_, err = tmpl.Render(vars)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.60q: error %v, want %q", c.source, err, c.want)
		}
	}
	tmpl, _ := Compile("")
	if _, err := tmpl.Render(String("x")); err == nil || !strings.Contains(err.Error(), "are an object, not str") {
		t.Errorf("Render of variables that are a string: %v", err)
	}
}

func TestParseJSONErrors(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{``, "offset 0: unexpected end"},
		{`{"a":1,}`, "offset 7: expected a key in quotes"},
		{`[1 2]`, "offset 3: expected a comma or ']'"},
		{`{"a" 1}`, "offset 5: expected a colon"},
		{`01`, "a number can't begin with 0"},
		{`-`, "expected a digit"},
		{`1.`, "expected a digit"},
		{`1e`, "expected a digit"},
		{`NaN`, "expected a value"},
		{`"a`, "unterminated string"},
		{`"\`, "unterminated string"},
		{`"\x"`, "bad escape"},
		{`"\u12"`, "bad escape"},
		{`"\ud800x"`, "lone surrogate"},
		{"\"\n\"", "a control character in a string"},
		{"\"\\n\n\"", "a control character in a string"},
		{`1 2`, "unexpected text after the value"},
		{"\"\xff\"", "not valid UTF-8"},
		{strings.Repeat("[", 1000), "nested deeper than 900"},
		{strings.Repeat("9", 5000), "more than is supported"},
	} {
		if v, err := ParseJSON([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("ParseJSON(%.40q) = %v, %v, want %q", c.text, v, err, c.want)
		}
	}
}

func TestStrftime(t *testing.T) {
	now := time.Date(2026, 2, 1, 3, 4, 5, 678901000, time.UTC)
	for layout, want := range map[string]string{
		"%Y-%m-%d %H:%M:%S": "2026-02-01 03:04:05", "%d %b %Y, %B %a %A": "01 Feb 2026, February Sun Sunday",
		"%-d/%-m %e %I %p %y %j %f": "1/2  1 03 AM 26 032 678901", "%% %": "% %", "%w %u %U %W %V": "0 7 05 04 05", "%F %T %D": "2026-02-01 03:04:05 02/01/26",
	} {
		tmpl, err := Compile("{{ strftime_now(f) }}")
		if err != nil {
			t.Fatal(err)
		}
		vars := NewDict(1)
		vars.Set("f", String(layout))
		if got, err := tmpl.RenderWith(vars, Options{Now: now}); err != nil || got != want {
			t.Errorf("strftime_now(%q) = %q, %v, want %q", layout, got, err, want)
		}
	}
}

// TestConcurrentRender renders one template, whose variables are shared, from
// many goroutines.
func TestConcurrentRender(t *testing.T) {
	tmpl, err := Compile(`{% set ns = namespace(n=0) %}{% macro m(x) %}[{{ x }}]{% endmacro %}{% for k, v in d.items() %}{% set ns.n = ns.n + v %}{{ m(k) }}{% endfor %}{{ ns.n }}`)
	if err != nil {
		t.Fatal(err)
	}
	vars, err := ParseJSON([]byte(`{"d":{"a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10}}`))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if got, err := tmpl.Render(vars); got != "[a][b][c][d][e][f][g][h][i][j]55" || err != nil {
					t.Errorf("Render = %q, %v", got, err)
				}
			}
		})
	}
	wg.Wait()
}

func TestDict(t *testing.T) {
	d := NewDict(0)
	for i := range 40 {
		d.Set(strings.Repeat("k", i), Int(i))
	}
	d.Set("kk", String("again"))
	if key, v, ok := d.At(2); d.Len() != 40 || key != "kk" || v != String("again") || !ok {
		t.Errorf("At(2) = %q, %v, %v of %d", key, v, ok, d.Len())
	}
	if _, ok := d.Get("x"); ok {
		t.Error("Get finds a key that is not there")
	}
}

func TestReads(t *testing.T) {
	tmpl, err := Compile(`{{ m.id }}{{ m['tool_call_id'] }}`)
	if err != nil {
		t.Fatal(err)
	}
	if !tmpl.Reads("id") || !tmpl.Reads("tool_call_id") || tmpl.Reads("m") {
		t.Error("Reads does not tell the attributes that are read")
	}
}
