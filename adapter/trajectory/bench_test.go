package trajectory_test

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// A script is a session that grows evenly: half of what a turn adds is
// sampled, and a token has four bytes of text, about what code has.
type script struct {
	history  []chat.Message
	echoes   []chat.Message
	outputs  [][]int32
	prompts  [][]int32 // prepared: an engine needs them whole, a tree does not
	logProbs []float32
}

func newScript(turns, tokens int) script {
	half := tokens / turns / 2
	s := script{logProbs: make([]float32, half)}
	for i := range s.logProbs {
		s.logProbs[i] = -0.5
	}
	text := func(i int) string { return fmt.Sprintf("%0*d", 4*half, i) }
	var all []int32
	for i := range turns {
		var out, in []int32
		for j := range half {
			out, in = append(out, int32(i+j)), append(in, int32(i+2*j))
		}
		all = append(all, in...)
		s.outputs, s.prompts = append(s.outputs, out), append(s.prompts, all[:len(all):len(all)])
		all = append(all, out...)
		s.echoes = append(s.echoes, chat.Message{Role: chat.Assistant, Content: text(2 * i), ToolCalls: bash(fmt.Sprintf(`{"command":"ls %d"}`, i))})
		s.history = append(s.history, chat.Message{Role: chat.User, Content: text(2*i + 1)}, s.echoes[i])
	}
	return s
}

// turn plays turn i as the adapter does.
func (s script) turn(tree *trajectory.Tree, i int) error {
	prompt := s.history[:2*i+1]
	if c := tree.Continue(prompt, nil); i > 0 && c.From != 2*i {
		return fmt.Errorf("turn %d continues at message %d", i, c.From)
	}
	return tree.Record(trajectory.Turn{Prompt: prompt, Echo: s.echoes[i], PromptIDs: s.prompts[i], OutputIDs: s.outputs[i], LogProbs: s.logProbs, Finish: chat.FinishStop})
}

func (s script) play(b *testing.B) *trajectory.Tree {
	tree := trajectory.New(trajectory.Options{})
	for i := range s.echoes {
		if err := s.turn(tree, i); err != nil {
			b.Fatal(err)
		}
	}
	return tree
}

// BenchmarkSession continues, records and exports sessions of 100 turns. Each
// turn compares the history that came with the one that is kept, and nothing
// else that grows with it.
func BenchmarkSession(b *testing.B) {
	for _, tokens := range []int{10_000, 50_000, 100_000} {
		s := newScript(100, tokens)
		b.Run(fmt.Sprintf("tokens=%d", tokens), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if segments, err := s.play(b).Segments(0); err != nil || len(segments) != 1 || segments[0].Untrained != "" {
					b.Fatal(segments, err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/100, "ns/turn")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tokens), "ns/token")
		})
	}
}

// BenchmarkExport exports and checks a session of 100 turns.
func BenchmarkExport(b *testing.B) {
	for _, tokens := range []int{10_000, 50_000, 100_000} {
		tree := newScript(100, tokens).play(b)
		b.Run(fmt.Sprintf("tokens=%d", tokens), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tree.Segments(0); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(tokens), "ns/token")
		})
	}
}

// BenchmarkAlive measures what a session holds, for turns that share one
// context of 100k tokens, and for a thousand sessions at once.
func BenchmarkAlive(b *testing.B) {
	for _, c := range []struct{ turns, sessions int }{{10, 10}, {100, 10}, {1000, 10}, {100, 1000}} {
		s := newScript(c.turns, 100_000)
		b.Run(fmt.Sprintf("turns=%d/sessions=%d", c.turns, c.sessions), func(b *testing.B) {
			for b.Loop() {
				trees := make([]*trajectory.Tree, c.sessions)
				before := heap()
				for i := range trees {
					trees[i] = s.play(b)
				}
				held := float64(heap()-before) / float64(c.sessions)
				b.ReportMetric(held, "B/session")
				b.ReportMetric(held/100_000, "B/token")
				runtime.KeepAlive(trees)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
