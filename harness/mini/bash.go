package mini

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

const bashTool = `{"type":"function","function":{"name":"bash","description":"Run a command in the work directory and return its output and exit status.",` +
	`"parameters":{"type":"object","properties":{"command":{"type":"string","description":"The command."}},"required":["command"]}}}`

// call answers one tool call. What the model got wrong is an answer; the error
// is the sandbox's.
func (a *agent) call(ctx context.Context, call toolCall) (string, error) {
	var args struct {
		Command *string `json:"command"`
	}
	switch err := json.Unmarshal([]byte(call.Function.Arguments), &args); {
	case call.Function.Name != "bash":
		return fmt.Sprintf("There is no tool %q; the only one is bash.", call.Function.Name), nil
	case err != nil:
		return "The arguments are no valid JSON: " + err.Error(), nil
	case args.Command == nil:
		return `The argument "command" is missing.`, nil
	case strings.ContainsRune(*args.Command, 0):
		return "A command cannot hold a NUL byte.", nil
	}
	return a.bash(ctx, *args.Command)
}

// maxVariable is how long a command may be to be handed over in a variable.
// Linux takes 128 KiB.
const maxVariable = 64 << 10

// The runner runs $AGENTRL_COMMAND, or the script that $file names, by bash
// where there is one, within the timeout where there is one.
const runner = `sh=sh; ! command -v bash >/dev/null || sh=bash
[ -n "$file" ] && set -- $sh "$file" || set -- $sh -c "$AGENTRL_COMMAND"
max=$AGENTRL_MAX_OUTPUT limit=$AGENTRL_TIMEOUT
unset AGENTRL_COMMAND AGENTRL_TIMEOUT AGENTRL_MAX_OUTPUT
! command -v timeout >/dev/null || set -- timeout -k 5 "$limit" "$@"
d=$(mktemp -d 2>/dev/null) && mkfifo "$d/pipe" 2>/dev/null || exec "$@" 2>&1
`

// capped runs the command with its output in a pipe, since what a program may
// open anew as /dev/stderr must not be a file; of what comes out, 64 MiB are
// kept, and both ends are shown. All of it would go through this process's
// memory. A daemon that holds the pipe holds nobody: what has come within half
// a second of the command's end is its output.
const capped = `{
	(ulimit -c 0; ulimit -f 131072; exec cat) >"$d/out"
	: >"$d/end"
	exec cat >/dev/null
} <"$d/pipe" 2>/dev/null &
exec 3>&1
{ "$@" >"$d/pipe" 2>&1 3>&-; } 2>/dev/null
code=$?
i=0
until [ -e "$d/end" ] || [ $i -ge 25 ]; do sleep 0.02 2>/dev/null || { sleep 1; i=25; }; i=$((i + 1)); done
size=$(wc -c <"$d/out")
if [ "$size" -le "$max" ]; then
	cat "$d/out"
else
	head -c $((max / 2)) "$d/out"
	printf '\n[%d bytes left out]\n' $((size - max / 2 * 2))
	tail -c $((max / 2)) "$d/out"
fi
rm -rf "$d"
exit $code`

// script is what runs a command: its text, and the variable that it needs.
func script(command string) (text, variable string) {
	if len(command) <= maxVariable {
		return "file=\n" + runner + capped, command
	}
	end := rand.Text() // which is a line of no command
	return "file=$(mktemp) && cat >\"$file\" <<'" + end + "' || exit 1\n" +
		"rm -f -- \"$0\"\n" + command + "\n" + end + "\n" + runner + capped, ""
}

func (a *agent) bash(ctx context.Context, command string) (string, error) {
	secs := max(int(a.opts.CommandTimeout.Seconds()), 1)
	text, variable := script(command)
	start := time.Now()
	res, err := a.sb.Exec(ctx, sandbox.Cmd{Script: text, User: sandbox.AgentUser, Dir: a.job.Workdir, Env: map[string]string{
		"AGENTRL_COMMAND": variable, "AGENTRL_TIMEOUT": fmt.Sprint(secs), "AGENTRL_MAX_OUTPUT": fmt.Sprint(a.opts.MaxOutput),
	}})
	if err != nil {
		return "", fmt.Errorf("bash: %w", err)
	}
	out := shorten(string(res.Stdout)+string(res.Stderr), a.opts.MaxOutput+100) // and the sandbox's note of what it left out
	switch {
	case res.Code == 124, res.Code == 137 && time.Since(start) >= time.Duration(secs)*time.Second:
		out += fmt.Sprintf("\n[the command was ended after %v]", a.opts.CommandTimeout)
	case res.Signal != "":
		out += "\n[killed by " + res.Signal + "]"
	case res.Code != 0:
		out += fmt.Sprintf("\n[exit status %d]", res.Code)
	case out == "":
		out = "[no output]"
	}
	return out, nil
}

// shorten keeps both ends of a long output.
func shorten(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	head, tail := s[:limit/2], s[len(s)-limit/2:]
	return fmt.Sprintf("%s\n[%d bytes left out]\n%s",
		strings.ToValidUTF8(head, ""), len(s)-limit, strings.ToValidUTF8(tail, ""))
}
