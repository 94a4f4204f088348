package agentrl_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/openai"
	"github.com/agentrl-go/agentrl/adapter/parse"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
	"github.com/agentrl-go/agentrl/adapter/template"
	"github.com/agentrl-go/agentrl/adapter/token"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/internal/memhttp"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
	"github.com/agentrl-go/agentrl/swe/swetest"
)

// recorded runs one rollout of three turns with a tool call each over the real
// adapter, and returns its recording and its samples as JSON.
func recorded(t *testing.T) (*agentrl.Recording, string) {
	t.Helper()
	tok := must(token.Load(checkpoint))(t)
	n := 0
	engine := sglangtest.New(sglangtest.Options{EOS: tok.Encode("<|im_end|>"), Policy: func(sglangtest.Call) sglangtest.Output {
		n++
		text := "<think>\nI look.\n</think>\n\n<tool_call>\n{\"name\": \"bash\",   \"arguments\": {\"command\": \"ls\"}}\n</tool_call><|im_end|>"
		if n == 3 {
			text = "Done.<|im_end|>"
		}
		return sglangtest.Output{IDs: tok.Encode(text)}
	}})
	net := memhttp.New()
	mux := &adapter.Mux{}
	dir := t.TempDir()
	rec := agentrl.NewRecorder(dir)
	server := must(adapter.New(rec.Adapter(adapter.Options{
		Engine: must(sglang.New(net.Handle("engine", engine), sglang.Options{HTTP: net.Client()}))(t), Tokenizer: tok,
		Template: must(template.Load(checkpoint))(t), Parser: must(parse.New("qwen25", "qwen3", parse.Strict))(t),
		Dialects: []chat.Dialect{openai.Chat{}}, Logger: slog.New(slog.DiscardHandler),
		LocalURL: net.Serve("adapter", adapter.HTTPServer(mux, slog.New(slog.DiscardHandler))),
	})))(t)
	mux.Attach(server)
	g := &agentrl.Generator{Protocol: &swetest.Protocol{}, Sandboxes: &sandboxtest.Fake{}, Adapter: server, Recorder: rec,
		Harness: &harnesstest.Agent{Turns: 3, Client: net.Client()}, Logger: slog.New(slog.DiscardHandler)}
	samples, err := g.Generate(t.Context(), row(), agentrl.SamplingParams{"max_new_tokens": 512})
	if err != nil || samples[0].Status != agentrl.Completed {
		t.Fatalf("Generate: %v, %v", samples, err)
	}
	paths, _ := filepath.Glob(filepath.Join(dir, "*.json"))
	if len(paths) != 1 {
		t.Fatalf("%d recordings, want 1", len(paths))
	}
	recording := must(agentrl.ReadRecording(paths[0]))(t)
	recording.Args = agentrl.Args{HFCheckpoint: checkpoint, ToolCallParser: "qwen25", ReasoningParser: "qwen3"}
	return recording, asJSON(t, samples)
}

