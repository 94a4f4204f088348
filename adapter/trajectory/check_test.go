package trajectory_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// richSegments are of a session that has everything: the first segment has a
// cut turn, an aborted one, mixed weights and a tool call; the second forks off it.
func richSegments(t testing.TB) []trajectory.Segment {
	p := newPlayer(t, trajectory.Options{})
	v := func(spans ...trajectory.Span) []trajectory.Span { return spans }
	h := p.ask(start, reply{think: "hm", text: "one", calls: bash(`{"command":"ls"}`), versions: v(trajectory.Span{From: 0, To: 2, Version: "1"}, trajectory.Span{From: 2, To: 7, Version: "2"})})
	h = p.ask(plus(h, tool("files")), reply{text: "half a", finish: chat.FinishAbort, versions: v(trajectory.Span{From: 0, To: 2, Version: "2"})})
	h = p.ask(plus(h, user("go on")), reply{text: "two re-runs", illFormed: true, versions: v(trajectory.Span{From: 0, To: 3, Version: "3"})})
	p.ask(plus(h, user("left")), reply{text: "the end", finish: chat.FinishLength, versions: v(trajectory.Span{From: 0, To: 2, Version: "3"})})
	p.ask(plus(h, user("right")), reply{text: "other end", versions: v(trajectory.Span{From: 0, To: 3, Version: "3"})})
	segments := p.segments(0)
	if err := trajectory.CheckSegments(segments); err != nil || len(segments) != 2 {
		t.Fatalf("%d segments: %v", len(segments), err)
	}
	return segments
}

