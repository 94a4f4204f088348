package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl"
)

// TestResumeAfterKill kills the trainer with -9 at five random moments, once
// within a written line, and lets it end: each sample is there once.
func TestResumeAfterKill(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	dir := t.TempDir()
	bin, out := filepath.Join(dir, "trainer"), filepath.Join(dir, "samples.jsonl")
	if text, err := exec.Command("go", "build", "-o", bin, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	const rows, n = 6, 4
	start := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), bin, "-demo", "6", "-n", "4", "-parallel", "3", "-out", out)
		cmd.Stderr = &bytes.Buffer{}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	kills := 0
	for ; kills < 5; kills++ {
		before := size(out)
		cmd := start()
		time.Sleep(time.Second + rand.N(1500*time.Millisecond))
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		if kills == 2 { // within a written line
			if at := size(out); at > before+10 {
				if err := os.Truncate(out, at-10); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	cmd := start()
	if err := cmd.Wait(); err != nil {
		t.Fatalf("the last run: %v\n%s", err, cmd.Stderr)
	}
	checkOutput(t, out, rows*n)
	t.Logf("figure: %d rollouts, each once, after %d kills", rows*n, kills)
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// checkOutput checks that the file holds each rollout once, whole.
func checkOutput(t *testing.T, path string, rollouts int) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	type key struct{ rollout, segment int64 }
	seen, done := map[key]bool{}, map[int64]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var s agentrl.Sample
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			t.Fatalf("line %d: %v", len(seen)+1, err)
		}
		segment, ok := s.Metadata["segment"].(map[string]any)
		if !ok {
			t.Fatalf("rollout %d was aborted: %v", *s.Index, s.Metadata["failure"])
		}
		at, _ := segment["index"].(json.Number).Int64()
		k := key{*s.Index, at}
		if seen[k] {
			t.Errorf("rollout %d, segment %d is there twice", k.rollout, k.segment)
		}
		seen[k] = true
		if last(s) {
			done[*s.Index] = true
		}
	}
	if len(done) != rollouts {
		t.Errorf("%d rollouts are there, want %d", len(done), rollouts)
	}
}

func TestOutputCutsAnUnfinishedRollout(t *testing.T) {
	path := filepath.Join(t.TempDir(), "samples.jsonl")
	line := func(index, segment, count int64) string {
		s := agentrl.Sample{Index: &index, Metadata: map[string]any{"segment": map[string]any{"index": segment, "count": count}}}
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(data) + "\n"
	}
	whole := line(0, 0, 2) + line(0, 1, 2) + line(1, 0, 1)
	for name, tail := range map[string]string{"nothing": "", "half a line": line(2, 0, 1)[:20], "half a rollout": line(2, 0, 2), "both": line(2, 0, 3) + line(2, 1, 3)[:9]} {
		if err := os.WriteFile(path, []byte(whole+tail), 0o600); err != nil {
			t.Fatal(err)
		}
		o, err := openOutput(path)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !o.has(0) || !o.has(1) || o.has(2) {
			t.Errorf("%s: rollouts %v", name, o.done)
		}
		o.Close()
		if got, _ := os.ReadFile(path); string(got) != whole {
			t.Errorf("%s: the file is\n%s", name, got)
		}
	}
	if err := os.WriteFile(path, []byte(whole+"garbage\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openOutput(path); err == nil || !bytes.Contains([]byte(err.Error()), []byte("line 4")) {
		t.Errorf("garbage in the file: %v, want an error that names line 4", err)
	}
}

func TestRowsAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	for text, want := range map[string]string{
		"{\"index\":1}\r\n\r\n \n{\"index\":2}\r\n": "", "": "has no rows", "\r\n": "has no rows", "{\"index\":1}\n\n{\"ind": "rows.jsonl:3: ",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		rows, err := readRows(path)
		if want == "" && (err != nil || len(rows) != 2) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("readRows(%q) = %d rows, %v, want an error that says %q", text, len(rows), err, want)
		}
	}
	if err := run(t.Context(), options{rows: path, n: 8}); err == nil || !strings.Contains(err.Error(), "-parallel 0") {
		t.Errorf("-parallel 0: %v", err)
	}
}
