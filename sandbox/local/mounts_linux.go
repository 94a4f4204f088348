package local

import (
	"bufio"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// parts says of what the sandbox's root is made, as KIND:PLACE for setup:
//
//	root:/      a layer over all of the image
//	layer:DIR   a layer over a directory of the host
//	bare:/      a root that holds only the parts that follow
//	dir:DIR     a new directory
//	copy:PATH   a copy of a file or link
//
// and links what lies under each layer into the sandbox's directory.
func parts(b *box) ([]string, error) {
	list := []string{"root:/"}
	if b.image == "/" {
		mounts, err := hostMounts()
		if err != nil {
			return nil, err
		}
		if b.way == UserNamespace {
			list = bareParts("/", mounts, []string{"bare:/"})
		} else {
			list = append(list, mountParts(mounts)...)
		}
	}
	n := 0
	for _, part := range list {
		if place, ok := strings.CutPrefix(part, "layer:"); ok {
			n++
			if err := os.Symlink(place, filepath.Join(b.dir, fmt.Sprintf("l.%d", n))); err != nil {
				return nil, err
			}
		}
	}
	return list, nil
}

// hostMounts returns the file systems of the host by their places.
func hostMounts() (map[string]string, error) {
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	mounts := map[string]string{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		place, kind := mountOf(lines.Text())
		mounts[place] = kind
	}
	return mounts, lines.Err()
}

// mountParts are the file systems mounted below the root: an overlay over the
// root shows none of them.
func mountParts(mounts map[string]string) []string {
	var list []string
	for _, place := range slices.Sorted(maps.Keys(mounts)) {
		if holdsFiles(place, mounts[place]) {
			list = append(list, "layer:"+place)
		}
	}
	return list
}

// bareParts are the parts of a directory for a user namespace: what a user may
// put an overlay over has no mounts below it. /root is new, as the host's is
// not ours to enter.
func bareParts(dir string, mounts map[string]string, list []string) []string {
	entries, _ := os.ReadDir(dir) // what cannot be read is not there
	for _, e := range entries {
		place := filepath.Join(dir, e.Name())
		kind, mounted := mounts[place]
		switch {
		case place == "/proc" || place == "/sys" || place == "/dev":
		case place == "/root" || mounted && !holdsFiles(place, kind):
			list = append(list, "dir:"+place)
		case e.IsDir() && mountsBelow(place, mounts):
			list = bareParts(place, mounts, append(list, "dir:"+place))
		case e.IsDir():
			list = append(list, "layer:"+place)
		case e.Type().IsRegular() || e.Type()&fs.ModeSymlink != 0:
			list = append(list, "copy:"+place)
		}
	}
	return list
}

func mountsBelow(dir string, mounts map[string]string) bool {
	for place := range mounts {
		if strings.HasPrefix(place, dir+"/") {
			return true
		}
	}
	return false
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
	if kind == "overlay" && (path.Base(place) == "merged" || path.Base(place) == "rootfs") {
		return false // the root of somebody's container, which comes and goes
	}
	info, err := os.Stat(place)
	return err == nil && info.IsDir()
}
