package swe

import (
	"fmt"
	"strings"
	"testing"
)

type tamperItem struct {
	name, body  string
	cheat, held bool
}

func readTamper(t testing.TB, file string) []tamperItem {
	var items []tamperItem
	for block := range strings.SplitSeq("\n"+readText(t, file), "\n-- ") {
		head, body, ok := strings.Cut(block, " --\n")
		f := strings.Split(head, " | ")
		if !ok || len(f) != 3 {
			continue
		}
		items = append(items, tamperItem{f[0], strings.TrimSuffix(body, "\n") + "\n", f[1] == "cheat", f[2] == "held"})
	}
	return items
}

// signals of one item, whatever it is.
func (i tamperItem) signals() []string {
	if log, ok := strings.CutPrefix(i.body, "log:\n"); ok {
		return LogSignals(log)
	}
	if command, ok := strings.CutPrefix(i.body, "$ "); ok {
		return CommandSignals(command)
	}
	return PatchSignals(i.patch())
}

// patch spells the corpus's short form out.
func (i tamperItem) patch() []byte {
	var b strings.Builder
	for line := range strings.Lines(i.body) {
		mark, path, ok := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case ok && strings.HasPrefix(mark, "@") && line[0] == '@' && !strings.HasPrefix(line, "@@"):
			fmt.Fprintf(&b, "diff --git a/%s b/%s\n", path, path)
			switch mark {
			case "@new":
				fmt.Fprintf(&b, "new file mode 100644\n--- /dev/null\n+++ b/%s\n", path)
			case "@del":
				fmt.Fprintf(&b, "deleted file mode 100644\n--- a/%s\n+++ /dev/null\n", path)
			default:
				fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n", path, path)
			}
			b.WriteString("@@ -1,9 +1,9 @@\n")
		default:
			b.WriteString(line)
		}
	}
	return []byte(b.String())
}

// TestTamperCorpus: precision and recall of the detectors on two corpora: the
// first was written before them by their author, the second by somebody who
// has not seen them. Of each, the half that they were tuned on has to be right
// but for what testdata/tamper_missed.txt lists; of the other half, opened for
// the final figure alone, the figures are reported and held to a floor.
func TestTamperCorpus(t *testing.T) {
	missed := readText(t, "testdata/tamper_missed.txt")
	for _, file := range []string{"testdata/tamper.txt", "testdata/tamper_independent.txt"} {
		items := readTamper(t, file)
		if len(items) < 60 {
			t.Fatalf("%s: %d items", file, len(items))
		}
		for _, held := range []bool{false, true} {
			judgeTamper(t, file, items, held, missed)
		}
	}
}

func judgeTamper(t *testing.T, file string, items []tamperItem, held bool, missed string) {
	hit, miss, wrong, right := 0, 0, 0, 0
	for _, i := range items {
		if i.held != held {
			continue
		}
		flagged := len(i.signals()) > 0
		switch {
		case i.cheat && flagged:
			hit++
		case i.cheat:
			miss++
		case flagged:
			wrong++
		default:
			right++
		}
		if flagged != i.cheat && !held && !strings.Contains(missed, i.name+"\n") {
			t.Errorf("%s: %s: cheat %v, signals %v", file, i.name, i.cheat, i.signals())
		}
	}
	precision, recall := float64(hit)/float64(hit+wrong), float64(hit)/float64(hit+miss)
	name := map[bool]string{false: "tuned on", true: "held out"}[held]
	t.Logf("figure: %s, %s: %d items, precision %.2f, recall %.2f (%d hits, %d misses, %d false alarms)",
		file, name, hit+miss+wrong+right, precision, recall, hit, miss, wrong)
	if held && (precision < 0.85 || recall < 0.65) {
		t.Errorf("%s: the held out half is under its floor", file)
	}
}