func asJSON(t *testing.T, samples []agentrl.Sample) string {
	t.Helper()
	data, err := json.Marshal(samples)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestReplayIsByteIdentical(t *testing.T) {
	rec, want := recorded(t)
	for range 3 {
		out, err := agentrl.Replay(t.Context(), rec, agentrl.ReplayOptions{Protocol: &swetest.Protocol{}})
		if err != nil {
			t.Fatal(err)
		}
		if out.Difference != nil {
			t.Fatalf("the replay differs: %v (%v)", out.Difference, out.Samples[0].Err)
		}
		if got := asJSON(t, out.Samples); got != want {
			t.Errorf("samples\n%s\nwant\n%s", got, want)
		}
	}
	t.Logf("figure: %d requests, %d generations, %d sandboxes; %d bytes of samples, the same", len(rec.Requests), len(rec.Engine), len(rec.Boxes), len(want))
}

func TestReplayNamesTheFirstDifference(t *testing.T) {
	rec, _ := recorded(t)
	for name, change := range map[string]func(*adapter.Options){
		"no reasoning parser": func(o *adapter.Options) { o.Parser = must(parse.New("qwen25", "", parse.Strict))(t) },
	} {
		out, err := agentrl.Replay(t.Context(), rec, agentrl.ReplayOptions{Protocol: &swetest.Protocol{}, Adapter: change})
		if err != nil {
			t.Fatal(err)
		}
		d := out.Difference
		if d == nil || d.Generation != 1 || d.Turn != 0 || d.Token < len(rec.Engine[0].Input) {
			t.Fatalf("%s: difference %+v, want one in the prompt of generation 1, in what turn 0 sampled", name, d)
		}
		t.Logf("figure: %s: %s", name, d)
	}
}

// lastReader reads "Done." as a malformed call, and all else as it is.
type lastReader struct{ adapter.Parser }

func (l lastReader) Parse(in parse.Input) parse.Result {
	res := l.Parser.Parse(in)
	if strings.HasSuffix(in.Text, "Done.") {
		res.Text, res.Withheld, res.Flags = "", []parse.Call{{Name: "bash"}}, []parse.Flag{parse.InvalidJSONArgs}
	}
	return res
}

// TestReplayNamesTheLastTurn: no prompt shows that another parser read it.
func TestReplayNamesTheLastTurn(t *testing.T) {
	rec, _ := recorded(t)
	out, err := agentrl.Replay(t.Context(), rec, agentrl.ReplayOptions{Protocol: &swetest.Protocol{}, Adapter: func(o *adapter.Options) { o.Parser = lastReader{o.Parser} }})
	if err != nil {
		t.Fatal(err)
	}
	d, last := out.Difference, rec.Engine[2]
	if want := len(last.Input) + len(last.Response.OutputIDs) - 2; d == nil || d.Turn != 2 || d.Token != want { // its end, but for the stop token
		t.Fatalf("difference %+v, want one in turn 2 at token %d", d, want)
	}
	t.Logf("figure: %s", d)
}

// TestReplayOfFailures: what a rollout was aborted for comes out the same too.
func TestReplayOfFailures(t *testing.T) {
	for name, c := range map[string]struct {
		create, run error
	}{
		"gone":    {run: fmt.Errorf("exec: %w", sandbox.ErrGone)},
		"no room": {create: &sandbox.CapacityError{Code: "full", Message: "no host"}},
		"bad key": {create: fmt.Errorf("create: %w", sandbox.ErrUnauthorized)},
	} {
		dir := t.TempDir()
		b := newBench(agentrl.Config{BootRetries: 1})
		b.Recorder = agentrl.NewRecorder(dir)
		b.fail = func(int) error { return c.create }
		b.agent.OnRun = func(context.Context, sandbox.Sandbox, harness.Job) (harness.Report, error) {
			return harness.Report{}, c.run
		}
		samples := b.generate(t)
		b.clean(t)
		paths, _ := filepath.Glob(filepath.Join(dir, "*.json"))
		rec := must(agentrl.ReadRecording(paths[0]))(t)
		rec.Args = agentrl.Args{HFCheckpoint: checkpoint, ToolCallParser: "qwen25", ReasoningParser: "qwen3"}
		out, err := agentrl.Replay(t.Context(), rec, agentrl.ReplayOptions{Protocol: &swetest.Protocol{}})
		if err != nil || out.Difference != nil || asJSON(t, out.Samples) != asJSON(t, samples) {
			t.Errorf("%s: %v, %v\n%s\nwant\n%s", name, err, out.Difference, asJSON(t, out.Samples), asJSON(t, samples))
		}
	}
}

// TestReplayOfALaterAttempt: the session's id was drawn, and has the attempt.
func TestReplayOfALaterAttempt(t *testing.T) {
	for _, before := range []int{0, 1, 2, 11} {
		dir := t.TempDir()
		b := newBench(agentrl.Config{})
		b.Recorder = agentrl.NewRecorder(dir)
		base := row()
		base.Index, base.GroupIndex, base.SessionID = nil, nil, ""
		base.Metadata["attempt"] = before
		b.agent.OnRun = func(context.Context, sandbox.Sandbox, harness.Job) (harness.Report, error) {
			return harness.Report{}, sandbox.ErrGone
		}
		samples := must(b.Generate(t.Context(), base, nil))(t)
		paths, _ := filepath.Glob(filepath.Join(dir, "*.json"))
		rec := must(agentrl.ReadRecording(paths[0]))(t)
		rec.Args = agentrl.Args{HFCheckpoint: checkpoint, ToolCallParser: "qwen25", ReasoningParser: "qwen3"}
		out, err := agentrl.Replay(t.Context(), rec, agentrl.ReplayOptions{Protocol: &swetest.Protocol{}})
		if err != nil || out.Difference != nil || asJSON(t, out.Samples) != asJSON(t, samples) {
			t.Errorf("after %d attempts: %v, %v", before, err, out.Difference)
		}
	}
}

func TestReplayOfAShorterRecording(t *testing.T) {
	rec, _ := recorded(t)
	rec.Boxes = nil
	out, err := agentrl.Replay(t.Context(), rec, agentrl.ReplayOptions{Protocol: &swetest.Protocol{}})
	if err != nil {
		t.Fatal(err)
	}
	if s := out.Samples[0]; s.Status != agentrl.Aborted || !strings.Contains(s.Err.Error(), "the recording has 0 sandboxes") || out.Difference == nil {
		t.Errorf("sample %+v, difference %v", s, out.Difference)
	}
}

func TestRecordingsThatAreBroken(t *testing.T) {
	for text, want := range map[string]string{`{"version":1,`: "cut short", `{"version":9}`: "version 9", `{"version":1,"events":[{"request":4}]}`: "request 4 of 0"} {
		path := filepath.Join(t.TempDir(), "x.json")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := agentrl.ReadRecording(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error that says %q", text, err, want)
		}
	}
}
