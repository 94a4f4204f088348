package harness

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentrl-go/agentrl/internal/shell"
)

// Args reads extra arguments given as shell text, and returns them as text for
// one command line: a line break between arguments is a space. What would end
// the command, or hide what follows, is an error that begins with variable, the
// arguments' name: unquoted ; & | < > ( ) or #, a quote that is never closed, a
// backslash at the end. Expansions are the shell's business and are left alone.
func Args(variable, text string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", fmt.Errorf("%s: %s: want shell text of arguments alone, such as --name 'a value'", variable, why)
	}
	if strings.ContainsRune(text, 0) {
		return refuse("there is a NUL byte in it")
	}
	out := []byte(strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n")))
	var quote byte // the one that is open
	expanded := false
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '\\' && quote != '\'':
			if i++; i == len(out) {
				return refuse("there is a backslash at its end")
			}
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '\'' || c == '"':
			quote = c
		case c == '\n':
			out[i] = ' '
		case c == '`' || c == '$' && i+1 < len(out) && out[i+1] == '(':
			expanded = true // what is in there is a command of its own
		case expanded:
		case strings.IndexByte(";&|<>()", c) >= 0, c == '#' && (i == 0 || strings.IndexByte(" \t\n", out[i-1]) >= 0):
			return refuse(fmt.Sprintf("the %q at byte %d is not quoted", string(c), i))
		}
	}
	if quote != 0 {
		return refuse(fmt.Sprintf("a %c is not closed", quote))
	}
	return string(out), nil
}

// Envs reads extra environment given as a JSON object of strings; variable is
// its name for the error.
func Envs(variable, object string) (map[string]string, error) {
	if object == "" {
		return nil, nil
	}
	var envs map[string]string
	if err := json.Unmarshal([]byte(object), &envs); err != nil {
		return nil, fmt.Errorf("%s: want a JSON object of strings, {\"NAME\":\"value\"}: %w", variable, err)
	}
	for name, value := range envs {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return nil, fmt.Errorf("%s: no program can be given the variable %q with the value %q", variable, name, value)
		}
	}
	return envs, nil
}

// Words quotes arguments as shell text.
func Words(args ...string) string {
	quoted := make([]string, len(args))
	for i, a := range args {
		quoted[i] = shell.Quote(a)
	}
	return strings.Join(quoted, " ")
}
