package adapter_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// An engineLog stands before the engine double and keeps the bytes of every
// call of /generate. Before the call that follows an abort it has the double
// serve new weights.
type engineLog struct {
	engine *sglangtest.Engine

	mu      sync.Mutex
	lines   bytes.Buffer
	version int
	aborts  int
	aborted bool // the last call
}

func (l *engineLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.URL.Path != "/generate" {
		l.engine.ServeHTTP(w, r)
		return
	}
	l.mu.Lock()
	if l.aborted {
		l.version++
		l.engine.SetWeightVersion(fmt.Sprint(l.version))
	}
	l.mu.Unlock()
	rec := httptest.NewRecorder()
	l.engine.ServeHTTP(rec, r)
	answer := bytes.TrimSpace(rec.Body.Bytes())
	l.mu.Lock()
	l.aborted = bytes.Contains(answer, []byte(`"type":"abort"`))
	if l.aborted {
		l.aborts++
	}
	fmt.Fprintf(&l.lines, "{\"request\":%s,\"response\":%s}\n", body, answer)
	l.mu.Unlock()
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(rec.Code)
	w.Write(rec.Body.Bytes())
}

// A model says its texts one after the other. It goes on with a text whose
// begin it finds at the end of the prompt, and is aborted once in the turns
// that abort lists.
type model struct {
	texts []string
	abort map[int]bool

	mu    sync.Mutex
	turn  int
	begun map[string]string // what it says to a prompt, while it is saying it
}

func (m *model) policy(c sglangtest.Call) sglangtest.Output {
	m.mu.Lock()
	defer m.mu.Unlock()
	const opening = "<|im_start|>assistant\n"
	prompt := byteTokenizer{}.Decode(c.Prompt)
	at := strings.LastIndex(prompt, opening) + len(opening)
	said := prompt[at:]
	out := sglangtest.Output{}
	if said == "" {
		m.begun[prompt] = m.texts[m.turn%len(m.texts)]
		if m.turn++; m.abort[m.turn] {
			out.Fault = &sglangtest.Fault{Abort: 3}
		}
	}
	out.IDs = byteTokenizer{}.AppendEncode(nil, strings.TrimPrefix(m.begun[prompt[:at]], said))
	for i := range out.IDs {
		out.LogProbs = append(out.LogProbs, -float32(m.turn)-float32(i)/128)
	}
	return out
}

// newLogged returns a rig whose engine calls are logged.
func newLogged(t *testing.T, m *model, tweak ...func(*adapter.Options)) (*rig, *engineLog) {
	t.Helper()
	m.begun = map[string]string{}
	log := &engineLog{engine: sglangtest.New(sglangtest.Options{Policy: m.policy, EOS: []int32{imEnd}, Decode: byteTokenizer{}.Decode, WeightVersion: "0"})}
	server := httptest.NewServer(log)
	t.Cleanup(server.Close)
	client, err := sglang.New(server.URL, sglang.Options{Attempts: 2, FirstWait: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	return newRig(t, sglangtest.Options{Policy: say("unused")}, append([]func(*adapter.Options){func(o *adapter.Options) { o.Engine = client }}, tweak...)...), log
}

// prooflog runs the program of that name.
func prooflog(t *testing.T, log string, segments []trajectory.Segment) (string, error) {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(segments)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{"log": log, "segments": string(text)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command("go", "run", "./testdata/prooflog", filepath.Join(dir, "log"), filepath.Join(dir, "segments")).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// TestTrajectoryAgainstTheEnginesLog has the engine abort 3 of 10 turns and
// change its weights in them; the client sends 2 requests again after it has
// their answers, edits its history once and starts a second conversation.
func TestTrajectoryAgainstTheEnginesLog(t *testing.T) {
	m := &model{abort: map[int]bool{2: true, 5: true, 9: true}}
	for i := range 10 {
		m.texts = append(m.texts, fmt.Sprintf("<think>thought %d</think>Text %d.%s", i, i, callText("bash", fmt.Sprintf(`{ "command" : "ls %d", "n": 1e3 }`, i))))
	}
	r, log := newLogged(t, m)
	ses := r.open("s", adapter.SessionOptions{})
	c := &conversation{rig: r, token: ses.Token, tools: bashTool()}
	last := c.ask(user("fix it"))
	for i := range 4 {
		last = c.ask(toolResult(callIDOf(t, last, 0), fmt.Sprint("result ", i)))
		if i == 0 || i == 2 { // delivered, and asked for again
			c.messages = c.messages[:len(c.messages)-1]
			last = c.ask()
		}
	}
	edited := &conversation{rig: r, token: ses.Token, tools: bashTool(), messages: append(c.messages[:4:4], user("no, like this"))}
	edited.ask()
	c.ask(toolResult(callIDOf(t, last, 0), "result 4"))
	other := &conversation{rig: r, token: ses.Token, tools: bashTool()}
	other.ask(user("another task"))
	rec := r.finish("s")
	if len(rec.Segments) != 3 || m.turn != 10 || log.aborts != 3 {
		t.Fatalf("%d segments, %d turns, %d aborts; want 3, 10, 3", len(rec.Segments), m.turn, log.aborts)
	}
	for _, s := range rec.Segments {
		if err := trajectory.CheckSegment(s); err != nil || s.Untrained != "" {
			t.Errorf("segment %d: %v, untrained %q", s.Index, err, s.Untrained)
		}
	}
	out, err := prooflog(t, log.lines.String(), rec.Segments)
	if err != nil {
		t.Fatalf("prooflog: %v: %s", err, out)
	}
	t.Logf("figure: %s; %d of 10 turns aborted and continued under new weights, 2 sent again", out, log.aborts)
	for name, spoiled := range map[string]string{
		"a logprob": strings.Replace(log.lines.String(), "[-1,", "[-1.5,", 1),
		"a version": strings.ReplaceAll(log.lines.String(), `"weight_version":"1"`, `"weight_version":"7"`),
		"an input":  strings.Replace(log.lines.String(), `"input_ids":[256,`, `"input_ids":[257,`, 1),
	} {
		if out, err := prooflog(t, spoiled, rec.Segments); err == nil {
			t.Errorf("prooflog with %s changed in the log: %s", name, out)
		}
	}
}
