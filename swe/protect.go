package swe

import (
	"bytes"
	"path"
	"strings"
)

// Globs name files of a repository. A pattern without a slash is matched
// against the base name at any depth; one with a slash against the whole path,
// and there * also crosses slashes ("tests/*" is all below tests); a leading
// slash stands for the top.
type Globs []string

// TestFiles are the files that decide about a grade: tests and what configures
// their runner. Build files (setup.cfg, pyproject.toml, package.json) are not
// among them, because fixes have to change those.
func TestFiles() Globs {
	return Globs{
		"tests/*", "*/tests/*", "test/*", "__tests__/*", "*/__tests__/*", "spec/*",
		"test_*.py", "*_test.py", "*_test.go", "conftest.py", "*.test.js", "*.test.ts", "*.test.tsx", "*.spec.js", "*.spec.ts",
		"pytest.ini", ".pytest.ini", "tox.ini", "noxfile.py", "sitecustomize.py", "usercustomize.py", "*.pth", "*.dist-info/*",
		"/pytest.py", "/_pytest/*", "/unittest.py", "/unittest/*", "jest.config.*", "vitest.config.*", ".mocharc*", "karma.conf.js",
	}
}

// Match reports whether a path is named by one of the patterns.
func (g Globs) Match(p string) bool {
	for _, pattern := range g {
		if strings.Contains(pattern, "/") {
			if wild(strings.TrimPrefix(pattern, "/"), p) {
				return true
			}
		} else if wild(pattern, path.Base(p)) {
			return true
		}
	}
	return false
}

// wild matches * with any text and ? with one byte.
func wild(pattern, s string) bool {
	for pattern != "" {
		switch pattern[0] {
		case '*':
			rest := strings.TrimLeft(pattern, "*")
			for i := range len(s) + 1 {
				if wild(rest, s[i:]) {
					return true
				}
			}
			return false
		case '?':
			if s == "" {
				return false
			}
		default:
			if s == "" || s[0] != pattern[0] {
				return false
			}
		}
		pattern, s = pattern[1:], s[1:]
	}
	return s == ""
}

// touched are the paths that a git patch names, before and after.
func touched(patch []byte) map[string]bool {
	paths := map[string]bool{}
	for line := range bytes.Lines(patch) {
		text := strings.TrimRight(string(line), "\r\n")
		for _, mark := range []string{"--- a/", "+++ b/", "rename from ", "rename to ", "copy to "} {
			if p, ok := strings.CutPrefix(text, mark); ok {
				paths[strings.TrimSuffix(p, "\t")] = true
			}
		}
		if both, ok := strings.CutPrefix(text, "diff --git a/"); ok {
			if a, b, ok := strings.Cut(both, " b/"); ok && a == b {
				paths[a] = true // the only mention of an empty or a binary file
			}
		}
	}
	return paths
}
