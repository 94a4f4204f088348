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

func readTamper(t testing.TB) []tamperItem {
	var items []tamperItem
	for block := range strings.SplitSeq("\n"+readText(t, "testdata/tamper.txt"), "\n-- ") {
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

// TestTamperCorpus: precision and recall of the detectors. The half that they
// were tuned on has to be right; of the other half the figures are reported,
// and held to a floor.
func TestTamperCorpus(t *testing.T) {
	items := readTamper(t)
	if len(items) < 60 {
		t.Fatalf("%d items", len(items))
	}
	for _, held := range []bool{false, true} {
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
			if flagged != i.cheat && !held {
				t.Errorf("%s: %v", i.name, i.signals())
			}
		}
		precision, recall := float64(hit)/float64(hit+wrong), float64(hit)/float64(hit+miss)
		name := map[bool]string{false: "tuned on", true: "held out"}[held]
		t.Logf("figure: %s: %d items, precision %.2f, recall %.2f (%d hits, %d misses, %d false alarms)", name, hit+miss+wrong+right, precision, recall, hit, miss, wrong)
		if held && (precision < 0.85 || recall < 0.75) {
			t.Error("the held out half is under its floor")
		}
	}
}
