package sglang

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

// fresh is the body of req written without anything known.
func fresh(t testing.TB, req Request) []byte {
	t.Helper()
	req.Known, req.Text = nil, nil
	parts, err := encode("rid", req)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Join(parts, nil)
}

// randomIDs makes ids of every number of digits.
func randomIDs(rng *rand.Rand, n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = rng.Int32N([]int32{10, 1000, 200_000, 1 << 30}[rng.IntN(4)])
	}
	return ids
}

// TestKnownTextIsTheFreshEncoding plays conversations that grow, fork, take
// turns and go back, and compares each body with one written anew.
func TestKnownTextIsTheFreshEncoding(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var text Text
		talks := make([][]int32, 1+rng.IntN(4))
		for range 30 {
			at := rng.IntN(len(talks))
			switch rng.IntN(6) {
			case 0:
				talks[at] = slices.Clone(talks[at][:rng.IntN(len(talks[at])+1)]) // a compaction, or an answer that was not used
			case 1:
				talks[at] = slices.Clone(talks[rng.IntN(len(talks))])
			}
			known := talks[at]
			ids := slices.Concat(known, randomIDs(rng, rng.IntN(40)))
			req := Request{InputIDs: ids, Known: known, Text: &text, Sampling: map[string]any{"top_p": 0.5}}
			if rng.IntN(10) == 0 {
				req.Known = randomIDs(rng, 3) // not what the ids begin with
			}
			parts, err := encode("rid", req)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := bytes.Join(parts, nil), fresh(t, req); !bytes.Equal(got, want) {
				t.Fatalf("body %s\nwant %s", got, want)
			}
			talks[at] = ids
		}
	}
}

// TestKnownTextUnderConcurrency encodes two conversations at once while earlier
// bodies are still being read.
func TestKnownTextUnderConcurrency(t *testing.T) {
	var text Text
	var wg sync.WaitGroup
	for talk := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(talk%2), 7)) // two are alike
			var known []int32
			for range 50 {
				ids := slices.Concat(known, randomIDs(rng, 100))
				req := Request{InputIDs: ids, Known: known, Text: &text}
				parts, err := encode("rid", req)
				if err != nil {
					t.Error(err)
					return
				}
				runtime.Gosched()
				if got, _ := io.ReadAll(parts.reader()); !bytes.Equal(got, fresh(t, req)) {
					t.Error("the body is not the fresh encoding")
				}
				known = ids
			}
		})
	}
	wg.Wait()
}

// TestBodyCanBeSentAgain as the transport does when a kept connection turns out
// to be closed.
func TestBodyCanBeSentAgain(t *testing.T) {
	parts, err := encode("rid", Request{InputIDs: []int32{1, 2, 3}, Known: []int32{1, 2}, Text: new(Text)})
	if err != nil {
		t.Fatal(err)
	}
	r, _ := http.NewRequest(http.MethodPost, "http://h/", nil)
	parts.of(r)
	first, _ := io.ReadAll(r.Body)
	again, err := r.GetBody()
	if err != nil {
		t.Fatal(err)
	}
	second, _ := io.ReadAll(again)
	if !bytes.Equal(first, second) || int64(len(first)) != r.ContentLength || !json.Valid(first) {
		t.Errorf("bodies %s and %s, length %d", first, second, r.ContentLength)
	}
}

// TestKnownTextIsBounded asks for many conversations: two are kept.
func TestKnownTextIsBounded(t *testing.T) {
	var text Text
	rng := rand.New(rand.NewPCG(1, 2))
	const n = 10_000
	for range 20 {
		text.of(randomIDs(rng, n))
	}
	held := 0
	for _, l := range text.lines {
		held += cap(l.text)
	}
	if held > len(text.lines)*n*12 {
		t.Errorf("%d bytes are held for two conversations of %d ids", held, n)
	}
}

// BenchmarkRequestBody writes the body of a turn that adds 500 ids to what is
// known, the same without anything known, and both against encoding/json in the
// same run.
func BenchmarkRequestBody(b *testing.B) {
	for _, n := range []int{10_000, 50_000, 100_000} {
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32(i * 7919 % 151_000)
		}
		request := map[string]any{"input_ids": ids, "rid": "rid", "return_logprob": true, "stream": false, "sampling_params": map[string]any{}}
		for name, req := range map[string]Request{
			"known": {InputIDs: ids, Known: ids[:n-500], Text: new(Text)},
			"anew":  {InputIDs: ids},
		} {
			b.Run(fmt.Sprint(n, "/", name), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := encode("rid", req); err != nil {
						b.Fatal(err)
					}
				}
				ours := b.Elapsed() / time.Duration(b.N)
				began := time.Now()
				for range 20 {
					if _, err := json.Marshal(request); err != nil {
						b.Fatal(err)
					}
				}
				theirs := time.Since(began) / 20
				b.ReportMetric(float64(theirs), "ns-encoding/json")
				b.ReportMetric(float64(theirs)/float64(ours), "x-faster")
				if req.Text != nil {
					b.ReportMetric(float64(cap(req.Text.lines[0].text)), "B-kept")
				}
			})
		}
	}
}
