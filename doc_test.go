package agentrl

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryExportedNameIsDocumented walks the module's packages.
func TestEveryExportedNameIsDocumented(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return fs.SkipDir
		}
		checkDocs(t, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func checkDocs(t *testing.T, dir string) {
	fset := token.NewFileSet()
	entries, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range entries {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if !ignored(f) {
			files = append(files, f)
		}
	}
	if len(files) == 0 {
		return
	}
	p, err := doc.NewFromFiles(fset, files, module+"/"+dir)
	if err != nil {
		t.Fatal(err)
	}
	if p.Doc == "" {
		t.Errorf("%s: package %s has no doc comment", dir, p.Name)
	}
	for _, f := range p.Funcs {
		missing(t, dir, f.Name, f.Doc)
	}
	for _, typ := range p.Types {
		missing(t, dir, typ.Name, typ.Doc)
		for _, f := range append(typ.Funcs, typ.Methods...) {
			if !wellKnown[f.Name] {
				missing(t, dir, typ.Name+"."+f.Name, f.Doc)
			}
		}
	}
}

// ignored reports a file that no build takes.
func ignored(f *ast.File) bool {
	for _, group := range f.Comments {
		if group.Pos() < f.Package && strings.Contains(group.Text(), "go:build ignore") {
			return true
		}
		for _, c := range group.List {
			if c.Pos() < f.Package && strings.HasPrefix(c.Text, "//go:build ignore") {
				return true
			}
		}
	}
	return false
}

// wellKnown methods say by their name what they do.
var wellKnown = map[string]bool{"Error": true, "Unwrap": true, "String": true, "Len": true, "Less": true, "Swap": true}

func missing(t *testing.T, dir, name, doc string) {
	t.Helper()
	if strings.TrimSpace(doc) == "" {
		t.Errorf("%s: %s has no doc comment", dir, name)
	}
}

// TestREADMECodeIsCompiled: each Go block of README stands in a compiled test.
func TestREADMECodeIsCompiled(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	examples, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	have := squash(string(examples))
	blocks := strings.Split(string(readme), "```go\n")[1:]
	if len(blocks) == 0 {
		t.Fatal("README has no Go block")
	}
	for _, block := range blocks {
		code, _, _ := strings.Cut(block, "```")
		if !strings.Contains(have, squash(code)) {
			t.Errorf("README has Go code that example_test.go has not:\n%s", code)
		}
	}
}

// squash makes indentation no difference.
func squash(s string) string { return strings.Join(strings.Fields(s), " ") }
