package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// browser is the Chromium that AGENTRL_CHROMIUM names, or "": these tests take
// minutes, and are asked for by `make report-test`.
func browser() string {
	path, err := exec.LookPath(os.Getenv("AGENTRL_CHROMIUM"))
	if err != nil {
		return ""
	}
	return path
}

// open loads a page and returns its DOM when it has come to rest, and leaves a
// screenshot where AGENTRL_SHOTS says.
func open(t *testing.T, page, at, shot string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	args := []string{"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir=" + t.TempDir(),
		"--window-size=1300,1600"}
	if at != "" {
		args = append(args, "--virtual-time-budget=20000") // details are unpacked after the page has loaded
	}
	out, err := exec.CommandContext(ctx, browser(), append(args, "--dump-dom", "file://"+page+at)...).Output()
	if err != nil {
		t.Fatalf("%s: %v", at, err)
	}
	if dir := os.Getenv("AGENTRL_SHOTS"); dir != "" {
		if err := exec.CommandContext(ctx, browser(), append(args, "--screenshot="+filepath.Join(dir, shot+".png"), "file://"+page+at)...).Run(); err != nil {
			t.Errorf("screenshot %s: %v", shot, err)
		}
	}
	return string(out)
}

var took = regexp.MustCompile(`data-(table|ready)="(\d+)"`)

// TestInChromium looks at a page of a thousand rollouts as a person does.
func TestInChromium(t *testing.T) {
	if browser() == "" {
		t.Skip("AGENTRL_CHROMIUM names no browser: run `make report-test`")
	}
	dir := t.TempDir()
	fill(t, dir, 1000, 40)
	page := filepath.Join(t.TempDir(), "report.html")
	if err := run(options{dir: dir, out: page, maxMB: 512}, os.Stderr); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(page)
	if err != nil {
		t.Fatal(err)
	}
	dom := open(t, page, "", "run")
	for _, want := range []string{"1,000 of 1,000", ">project__lib-0<", "show more"} {
		if !strings.Contains(dom, want) {
			t.Errorf("the page does not show %s", want)
		}
	}
	for _, m := range took.FindAllStringSubmatch(dom, -1) {
		ms, _ := strconv.Atoi(m[2])
		t.Logf("figure: %s after %d ms, 1,000 rollouts, %d MiB", m[1], ms, info.Size()>>20)
	}
}

// TestViewsInChromium opens each view of a rollout.
func TestViewsInChromium(t *testing.T) {
	if browser() == "" {
		t.Skip("AGENTRL_CHROMIUM names no browser: run `make report-test`")
	}
	dir := t.TempDir()
	fill(t, dir, 10, 40)
	page := filepath.Join(t.TempDir(), "report.html")
	if err := run(options{dir: dir, out: page, maxMB: 512}, os.Stderr); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string][]string{
		"#r=5&v=conversation": {"I look.", "ls -la", "total 12", "Fix &lt;b&gt;it&lt;/b&gt;."},
		"#r=5&v=tree":         {"2 branches", "subagent", "sequence 1", "content, message 1, token 4"},
		"#r=5&v=tokens":       {"1,600 trained", `class="tok t"`, "1 from token 4, 2 from token 2,004", ">weights 1<", "&lt;/script&gt;&lt;b&gt;"},
		"#r=5&v=time":         {"evaluate", "turn 40"},
		"#r=5&v=patch":        {`class="a">+new`, "1 files"},
		"#r=5&v=grading":      {"assert 1 == 2", "all tests passed"},
		"#r=3&v=row":          {"sandbox: sandbox_gone in run", "/repo"},
		"#r=4711":             {"There is no such rollout"},
	} {
		shot := strings.Trim(strings.NewReplacer("#r=", "r", "&v=", "-").Replace(at), "-")
		dom := open(t, page, at, shot)
		for _, w := range want {
			if !strings.Contains(dom, w) {
				t.Errorf("%s: the page does not show %s", at, w)
			}
		}
	}
}

// hands is what a person does to the page: search the table, point at a token.
const hands = `<script>setTimeout(() => {
  const find = document.getElementById('find');
  find.value = 'aborted gone'; find.dispatchEvent(new Event('input'));
  document.querySelectorAll('#all th')[3].click();
  document.querySelector('.tok.t[data-k]').dispatchEvent(new MouseEvent('mousemove', {bubbles: true, clientX: 50, clientY: 50}));
}, 5000)</script></body>`

func TestHandsInChromium(t *testing.T) {
	if browser() == "" {
		t.Skip("AGENTRL_CHROMIUM names no browser: run `make report-test`")
	}
	dir := t.TempDir()
	fill(t, dir, 30, 3)
	page, _ := made(t, options{dir: dir})
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(strings.Replace(page, "</body>", hands, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	dom := open(t, path, "#r=5&v=tokens", "hover")
	for _, want := range []string{"4 of 30", "logprob -0.", "trained, turn turn0", "weights 1</div>"} {
		if !strings.Contains(dom, want) {
			t.Errorf("the page does not show %s", want)
		}
	}
	first := strings.Index(dom, ">project__lib-3<")
	if last := strings.LastIndex(dom, ">project__lib-24<"); first < 0 || last < first {
		t.Error("the table is not sorted by time")
	}
}
