package token

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/internal/cases"
)

// sourceText returns n bytes of Go source, of the Go distribution's own.
func sourceText(t testing.TB, n int) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(goroot(t), "src", "net", "http", "*.go"))
	if err != nil || len(paths) == 0 {
		t.Skip("no Go sources here")
	}
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		data, err := os.ReadFile(paths[i%len(paths)])
		if err != nil {
			t.Fatal(err)
		}
		b.Write(data)
	}
	return valid(b.String()[:n])
}

// goroot returns the folder of the Go distribution.
func goroot(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skipf("go env GOROOT: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// BenchmarkEncode measures Encode on one core and, where the reference is in
// .cache, how many times faster than it that is: the best run of each.
func BenchmarkEncode(b *testing.B) {
	for _, name := range fullSize {
		tok := loadFull(b, name)
		for _, size := range []int{1 << 10, 100 << 10, 1 << 20} {
			text := sourceText(b, size)
			b.Run(fmt.Sprintf("%s/%dKB", name, size>>10), func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				var ids []int32
				best := time.Hour
				for b.Loop() {
					start := time.Now()
					ids = tok.AppendEncode(ids[:0], text)
					best = min(best, time.Since(start))
				}
				rate := float64(len(ids)) / best.Seconds()
				b.ReportMetric(rate/1e6, "Mtok/s")
				askReference(b, cachedJSON(b, name), []question{{Op: "bench", Text: text, Runs: 5}}, func(_ int, a answer) {
					b.ReportMetric(rate*a.Seconds/float64(len(a.IDs)), "×Rust")
				})
			})
		}
	}
}

// BenchmarkEncodeCold is BenchmarkEncode without the word cache.
func BenchmarkEncodeCold(b *testing.B) {
	for _, name := range fullSize {
		tok := loadFull(b, name)
		text := sourceText(b, 100<<10)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			var ids []int32
			for b.Loop() {
				b.StopTimer()
				*tok.cache = wordCache{}
				b.StartTimer()
				ids = tok.AppendEncode(ids[:0], text)
			}
			b.ReportMetric(float64(len(ids))*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mtok/s")
		})
	}
}

// BenchmarkEncoder measures one turn of a growing history: a context of so many
// tokens, and so many bytes more.
func BenchmarkEncoder(b *testing.B) {
	tok := loadFull(b, "qwen3")
	for _, context := range []int{10_000, 50_000, 100_000} {
		history := chatOf(b, tok, context)
		for _, delta := range []int{100, 1 << 10, 10 << 10, 30 << 10} {
			b.Run(fmt.Sprintf("context=%d/delta=%dB", context, delta), func(b *testing.B) {
				grown := history + "<|im_start|>user\n" + sourceText(b, delta) + "<|im_end|>\n<|im_start|>assistant\n"
				e := tok.NewEncoder()
				var ids []int32
				for b.Loop() {
					b.StopTimer()
					ids, _ = e.AppendEncode(ids[:0], history)
					b.StartTimer()
					ids, _ = e.AppendEncode(ids[:0], grown)
				}
				b.ReportMetric(float64(8*cap(e.ids)/2+16*cap(e.marks)+len(e.text))/1e6, "MB/session")
			})
		}
	}
}

// chatOf returns a chat of at least n tokens.
func chatOf(t testing.TB, tok *Tokenizer, n int) string {
	t.Helper()
	source := sourceText(t, 4*n)
	var b strings.Builder
	for tokens := 0; tokens < n && source != ""; {
		part := source[:min(2000, len(source))]
		source = source[len(part):]
		turn := "<|im_start|>user\n<tool_response>\n" + valid(part) + "\n</tool_response><|im_end|>\n<|im_start|>assistant\n<tool_call>\n{}\n</tool_call><|im_end|>\n"
		b.WriteString(turn)
		tokens += len(tok.Encode(turn))
	}
	return b.String()
}

func BenchmarkLoad(b *testing.B) {
	for _, name := range fullSize {
		dir := filepath.Dir(cachedJSON(b, name))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Load(dir); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestMemory measures what a loaded tokenizer holds, its word cache filled.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	text := sourceText(t, 4<<20)
	for _, name := range fullSize {
		cases.Cache(t, "tokenizers/"+name, "tokenizers")
		before := heap()
		tok := loadFull(t, name)
		loaded := heap() - before
		tok.Encode(text)
		warm := heap() - before
		t.Logf("figure: %s %.1f MB loaded, %.1f MB with its word cache in use", name, float64(loaded)/1e6, float64(warm)/1e6)
		if warm > 40e6 {
			t.Errorf("%s holds %d bytes, want at most 40 MB", name, warm)
		}
		runtime.KeepAlive(tok)
	}
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // the second empties what pools kept
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
