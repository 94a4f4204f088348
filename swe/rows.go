package swe

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/agentrl-go/agentrl/sandbox"
)

var shellWords = regexp.MustCompile(`^[A-Za-z0-9/_.+-]+( [A-Za-z0-9/_.=+-]+)*$`)

// RowKeys are the keys of metadata that rows of every format may have beside
// their grader's.
func RowKeys() []string {
	return []string{"image", "workdir", "instance_id", "problem_statement", "pre_commands", "remote_env_info",
		"env", "path_prefix", "shell", "protected_paths", "tools", "grading_egress"}
}

// ReadRow reads what a row says beside its grader, from metadata and, for what
// is absent there, from metadata.remote_env_info: image (there: image_url),
// workdir, instance_id, pre_commands. The id is also a label that is a string
// of less than 256 characters, the problem statement also the prompt; neither
// is looked for in remote_env_info. It returns the task's Spec.
func (w *Workspace) ReadRow(row Row) (Spec, error) {
	f := row.Fields()
	remote, err := f.Object("remote_env_info")
	if err != nil {
		return Spec{}, err
	}
	image, err := either(f, "image", remote, "image_url")
	if err != nil {
		return Spec{}, err
	}
	if w.Workdir, err = either(f, "workdir", remote, "workdir"); err != nil {
		return Spec{}, err
	}
	if image == "" || w.Workdir == "" {
		return Spec{}, noImage(f, remote)
	}
	if err := w.CheckWorkdir(f); err != nil {
		return Spec{}, err
	}
	id, err := either(f, "instance_id", remote, "instance_id")
	if err != nil {
		return Spec{}, err
	}
	if w.Statement, err = f.Text("problem_statement"); err != nil {
		return Spec{}, err
	}
	w.Statement = cmp.Or(w.Statement, PromptText(row.Prompt))
	if w.Steps, err = f.Steps("pre_commands"); err == nil && w.Steps == nil {
		w.Steps, err = remote.Steps("pre_commands")
	}
	if err != nil {
		return Spec{}, err
	}
	if err := w.ReadCommon(f); err != nil {
		return Spec{}, err
	}
	return w.SpecOf(cmp.Or(id, labelID(row.Label), "unknown"), image), nil
}

// SpecOf is the workspace's Spec: both sandboxes are of one image.
func (w *Workspace) SpecOf(id, image string) Spec {
	box := sandbox.Spec{Image: image, Workdir: w.Workdir, Env: w.Env}
	spec := Spec{InstanceID: id, ProblemStatement: w.Statement, Agent: box, Grader: box}
	spec.Grader.Egress = w.egress
	return spec
}

// NeedStatement refuses a row that tells the agent nothing.
func (w *Workspace) NeedStatement(row Row) error {
	switch {
	case strings.TrimSpace(w.Statement) != "":
		return nil
	case !absent(row.Prompt):
		return &RowError{Key: "prompt", Got: shorten(string(row.Prompt), 80),
			Want: "a string, or a list of messages with a user's text; or the problem as metadata.problem_statement"}
	}
	return row.Fields().Error("problem_statement", "a problem, here or as the prompt (a string or a list of messages with a user's)")
}

// CheckWorkdir refuses a work directory that can't be captured.
func (w *Workspace) CheckWorkdir(f Fields) error {
	w.Workdir = strings.TrimRight(w.Workdir, "/")
	if !strings.HasPrefix(w.Workdir, "/") || strings.ContainsAny(w.Workdir, "\x00\n") {
		return f.Error("workdir", `an absolute path below "/"`)
	}
	return nil
}

func either(f Fields, key string, remote Fields, remoteKey string) (string, error) {
	s, err := f.Text(key)
	if s != "" || err != nil {
		return s, err
	}
	return remote.Text(remoteKey)
}

// noImage is ErrNoImage, with the key that was given and is not read.
func noImage(f, remote Fields) error {
	for _, err := range []error{f.CheckSpelling("image", "workdir"), remote.CheckSpelling("image_url", "workdir")} {
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNoImage, err)
		}
	}
	for key, place := range map[string]string{"image_url": "image", "image_name": "image", "docker_image": "image"} {
		if f.Has(key) && !f.Has(place) {
			return fmt.Errorf("%w: metadata.%s is not read; the key is %q", ErrNoImage, key, place)
		}
	}
	var lacks []string
	for _, keys := range [][2]string{{"image", "image_url"}, {"workdir", "workdir"}} {
		if !f.Has(keys[0]) && !remote.Has(keys[1]) {
			lacks = append(lacks, fmt.Sprintf("neither metadata.%s nor metadata.remote_env_info.%s", keys[0], keys[1]))
		}
	}
	return fmt.Errorf("%w: the row has %s", ErrNoImage, strings.Join(lacks, " and "))
}

func labelID(label json.RawMessage) string {
	var s string
	if json.Unmarshal(label, &s) != nil || utf8.RuneCountInString(s) >= 256 {
		return ""
	}
	return s
}

// ReadCommon reads the keys that only we know: env (an object of strings),
// path_prefix, tools and protected_paths (lists; the last overrides TestFiles),
// shell (words), grading_egress ("off": the tests need no network).
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
	egress, err := f.Text("grading_egress")
	if err != nil {
		return err
	}
	w.egress = sandbox.Egress(egress)
	if w.egress != sandbox.EgressOpen && w.egress != sandbox.EgressOff {
		return f.Error("grading_egress", "off, or nothing")
	}
	protected, err := f.List("protected_paths")
	w.Protected = Globs(protected)
	if protected == nil {
		w.Protected = TestFiles()
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
