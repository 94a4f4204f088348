package local

import (
	"strings"
	"testing"
)

func TestMountOf(t *testing.T) {
	for line, want := range map[string]string{
		"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue": "/mnt2 ext3",
		`40 35 0:30 / /with\040space rw - tmpfs tmpfs rw`:                                "/with space tmpfs",
		"40 35 0:30 / /mnt rw shared:1 master:2 - overlay - rw":                          "/mnt overlay",
		"": " ",
	} {
		place, kind := mountOf(line)
		if got := place + " " + kind; got != want {
			t.Errorf("mountOf(%q) = %q, want %q", line, got, want)
		}
	}
}

func FuzzMountOf(f *testing.F) {
	f.Add(`40 35 0:30 / /with\040space rw - tmpfs tmpfs rw`)
	f.Add(" - ")
	f.Fuzz(func(t *testing.T, line string) {
		place, kind := mountOf(line)
		if strings.Contains(kind, " ") || (place == "") != (kind == "") && place == "" && kind != "" {
			t.Errorf("mountOf(%q) = %q, %q", line, place, kind)
		}
	})
}
