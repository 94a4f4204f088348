package local

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// layers links what lies under each layer but the root's into the sandbox's
// directory, and returns the places of those layers. An overlay over the
// host's root shows none of the file systems mounted on it: each that holds
// files gets an overlay of its own.
func layers(b *box) ([]string, error) {
	if b.image != "/" {
		return nil, nil
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var places []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		place, kind := mountOf(lines.Text())
		if !holdsFiles(place, kind) {
			continue
		}
		places = append(places, place)
		if err := os.Symlink(place, filepath.Join(b.dir, fmt.Sprintf("l.%d", len(places)))); err != nil {
			return nil, err
		}
	}
	return places, lines.Err()
}

// mountOf takes place and file system from a line of mountinfo.
func mountOf(line string) (place, kind string) {
	fields := strings.Fields(line)
	_, rest, ok := strings.Cut(line, " - ")
	if !ok || len(fields) < 5 {
		return "", ""
	}
	kind, _, _ = strings.Cut(rest, " ")
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	return unescape.Replace(fields[4]), kind
}

// holdsFiles reports whether a mount is one of directories with files that a
// sandbox should see.
func holdsFiles(place, kind string) bool {
	if place == "" || place == "/" {
		return false
	}
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if place == dir || strings.HasPrefix(place, dir+"/") {
			return false
		}
	}
	switch kind {
	case "proc", "sysfs", "cgroup", "cgroup2", "devpts", "devtmpfs", "mqueue", "autofs", "nsfs", "rpc_pipefs",
		"binfmt_misc", "debugfs", "tracefs", "securityfs", "fusectl", "configfs", "hugetlbfs", "pstore", "bpf", "efivarfs":
		return false
	}
	info, err := os.Stat(place)
	return err == nil && info.IsDir()
}