// copyOf returns a segment that shares nothing with s, by way of its JSON.
func copyOf(t testing.TB, s trajectory.Segment) trajectory.Segment {
	t.Helper()
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var c trajectory.Segment
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

type segment = trajectory.Segment

// corruptions each break one invariant of the first segment of richSegments
// and sign it anew.
var corruptions = []struct {
	name    string
	corrupt func(*segment)
	want    trajectory.Reason
}{
	{"no tokens", func(s *segment) { s.Tokens = nil }, trajectory.ReasonShape},
	{"no turns", func(s *segment) { s.Turns = nil }, trajectory.ReasonShape},
	{"unknown policy", func(s *segment) { s.Policy = "other" }, trajectory.ReasonShape},
	{"unknown label", func(s *segment) { s.Label = "other" }, trajectory.ReasonShape},
	{"unknown finish", func(s *segment) { s.Turns[0].Finish = "tool_calls" }, trajectory.ReasonShape},
	{"a token more", func(s *segment) { s.Tokens = append(s.Tokens, 7) }, trajectory.ReasonLength},
	{"a token less", func(s *segment) { s.Tokens = s.Tokens[:len(s.Tokens)-1] }, trajectory.ReasonLength},
	{"a mask value less", func(s *segment) { s.LossMask = s.LossMask[1:] }, trajectory.ReasonLength},
	{"a logprob less", func(s *segment) { s.LogProbs = s.LogProbs[1:] }, trajectory.ReasonLength},
	{"a longer first prompt", func(s *segment) { s.PromptLen++; s.LossMask, s.LogProbs = s.LossMask[1:], s.LogProbs[1:] }, trajectory.ReasonLength},
	{"a shorter first prompt", func(s *segment) {
		s.PromptLen--
		s.LossMask, s.LogProbs = append([]int8{0}, s.LossMask...), append([]float32{0}, s.LogProbs...)
	}, trajectory.ReasonLength},
	{"a negative id", func(s *segment) { s.Tokens[3] = -1 }, trajectory.ReasonToken},
	{"a turn twice", func(s *segment) { s.Turns[1].ID = s.Turns[0].ID }, trajectory.ReasonTurns},
	{"turns swapped", func(s *segment) { s.Turns[1], s.Turns[2] = s.Turns[2], s.Turns[1] }, trajectory.ReasonTurns},
	{"a turn left out at the end", func(s *segment) { s.Turns = s.Turns[:3] }, trajectory.ReasonTurns},
	{"an output that overlaps the next prompt's end", func(s *segment) { s.Turns[0].Output += 40 }, trajectory.ReasonTurns},
	{"a negative output", func(s *segment) { s.Turns[0].Output = -1 }, trajectory.ReasonTurns},
	{"a mask of 2", func(s *segment) { s.LossMask[0] = 2 }, trajectory.ReasonMask},
	{"a sampled token masked out", func(s *segment) { s.LossMask[0] = 0 }, trajectory.ReasonOwner},
	{"an output longer than it was", func(s *segment) { s.Turns[0].Output++ }, trajectory.ReasonOwner},
	{"an owner that is none", func(s *segment) { s.Turns[0].Owned = false }, trajectory.ReasonOwner},
	{"an aborted output trained", func(s *segment) { s.LossMask[s.Turns[1].Prompt-s.PromptLen] = 1 }, trajectory.ReasonOwner},
	{"a prompt token trained", func(s *segment) { s.LossMask[s.Turns[1].Prompt-s.PromptLen-1] = 1 }, trajectory.ReasonUnsampled},
	{"a trained turn left out", func(s *segment) { s.Turns = slices.Delete(s.Turns, 2, 3) }, trajectory.ReasonUnsampled},
	{"a wrong count of owned", func(s *segment) { s.Owned++ }, trajectory.ReasonCounts},
	{"a wrong count of shared", func(s *segment) { s.Shared-- }, trajectory.ReasonCounts},
	{"no logprob", func(s *segment) { s.LogProbs[0] = float32(math.NaN()) }, trajectory.ReasonLogProb},
	{"an infinite logprob", func(s *segment) { s.LogProbs[0] = float32(math.Inf(-1)) }, trajectory.ReasonLogProb},
	{"a positive logprob", func(s *segment) { s.LogProbs[0] = 0.01 }, trajectory.ReasonLogProb},
	{"an engine's error value", func(s *segment) { s.LogProbs[0] = -9999 }, trajectory.ReasonSentinel},
	{"no logprobs given", func(s *segment) { s.Turns[0].NoLogProbs = true }, trajectory.ReasonNoLogProb},
	{"a logprob of a prompt token", func(s *segment) { s.LogProbs[s.Turns[1].Prompt-s.PromptLen-1] = -1 }, trajectory.ReasonStrayLogProb},
	{"another token in the first prompt", func(s *segment) { s.Tokens[0]++ }, trajectory.ReasonPrompt},
	{"another token between turns", func(s *segment) { s.Tokens[s.Turns[1].Prompt-1]++ }, trajectory.ReasonPrompt},
	{"another token in an output", func(s *segment) { s.Tokens[s.Turns[0].Prompt]++ }, trajectory.ReasonPrompt},
	{"another token in the last output", func(s *segment) { s.Tokens[len(s.Tokens)-1]++ }, trajectory.ReasonOutput},
	{"another logprob", func(s *segment) { s.LogProbs[0] -= 0.5 }, trajectory.ReasonOutput},
	{"two logprobs swapped", func(s *segment) { s.LogProbs[0], s.LogProbs[1] = s.LogProbs[1], s.LogProbs[0] }, trajectory.ReasonOutput},
	{"another weight version", func(s *segment) { s.Versions[0].Version = "9" }, trajectory.ReasonOutput},
	{"a span moved", func(s *segment) { s.Versions[0].To++; s.Versions[1].From++ }, trajectory.ReasonOutput},
	{"a span that leaves the output", func(s *segment) { s.Versions[1].To++ }, trajectory.ReasonOutput},
	{"a span in a prompt", func(s *segment) {
		s.Versions = slices.Insert(s.Versions, 0, trajectory.Span{From: 0, To: 2, Version: "1"})
	}, trajectory.ReasonVersions},
	{"a span twice", func(s *segment) { s.Versions = append(s.Versions, s.Versions[len(s.Versions)-1]) }, trajectory.ReasonOutput},
	{"spans out of order", func(s *segment) { s.Versions[2], s.Versions[3] = s.Versions[3], s.Versions[2] }, trajectory.ReasonVersions},
	{"a hidden abort", func(s *segment) {
		s.Flags = slices.DeleteFunc(s.Flags, func(f string) bool { return f == trajectory.FlagAborted })
	}, trajectory.ReasonAbort},
	{"an abort trained", func(s *segment) { s.Turns[0].Finish = chat.FinishAbort }, trajectory.ReasonAbort},
	{"a cut that is none", func(s *segment) { s.Truncated = false }, trajectory.ReasonFlags},
	{"a last turn that ended", func(s *segment) { s.Turns[3].Finish = chat.FinishStop }, trajectory.ReasonFlags},
	{"no tool used", func(s *segment) { s.UseTool = false }, trajectory.ReasonFlags},
	{"well-formed", func(s *segment) { s.IllFormed = false }, trajectory.ReasonFlags},
	{"a flag less", func(s *segment) { s.Flags = s.Flags[1:] }, trajectory.ReasonFlags},
	{"turns cut off unsaid", func(s *segment) { s.CutTurns = 1 }, trajectory.ReasonFlags},
	{"an index out of range", func(s *segment) { s.Index = s.Count }, trajectory.ReasonPlace},
	{"a parent that comes later", func(s *segment) { s.Parent = 1 }, trajectory.ReasonPlace},
	{"a branch point without a parent", func(s *segment) { s.Branch = 3 }, trajectory.ReasonPlace},
	{"a reason to split the first", func(s *segment) { s.Split = &trajectory.Split{} }, trajectory.ReasonPlace},
	{"a weight above 1", func(s *segment) { s.Weight = 1.5 }, trajectory.ReasonPlace},
	{"a weight that is no number", func(s *segment) { s.Weight = math.NaN() }, trajectory.ReasonPlace},
	{"a weight though untrained", func(s *segment) { s.Untrained = "sidecall" }, trajectory.ReasonPlace},
}

func TestCheckSegmentCatches(t *testing.T) {
	good := richSegments(t)[0]
	for _, c := range corruptions {
		t.Run(c.name, func(t *testing.T) {
			s := copyOf(t, good)
			c.corrupt(&s)
			if err := trajectory.CheckSegment(s); err == nil {
				t.Error("CheckSegment: nil")
			}
			trajectory.Reseal(&s)
			err := trajectory.CheckSegment(s)
			var broken *trajectory.CheckError
			if !errors.As(err, &broken) || broken.Reason != c.want {
				t.Errorf("CheckSegment, signed anew: %v, want %s", err, c.want)
			}
		})
	}
	t.Logf("figure: %d kinds of corruption caught, each even when signed anew", len(corruptions))
}

func TestCheckSegmentsCatchesTwoOwners(t *testing.T) {
	s := richSegments(t)
	two := []segment{s[0], copyOf(t, s[0])}
	two[1].Index, two[1].Parent, two[1].Split, two[1].Weight = 1, 0, &trajectory.Split{}, 0
	trajectory.Reseal(&two[1])
	var broken *trajectory.CheckError
	if err := trajectory.CheckSegments(two); !errors.As(err, &broken) || broken.Reason != trajectory.ReasonTwice {
		t.Errorf("CheckSegments of one turn trained twice: %v, want %s", err, trajectory.ReasonTwice)
	}
	if err := trajectory.CheckSegments(s[:1]); err == nil {
		t.Error("CheckSegments of a part: nil")
	}
}

// survivors are changes of the exported JSON that no check finds, by the path
// of the value, with the reason why that is right.
var survivors = map[string]string{
	"text": "decoded from the tokens for people, filled in after the proof is made; nothing is trained on it",
}

// signedSurvivors survive only where someone signs the segment anew. None of
// them touches tokens, mask, logprobs or versions.
var signedSurvivors = map[string]string{
	"text":                  survivors["text"],
	"count":                 "known from the other segments: CheckSegments",
	"weight":                "known from the other segments: CheckSegments",
	"branch":                "where it came from, for people",
	"split.cause":           "why it was split, for people",
	"split.turn":            "why it was split, for people",
	"split.after":           "why it was split, for people",
	"split.message":         "why it was split, for people",
	"split.field":           "why it was split, for people",
	"split.token":           "why it was split, for people",
	"turns.*.id":            "a name; the hashes beside it say what it names",
	"turns.*.output_hash":   "of a turn that is not trained here",
	"turns.*.cached_tokens": "a metric",
	"versions":              "of a turn that is not trained here",
	"versions.*.version":    "of a turn that is not trained here",
	"turns.*.start":         "a metric",
	"turns.*.end":           "a metric",
}

// TestCheckSegmentCatchesChangedJSON changes single values of exported
// segments at random: every kind of value, at every place.
func TestCheckSegmentCatchesChangedJSON(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	rng := rand.New(rand.NewPCG(1, 2))
	caught, survived, signed := map[string]int{}, map[string]int{}, map[string]int{}
	const changes = 3000
	segments := richSegments(t)
	for range changes {
		was := copyOf(t, segments[rng.IntN(len(segments))])
		was.Text = "decoded"
		original, err := json.Marshal(was)
		if err != nil {
			t.Fatal(err)
		}
		changed, path := changeOne(t, original, rng)
		var s segment
		if json.Unmarshal(changed, &s) != nil {
			caught[path]++
			continue
		}
		ok := trajectory.CheckSegment(s) == nil
		trajectory.Reseal(&s)
		okSigned := path != "digest" && trajectory.CheckSegment(s) == nil
		if !ok && !okSigned {
			caught[path]++
			continue
		}
		s.Digest = was.Digest
		if cmp.Equal(s, was) { // a value that reads as the same is no change
			continue
		}
		if ok {
			survived[path]++
		} else {
			caught[path]++
		}
		if okSigned {
			signed[path]++
		}
	}
	for path, n := range survived {
		if survivors[path] == "" {
			t.Errorf("%d changes of %s survive", n, path)
		}
	}
	for path, n := range signed {
		if signedSurvivors[path] == "" {
			t.Errorf("%d changes of %s survive when signed anew", n, path)
		}
	}
	t.Logf("figure: %d random changes of exported JSON at %d kinds of place; survivors: %s", changes, len(caught)+len(survived), why(survived, survivors))
	t.Logf("figure: survivors when signed anew: %s", why(signed, signedSurvivors))
}

func why(survived map[string]int, argued map[string]string) string {
	var out []string
	for _, path := range slices.Sorted(maps.Keys(survived)) {
		out = append(out, fmt.Sprintf("%s (%s)", path, argued[path]))
	}
	return strings.Join(out, ", ")
}

var index = regexp.MustCompile(`\.\d+`)

// changeOne changes one value of a JSON text and returns its path, without
// the places in arrays.
func changeOne(t *testing.T, text []byte, rng *rand.Rand) ([]byte, string) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	path := ""
	out, err := json.Marshal(change(v, rng, &path))
	if err != nil {
		t.Fatal(err)
	}
	return out, strings.TrimPrefix(index.ReplaceAllString(path, ".*"), ".")
}

