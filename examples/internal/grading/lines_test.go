package grading

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl"
)

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rows.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLinesAreAllReadOrNone: a dataset that was copied by half is not a smaller
// dataset.
func TestLinesAreAllReadOrNone(t *testing.T) {
	const one, two = `{"index":1,"metadata":{}}`, `{"index":2,"metadata":{}}`
	for _, text := range []string{one + "\n" + two + "\n", one + "\n\n" + two} {
		if rows, err := ReadLines[agentrl.Sample](write(t, text)); err != nil || len(rows) != 2 {
			t.Errorf("ReadLines(%q) = %d rows, %v", text, len(rows), err)
		}
	}
	for text, want := range map[string]string{
		one + "\n" + two[:9]:                  "line 2 is cut short",
		one[:9] + "\n" + two + "\n":           "line 1: ",
		one + "\n" + `{"index":"two"}` + "\n": "line 2: ",
	} {
		if rows, err := ReadLines[agentrl.Sample](write(t, text)); err == nil || len(rows) > 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("ReadLines(%q) = %d rows, %v, want an error that says %q", text, len(rows), err, want)
		}
	}
	if _, err := ReadLines[agentrl.Sample](filepath.Join(t.TempDir(), "none")); !os.IsNotExist(err) {
		t.Errorf("a file that is not there: %v", err)
	}
}

func TestResumeCutsHalfALine(t *testing.T) {
	path := write(t, "{\"a\":1}\n{\"a\":2}\n{\"a\":")
	for _, want := range []int{2, 3} {
		list, f, err := Resume[map[string]int](path)
		if err != nil || len(list) != want {
			t.Fatalf("Resume = %v, %v, want %d values", list, err, want)
		}
		_, err = f.WriteString("{\"a\":3}\n")
		if cerr := f.Close(); err != nil || cerr != nil {
			t.Fatal(err, cerr)
		}
	}
	if _, _, err := Resume[map[string]int](write(t, "{\n{}\n")); err == nil || !strings.Contains(err.Error(), "line 1: ") {
		t.Errorf("a broken line in the middle: %v", err)
	}
}

// TestResumeEndsALine: what a killed process had written but for its line break
// is kept, and what is appended is a line of its own.
func TestResumeEndsALine(t *testing.T) {
	path := write(t, "{\"a\":1}\n{\"a\":2}")
	list, f, err := Resume[map[string]int](path)
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	if _, err := f.WriteString("{\"a\":3}\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if list, err := ReadLines[map[string]int](path); err != nil || len(list) != 3 || list[2]["a"] != 3 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestRowOf100MB: a row's tests may be large, and so may be its line.
func TestRowOf100MB(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	big := strings.Repeat("x", 100<<20)
	path := write(t, `{"index":1,"metadata":{"tests":"`+big+`"}}`+"\n"+`{"index":2}`+"\n")
	rows, err := ReadLines[agentrl.Sample](path)
	if err != nil || len(rows) != 2 || rows[0].Metadata["tests"] != big {
		t.Fatalf("%d rows, %v", len(rows), err)
	}
	if err := os.WriteFile(path, []byte(`{"index":1,"metadata":{"tests":"`+big), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadLines[agentrl.Sample](path); err == nil || !strings.Contains(err.Error(), "line 1 is cut short") || len(err.Error()) > 500 {
		t.Errorf("half of it: %.500v", err)
	}
}
