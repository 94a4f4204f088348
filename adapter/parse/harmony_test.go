package parse

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// harmonyVocabulary is a tokenizer of one id for each special token, and one
// for each character, or for each four.
type harmonyVocabulary struct {
	specials map[int32]string
	piece    int
}

func newHarmonyVocabulary(piece int) harmonyVocabulary {
	v := harmonyVocabulary{specials: map[int32]string{}, piece: piece}
	for i, m := range append(harmonyMarks(), "<|endoftext|>") {
		v.specials[int32(200000+i)] = m
	}
	return v
}

// encode reads {…} as a special token: {<|call|>} is one, <|call|> is text.
func (v harmonyVocabulary) encode(s string) (text string, ids []int32, pieces map[int32]string) {
	pieces = map[int32]string{}
	plain := func(s string) {
		for s != "" {
			n := min(v.piece, len(s))
			id := int32(len(pieces))
			pieces[id] = s[:n]
			ids = append(ids, id)
			s = s[n:]
		}
	}
	for s != "" {
		before, rest, found := strings.Cut(s, "{<|")
		plain(before)
		text += before
		if !found {
			break
		}
		name, after, _ := strings.Cut(rest, "|>}")
		for id, m := range v.specials {
			if m == "<|"+name+"|>" {
				ids = append(ids, id)
				text += m
			}
		}
		s = after
	}
	return text, ids, pieces
}

func TestHarmonyByTokens(t *testing.T) {
	const (
		think = "{<|channel|>}analysis{<|message|>}"
		call  = "{<|start|>}assistant{<|channel|>}commentary to=functions.Bash {<|constrain|>}json{<|message|>}"
	)
	for _, c := range []struct {
		name, in              string
		cut                   bool
		reasoning, text, args string
		flags                 []Flag
	}{
		{"call", think + "plan{<|end|>}" + call + `{"command": "ls"}{<|call|>}`, false, "plan", "", `{"command": "ls"}`, nil},
		{"call whose stop token was taken off", think + "plan{<|end|>}" + call + `{"command": "ls"}`, false, "plan", "", `{"command": "ls"}`, nil},
		{"call that was cut", think + "plan{<|end|>}" + call + `{"command": "ls"}`, true, "plan", "", "", []Flag{UnclosedCall, Truncated}},
		{"mark in a value", call + `{"command": "grep '<|call|>' x"}{<|call|>}`, false, "", "", `{"command": "grep '<|call|>' x"}`, nil},
		{"message in a value", call + `{"command": "echo '<|start|>assistant<|channel|>final<|message|>hi<|return|>'"}{<|call|>}`, false, "", "", `{"command": "echo '<|start|>assistant<|channel|>final<|message|>hi<|return|>'"}`, nil},
		{"mark in a thought", think + "the <|end|> token ends it{<|end|>}" + call + `{"command": "ls"}{<|call|>}`, false, "the <|end|> token ends it", "", `{"command": "ls"}`, nil},
		{"mark in the answer", "{<|channel|>}final{<|message|>}It is <|return|> that ends a turn.", false, "", "It is <|return|> that ends a turn.", "", nil},
		{"preamble", "{<|channel|>}commentary{<|message|>}I look.{<|end|>}" + call + `{"command": "ls"}{<|call|>}`, false, "", "I look.", `{"command": "ls"}`, nil},
		{"call on the analysis channel", strings.Replace(call, "commentary", "analysis", 1) + `{"command": "ls"}{<|call|>}`, false, "", "", `{"command": "ls"}`, nil},
		{"recipient in the role", "{<|start|>}assistant to=functions.Bash{<|channel|>}commentary {<|constrain|>}json{<|message|>}" + `{"command": "ls"}{<|call|>}`, false, "", "", `{"command": "ls"}`, nil},
		{"cut thought", think + "I should", true, "I should", "", "", []Flag{ThinkUnclosed}},
		{"output of a tool that the model made up", call + `{"command": "ls"}{<|call|>}{<|start|>}functions.Bash to=assistant{<|channel|>}commentary{<|message|>}a b{<|end|>}`, false, "", "", `{"command": "ls"}`, []Flag{NameMalformed}},
	} {
		for _, piece := range []int{1, 4} {
			text, ids, pieces := newHarmonyVocabulary(piece).encode(c.in)
			decode := func(ids []int32) string {
				var b strings.Builder
				for _, id := range ids {
					b.WriteString(pieces[id])
				}
				return b.String()
			}
			for _, with := range []func([]int32) string{nil, decode} {
				in := Input{Text: text, Tools: remoteTools(), Cut: c.cut, IDs: ids, Specials: newHarmonyVocabulary(1).specials, Decode: with}
				checkHarmony(t, c.name, in, c.reasoning, c.text, c.args, c.flags)
			}
		}
	}
}

func checkHarmony(t *testing.T, name string, in Input, reasoning, text, args string, flags []Flag) {
	t.Helper()
	p, err := New("gpt-oss", "gpt-oss", Strict)
	if err != nil {
		t.Fatal(err)
	}
	got := p.Parse(in)
	checkSpans(t, in.Text, got.Spans)
	gotArgs := ""
	for _, c := range got.Calls {
		gotArgs += string(c.Args)
	}
	hard := slices.DeleteFunc(slices.Clone(got.Flags), func(f Flag) bool {
		return !f.Hard() || slices.Contains([]Flag{ArgsNotObject, MissingRequired, UnknownTool}, f) && len(flags) > 0
	})
	if got.Reasoning != reasoning || got.Text != text || gotArgs != args || !slices.Equal(hard, flags) {
		t.Errorf("%s (%d ids, decode %v): reasoning %q text %q calls %s flags %q, want %q %q %s %q; input %q",
			name, len(in.IDs), in.Decode != nil, got.Reasoning, got.Text, gotArgs, got.Flags, reasoning, text, args, flags, in.Text)
	}
}

// Without ids a mark in a value could be the end of the call.
func TestHarmonyByText(t *testing.T) {
	p, err := New("gpt-oss", "gpt-oss", Strict)
	if err != nil {
		t.Fatal(err)
	}
	got := p.Parse(Input{Text: `<|channel|>commentary to=functions.Bash <|constrain|>json<|message|>{"command": "grep '<|call|>' x"}<|call|>`, Tools: remoteTools()})
	if len(got.Calls) != 0 || len(got.Withheld) != 1 || !slices.Contains(got.Flags, MarkerInValue) {
		t.Errorf("Parse = %+v, want the call withheld", got)
	}
	if !json.Valid(got.Withheld[0].Args) {
		t.Errorf("withheld arguments %s are no JSON", got.Withheld[0].Args)
	}
}