// change walks down at random and changes what it ends at.
func change(v any, rng *rand.Rand, path *string) any {
	switch v := v.(type) {
	case map[string]any:
		keys := slices.Sorted(maps.Keys(v))
		k := keys[rng.IntN(len(keys))]
		*path += "." + k
		v[k] = change(v[k], rng, path)
		return v
	case []any:
		if len(v) == 0 {
			return []any{json.Number("1")}
		}
		i := rng.IntN(len(v))
		switch rng.IntN(8) {
		case 0:
			return slices.Delete(v, i, i+1)
		case 1:
			return slices.Insert(v, i, v[i])
		}
		*path += fmt.Sprintf(".%d", i)
		v[i] = change(v[i], rng, path)
		return v
	case json.Number:
		return changeNumber(v, rng)
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return at.Add(time.Second).Format(time.RFC3339Nano)
		}
		return v + "0"
	case bool:
		return !v
	default:
		return json.Number("1")
	}
}

func changeNumber(n json.Number, rng *rand.Rand) json.Number {
	if i, err := n.Int64(); err == nil {
		return json.Number(fmt.Sprint(i + []int64{-1, 1, 1000}[rng.IntN(3)]))
	}
	f, _ := n.Float64()
	return json.Number(fmt.Sprint(f * []float64{0.5, 1.001, -1}[rng.IntN(3)]))
}

// FuzzCheckSegment reads segments from anywhere: no input may crash the check,
// and what passes says of itself that it is whole.
func FuzzCheckSegment(f *testing.F) {
	for _, s := range richSegments(f) {
		text, err := json.Marshal(s)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"policy":"exact","tokens":[1],"prompt_len":1,"turns":[{"id":"a","finish":"stop","prompt_tokens":9223372036854775807,"output_tokens":1}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var s segment
		if json.Unmarshal(text, &s) != nil {
			return
		}
		for range 2 {
			if err := trajectory.CheckSegment(s); err == nil && len(s.LossMask) != s.ResponseLength() {
				t.Errorf("CheckSegment passes %s", text)
			}
			trajectory.Reseal(&s)
		}
	})
}
