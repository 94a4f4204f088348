package agentrl

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"path"
	"strings"
	"testing"
)

const module = "github.com/agentrl-go/agentrl"

// modules says who may import another module, and why. "" is the root package.
var modules = []struct{ prefix, users, reason string }{
	{"github.com/caarlos0/env/v11", "", "the environment is read in one place"},
	{"golang.org/x/sync", " examples/trainer examples/preflight examples/regrade", "boot slots; bounded groups"},
	{"github.com/sugarme/tokenizer", "adapter/token", "its form of tokenizer.json and its decoders, never its encoder"},
	{"github.com/pelletier/go-toml/v2", "harness/codex", "Codex's configuration is TOML"},
	{"go.opentelemetry.io/otel", "", "traces and metrics by the ecosystem's convention; the API alone, no SDK and no exporter"},
	{"github.com/schollz/progressbar/v3", "examples/trainer", "a person looks at it"},
}

// testModules may be imported by tests and test packages alone.
var testModules = []string{"github.com/google/go-cmp"}

type pkg struct {
	ImportPath                         string
	Imports, TestImports, XTestImports []string
}

func (p pkg) rel() string { return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/") }

func listPackages(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

// TestDependencies holds the import graph that README draws.
func TestDependencies(t *testing.T) {
	for _, p := range listPackages(t) {
		for _, imported := range p.Imports {
			checkImport(t, p.rel(), imported, false)
		}
		for _, imported := range append(p.TestImports, p.XTestImports...) {
			checkImport(t, p.rel(), imported, true)
		}
	}
}

func checkImport(t *testing.T, from, imported string, test bool) {
	t.Helper()
	switch to, ours := strings.CutPrefix(imported, module+"/"); {
	case imported == module:
		if !strings.HasPrefix(from, "examples") && !test {
			t.Errorf("%s imports the root package", from)
		}
	case ours && !mayImport(from, to, test):
		t.Errorf("%s imports %s", from, to)
	case !ours && strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") && !mayUse(from, imported, test):
		t.Errorf("%s imports %s: add it to modules with a reason, or do without", from, imported)
	}
}

// mayImport is design's table: who may import whom within the module.
func mayImport(from, to string, test bool) bool {
	family, toFamily := top(from), top(to)
	switch {
	case strings.HasPrefix(from, "examples"), toFamily == "internal" && family != "internal", from == to:
		return to != "internal/cases" || test
	case test && (strings.HasSuffix(path.Base(to), "test") || to == "sandbox/local" || to == "sandbox/docker" || to == "internal/cases" || toFamily == "testdata"):
		return true
	case from == "":
		return toFamily != "testdata"
	case family == "internal":
		return toFamily == "internal"
	case strings.HasSuffix(path.Base(from), "test"), test:
		return mayImport(path.Dir(from), to, false) || path.Dir(from) == to || family == toFamily || mayImport(family, to, false)
	case from == "adapter":
		return toFamily == "adapter" && !strings.HasSuffix(to, "test")
	case family == "adapter":
		return to == "adapter/chat"
	case family == "harness", family == "swe":
		return to == family || to == "sandbox" || family == "swe" && path.Dir(to) == "swe" && !strings.HasSuffix(to, "test")
	case family == "sandbox":
		return to == "sandbox"
	}
	return false
}

func top(p string) string { return strings.SplitN(p, "/", 2)[0] }

func mayUse(from, imported string, test bool) bool {
	for _, m := range modules {
		if imported == m.prefix || strings.HasPrefix(imported, m.prefix+"/") {
			for _, user := range strings.Split(m.users, " ") {
				if from == user {
					return true
				}
			}
		}
	}
	for _, m := range testModules {
		if (test || strings.HasSuffix(from, "test")) && strings.HasPrefix(imported, m+"/") {
			return true
		}
	}
	return false
}

// TestProductionLinksNoTestPackage: what a trainer links holds no fake.
func TestProductionLinksNoTestPackage(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dep := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(dep, module) && strings.HasSuffix(dep, "test") || dep == "testing" {
			t.Errorf("the root package links %s", dep)
		}
	}
}
