package demo

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
	"github.com/agentrl-go/agentrl/adapter/token"
)

// EngineOptions of NewEngine.
type EngineOptions struct {
	Misread  bool          // the policy gets the last character of the token wrong
	PerToken time.Duration // how slowly it samples; 0 is at once

	Edit    func(answer map[string]any) // changes each answer; nil for none
	Experts bool                        // it gives routed experts to those who ask
}

// NewEngine is an engine double that serves the policy over the tokenizer: all
// that the policy knows is the ids that it is sent.
func NewEngine(tok *token.Tokenizer, o EngineOptions) *Engine {
	return &Engine{sglangtest.New(sglangtest.Options{
		Decode: tok.Decode, EOS: eos(tok), PerToken: o.PerToken, ExpertsEnabled: o.Experts,
		Policy: func(call sglangtest.Call) sglangtest.Output {
			return sglangtest.Output{IDs: tok.Encode(next(tok.Decode(call.Prompt), o.Misread)), Fault: fault(o.Edit)}
		},
	})}
}

func fault(edit func(map[string]any)) *sglangtest.Fault {
	if edit == nil {
		return nil
	}
	return &sglangtest.Fault{Edit: edit}
}

// An Engine is the double with what the policy sampled.
type Engine struct{ *sglangtest.Engine }

// Sampled returns the ids of all generations so far, in the order of their requests.
func (e *Engine) Sampled() [][]int32 {
	var all [][]int32
	for _, g := range e.Log() {
		all = append(all, g.Output)
	}
	return all
}

func eos(tok *token.Tokenizer) []int32 {
	var ids []int32
	for _, name := range []string{"<|im_end|>", "<|endoftext|>"} {
		if id, ok := tok.ID(name); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// wanted is how the failing test words what it wants.
var wanted = regexp.MustCompile(`want ([0-9a-f]{12}), got`)

// The commands of the fix, in order. Each is recognised in the history by its text.
const (
	look = "cat PROBLEM_STATEMENT.md && ls && cat token.sh"
	test = "sh run_tests.sh"
)

// next is what the policy says to a prompt: look, run the test, write what the
// test wants, run it again, stop.
func next(prompt string, misread bool) string {
	secret := ""
	if m := wanted.FindAllStringSubmatch(prompt, -1); m != nil {
		secret = m[len(m)-1][1]
	}
	if misread && secret != "" {
		secret = other(secret)
	}
	fix := "sed -i s/unknown/" + secret + "/ token.sh"
	if strings.Contains(prompt, "Answer with one shell command") {
		return fix
	}
	call := shellTool(prompt).call
	switch tests := strings.Count(prompt, `": "`+test+`"`); {
	case !strings.Contains(prompt, look):
		return think("First I read the task and look at what is there.") + call(look)
	case tests == 0:
		return think("Now the failing test.") + call(test)
	case secret == "":
		return "The test does not say which token it wants; I give up."
	case !strings.Contains(prompt, "sed -i"):
		return think("The test wants "+secret+": token.sh has to print that.") + call(fix+" && cat token.sh")
	case tests == 1:
		return think("Does the test pass now?") + call(test)
	}
	return think("It passes.") + "token.sh prints the token that the test wants."
}

// other is the token with another last character.
func other(secret string) string {
	if body, ok := strings.CutSuffix(secret, "0"); ok {
		return body + "1"
	}
	return secret[:len(secret)-1] + "0"
}

func think(s string) string { return "<think>\n" + s + "\n</think>\n\n" }

// A tool is how a client runs a command: the tool's name and its argument's.
type tool struct{ name, arg string }

// shellTool is the one that the client offers, as the prompt lists it.
func shellTool(prompt string) tool {
	for _, t := range []tool{{"Bash", "command"}, {"exec_command", "cmd"}} {
		if strings.Contains(prompt, `"name": "`+t.name+`"`) {
			return t
		}
	}
	return tool{"bash", "command"}
}

// call is a tool call in the Hermes format, with the spacing that the template
// gives it again in the history.
func (t tool) call(command string) string {
	var quoted strings.Builder
	enc := json.NewEncoder(&quoted)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(command) // strings always marshal
	return "<tool_call>\n{\"name\": \"" + t.name + "\", \"arguments\": {\"" + t.arg + "\": " + strings.TrimSpace(quoted.String()) + "}}\n</tool_call>"
}
