package token

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"
	"unicode/utf8"
)

// TestFullSizeFiles compares the ids of the .go, .py and .md files of the Go
// and Python distributions with the reference's. AGENTRL_FILES=1 compares all
// of them, =N every Nth; by default it is a few.
func TestFullSizeFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	nth := 400
	if s := os.Getenv("AGENTRL_FILES"); s != "" {
		var err error
		if nth, err = strconv.Atoi(s); err != nil || nth < 1 {
			t.Fatalf("AGENTRL_FILES=%s: want 1 for all files, N for every Nth", s)
		}
	}
	files, skipped := distributionFiles(t)
	var chosen []string
	for i := 0; i < len(files); i += nth {
		chosen = append(chosen, files[i])
	}
	for _, name := range fullSize {
		t.Run(name, func(t *testing.T) {
			tok := loadFull(t, name)
			questions := make([]question, len(chosen))
			for i, path := range chosen {
				questions[i] = question{Op: "encode", File: path}
			}
			bad, tokens, ours := 0, 0, time.Duration(0)
			start := time.Now()
			askReference(t, cachedJSON(t, name), questions, func(i int, a answer) {
				data, err := os.ReadFile(chosen[i])
				if err != nil {
					t.Fatal(err)
				}
				from := time.Now()
				got := tok.Encode(string(data))
				ours += time.Since(from)
				tokens += len(got)
				if !slices.Equal(got, a.IDs) {
					bad++
					t.Errorf("Encode(%s) differs", chosen[i])
				}
			})
			t.Logf("figure: %s files %d run, %d not UTF-8 skipped, %d failed (%d tokens; %.2f s here, %.0f s with the reference)",
				name, len(chosen), skipped, bad, tokens, ours.Seconds(), time.Since(start).Seconds())
		})
	}
}

// distributionFiles lists the files that are UTF-8, and counts those that are not.
func distributionFiles(t *testing.T) (files []string, skipped int) {
	roots, _ := filepath.Glob("/usr/lib/python3*")
	for _, root := range append(roots, goroot(t)) {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() || !slices.Contains([]string{".go", ".py", ".md"}, filepath.Ext(path)) {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if !utf8.Valid(data) {
				skipped++
				return nil
			}
			files = append(files, path)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return files, skipped
}
