package swe

import (
	"regexp"
	"strings"
)

var shellWords = regexp.MustCompile(`^[A-Za-z0-9/_.+-]+( [A-Za-z0-9/_.=+-]+)*$`)

// RowKeys are the keys that rows of every format may have beside their own.
func RowKeys() []string { return []string{"env", "path_prefix", "shell", "protected_paths", "tools"} }

// ReadCommon reads RowKeys: env (an object of strings), path_prefix, tools and
// protected_paths (lists; the last overrides TestGlobs), shell (words).
func (w *Workspace) ReadCommon(f Fields) error {
	var err error
	if w.Env, err = f.Texts("env"); err != nil {
		return err
	}
	if w.PathPrefix, err = f.List("path_prefix"); err != nil {
		return err
	}
	if w.Tools, err = f.List("tools"); err != nil {
		return err
	}
	if w.Shell, err = f.Text("shell"); err != nil {
		return err
	}
	if w.Shell != "" && !shellWords.MatchString(w.Shell) {
		return f.Error("shell", `a program and its options without quoting, like "bash -l"`)
	}
	protected, err := f.List("protected_paths")
	w.Protected = Globs(protected)
	if protected == nil {
		w.Protected = TestGlobs()
	}
	return err
}

// Steps reads set-up commands: a string, or a list of strings of which null and
// empty ones are dropped. An absent key is no step.
func (f Fields) Steps(key string) ([]Step, error) {
	if !f.Has(key) {
		return nil, nil
	}
	if text, err := f.Text(key); err == nil {
		return []Step{{Name: key, Script: breakLines(text)}}, nil
	}
	list, err := f.optionals(key)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return []Step{{Name: key, Script: strings.Join(list, "\n")}}, nil
}

// breakLines makes line breaks of the two characters \n, as rows use them
// between commands, where a shell would read a plain n: outside of quotes.
func breakLines(s string) string {
	var b strings.Builder
	var quote byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && quote != '\'' && i+1 < len(s):
			i++
			if s[i] == 'n' && quote == 0 {
				b.WriteByte('\n')
				continue
			}
			b.WriteByte(c)
			c = s[i]
		case c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote = c
		}
		b.WriteByte(c)
	}
	return b.String()
}
