// Command prooflog compares exported segments with an engine's own log of the
// bytes that it received and sent. It shares no code with what made the
// segments: of them it knows the JSON alone.
//
//	prooflog LOG SEGMENTS
//
// LOG has a line {"request": …, "response": …} for each call of /generate, as
// they were on the wire; SEGMENTS is a JSON list.
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
)

// An entry is one call of the engine.
type entry struct {
	Request struct {
		InputIDs []int32 `json:"input_ids"`
	} `json:"request"`
	Response struct {
		OutputIDs []int32 `json:"output_ids"`
		Meta      struct {
			Finish struct {
				Type string `json:"type"`
			} `json:"finish_reason"`
			LogProbs [][]any `json:"output_token_logprobs"`
			Version  string  `json:"weight_version"`
		} `json:"meta_info"`
	} `json:"response"`
}

// A turn is one answer, over all calls that it took.
type turn struct {
	prompt, output []int32
	logProbs       []float32
	versions       []string // of each token
	calls          int
	finish         string
	owners         int
	side           bool // a side call: served, not trained
}

type segment struct {
	Tokens   []int32   `json:"tokens"`
	Mask     []int8    `json:"loss_mask"`
	LogProbs []float32 `json:"log_probs"`
	Turns    []struct {
		ID     string `json:"id"`
		Kind   string `json:"kind"`
		Prompt int    `json:"prompt_tokens"`
		Output int    `json:"output_tokens"`
		Hash   string `json:"prompt_hash"`
		Owned  bool   `json:"owned"`
		Finish string `json:"finish"`
	} `json:"turns"`
	Versions []struct {
		From    int    `json:"from"`
		To      int    `json:"to"`
		Version string `json:"version"`
	} `json:"versions"`
	Untrained string `json:"untrained"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "prooflog:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: prooflog LOG SEGMENTS")
	}
	turns, calls, err := readLog(args[0])
	if err != nil {
		return err
	}
	data, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	var segments []segment
	if err := json.Unmarshal(data, &segments); err != nil {
		return err
	}
	proofs := 0
	for i := range segments {
		if err := compare(&segments[i], turns); err != nil {
			return fmt.Errorf("segment %d: %w", i, err)
		}
		proofs += len(segments[i].Turns)
	}
	unused, tokens, err := settle(turns)
	if err != nil {
		return err
	}
	fmt.Printf("%d calls of the engine, %d turns, %d segments, %d proofs agree; %d sampled tokens trained once, %d turns superseded\n",
		calls, len(turns), len(segments), proofs, tokens, unused)
	return nil
}

// readLog joins the calls of each turn: one that the engine aborted goes on in
// the call that was given its prompt and output.
func readLog(name string) ([]*turn, int, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	var turns []*turn
	calls := 0
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, 0, err
		}
		calls++
		t := continued(turns, e.Request.InputIDs)
		if t == nil {
			t = &turn{prompt: e.Request.InputIDs}
			turns = append(turns, t)
		}
		t.calls++
		t.finish = e.Response.Meta.Finish.Type
		for i, id := range e.Response.OutputIDs {
			t.output = append(t.output, id)
			t.logProbs = append(t.logProbs, float32(e.Response.Meta.LogProbs[i][0].(float64)))
			t.versions = append(t.versions, e.Response.Meta.Version)
		}
	}
	return turns, calls, lines.Err()
}

func continued(turns []*turn, input []int32) *turn {
	for _, t := range turns {
		if t.finish == "abort" && slices.Equal(slices.Concat(t.prompt, t.output), input) {
			return t
		}
	}
	return nil
}

// compare finds each turn of s in the log.
func compare(s *segment, turns []*turn) error {
	first := s.Turns[0].Prompt
	if len(s.Mask) != len(s.Tokens)-first || len(s.LogProbs) != len(s.Mask) {
		return fmt.Errorf("%d tokens, first prompt %d, %d mask values, %d logprobs", len(s.Tokens), first, len(s.Mask), len(s.LogProbs))
	}
	trained := 0
	for _, st := range s.Turns {
		prompt, output := s.Tokens[:st.Prompt], s.Tokens[st.Prompt:st.Prompt+st.Output]
		at := slices.IndexFunc(turns, func(t *turn) bool {
			return (t.owners == 0 || !st.Owned) && slices.Equal(t.prompt, prompt) && slices.Equal(t.output, output)
		})
		if at < 0 {
			return fmt.Errorf("turn %s is not in the engine's log", st.ID)
		}
		t := turns[at]
		if hash(prompt) != st.Hash {
			return fmt.Errorf("turn %s: the prompt's hash is %s, the proof says %s", st.ID, hash(prompt), st.Hash)
		}
		if t.finish != st.Finish {
			return fmt.Errorf("turn %s: finish %q, the engine said %q", st.ID, st.Finish, t.finish)
		}
		if !st.Owned {
			t.side = st.Kind == "sidecall"
			continue
		}
		t.owners++
		trained += st.Output
		from := st.Prompt - first
		if slices.Contains(s.Mask[from:from+st.Output], 0) {
			return fmt.Errorf("turn %s is masked out", st.ID)
		}
		if !slices.Equal(s.LogProbs[from:from+st.Output], t.logProbs) {
			return fmt.Errorf("turn %s: other logprobs than the engine's", st.ID)
		}
		for i, want := range t.versions {
			if got := versionAt(s, st.Prompt+i); got != want {
				return fmt.Errorf("turn %s: token %d of version %q, the engine said %q", st.ID, i, got, want)
			}
		}
	}
	for _, m := range s.Mask {
		trained -= int(m)
	}
	if trained != 0 {
		return errors.New("tokens are trained that are no turn's")
	}
	return nil
}

func versionAt(s *segment, token int) string {
	for _, span := range s.Versions {
		if token >= span.From && token < span.To {
			return span.Version
		}
	}
	return ""
}

// settle verifies that each turn is trained once, but for side calls and those
// that the client asked for again and went on without.
func settle(turns []*turn) (superseded, tokens int, err error) {
	for i, t := range turns {
		again := slices.ContainsFunc(turns[i+1:], func(o *turn) bool { return slices.Equal(o.prompt, t.prompt) })
		used := slices.ContainsFunc(turns, func(o *turn) bool {
			n := len(t.prompt) + len(t.output)
			return len(o.prompt) > n && slices.Equal(o.prompt[:n], slices.Concat(t.prompt, t.output))
		})
		switch {
		case t.owners == 1:
			tokens += len(t.output)
		case t.owners == 0 && t.side:
		case t.owners == 0 && again && !used:
			superseded++
		default:
			return 0, 0, fmt.Errorf("turn %d of the log is trained %d times", i, t.owners)
		}
	}
	return superseded, tokens, nil
}

func hash(ids []int32) string {
	var b []byte
	for _, id := range ids {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
