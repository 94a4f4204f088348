package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
	"github.com/agentrl-go/agentrl/adapter/template"
	"github.com/agentrl-go/agentrl/adapter/token"
	"github.com/agentrl-go/agentrl/examples/internal/demo"
	"github.com/agentrl-go/agentrl/harness/harnesstest"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/sandboxtest"
)

// A site is a user's environment: all is well with it until it is bent.
type site struct {
	o       options
	environ []string
	edit    func(answer map[string]any) // of the engine
	said    map[string]any              // by /server_info
	weights map[string]any              // by /model_info
	noAbort bool                        // the engine is behind something that lets no abort through
	deaf    bool                        // the engine takes an abort, and goes on
	ids     func([]int32) []int32       // of the server's tokenizer
	bend    func(*agentrl.Generator)
	row     agentrl.Sample
	rows    string // further lines
	dir     string
	t       *testing.T
}

func newSite(t *testing.T) *site {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("sandboxes with users need root")
	}
	dir, err := demo.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	checkpoint, err := demo.Checkpoint(filepath.Join(dir, "checkpoint"))
	if err != nil {
		t.Fatal(err)
	}
	task, err := demo.NewTask(dir, "tokens")
	if err != nil {
		t.Fatal(err)
	}
	s := &site{
		t: t, dir: dir, row: task.Sample(demo.Image, 0, 0),
		environ: []string{"SWE_AGENT=mini", "AGENTRL_SANDBOX=local", "ADAPTER_PORT=0", "ADAPTER_BIND_HOST=127.0.0.1"},
		said:    map[string]any{"version": "0.5.15", "context_length": 100000, "tool_call_parser": "qwen25", "reasoning_parser": "qwen3"},
		weights: map[string]any{"weight_version": "7"},
		o:       options{args: agentrl.Args{HFCheckpoint: checkpoint, ToolCallParser: "qwen25", ReasoningParser: "qwen3", MaxContextLen: 65536}, grade: 1},
	}
	s.row.Metadata["patch"] = "diff --git a/token.sh b/token.sh\n--- a/token.sh\n+++ b/token.sh\n@@ -1,2 +1,2 @@\n # prints the access token\n-echo unknown\n+echo " + task.Nonce + "\n"
	return s
}

// serve starts the engine: the double, with what it lacks of a server's self-description.
func (s *site) serve(t *testing.T) string {
	tok, err := token.Load(s.o.args.HFCheckpoint)
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := template.Load(s.o.args.HFCheckpoint)
	if err != nil {
		t.Fatal(err)
	}
	perToken := time.Millisecond
	if s.noAbort {
		perToken = 20 * time.Millisecond // 4096 tokens outlast a busy machine
	}
	engine := demo.NewEngine(tok, demo.EngineOptions{Edit: s.edit, PerToken: perToken})
	mux := http.NewServeMux()
	mux.Handle("/", engine)
	mux.HandleFunc("GET /server_info", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(s.said) })
	mux.HandleFunc("GET /model_info", func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(s.weights) })
	mux.HandleFunc("POST /tokenize", func(w http.ResponseWriter, r *http.Request) { s.tokenize(w, r, tok, tmpl) })
	mux.HandleFunc("POST /generate", func(w http.ResponseWriter, r *http.Request) {
		if s.noAbort || s.deaf {
			r = r.WithContext(t.Context()) // the orphan ends with the test
		}
		engine.ServeHTTP(w, r)
	})
	mux.HandleFunc("POST /abort_request", func(w http.ResponseWriter, r *http.Request) {
		if s.noAbort {
			http.NotFound(w, r)
			return
		}
		if s.deaf {
			return
		}
		engine.ServeHTTP(w, r)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

// tokenize renders OpenAI's messages as a server does: from the wire.
func (s *site) tokenize(w http.ResponseWriter, r *http.Request, tok *token.Tokenizer, tmpl *template.Template) {
	var req struct {
		Messages []struct {
			Role, Content string
			ToolCalls     []struct {
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		Tools []struct {
			Function chat.Tool
		}
	}
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(body, &req)
	}
	var c conversation
	for _, m := range req.Messages {
		msg := chat.Message{Role: m.Role, Content: m.Content}
		for _, call := range m.ToolCalls {
			msg.ToolCalls = append(msg.ToolCalls, chat.ToolCall{Name: call.Function.Name, Arguments: json.RawMessage(call.Function.Arguments)})
		}
		c.messages = append(c.messages, msg)
	}
	for _, tool := range req.Tools {
		c.tools = append(c.tools, tool.Function)
	}
	text, renderErr := tmpl.Render(c.messages, c.tools, renderOptions)
	if err = errors.Join(err, renderErr); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ids := tok.AppendEncode(nil, text)
	if s.ids != nil {
		ids = s.ids(ids)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"tokens": ids, "count": len(ids)})
}

// visit has the doctor look at the site.
func (s *site) visit(t *testing.T) (*doctor, string, int) {
	t.Helper()
	line, err := json.Marshal(s.row)
	if err != nil {
		t.Fatal(err)
	}
	s.o.rows = filepath.Join(s.dir, "rows.jsonl")
	if err := os.WriteFile(s.o.rows, []byte(string(line)+"\n"+s.rows), 0o644); err != nil {
		t.Fatal(err)
	}
	if s.o.args.SGLangURL == "" {
		s.o.args.SGLangURL = s.serve(t)
	}
	var out bytes.Buffer
	d := &doctor{o: s.o, environ: s.environ, out: &out, bend: s.bend}
	d.run(t.Context())
	status := d.print()
	return d, out.String(), status
}

func TestAllIsWell(t *testing.T) {
	d, out, status := newSite(t).visit(t)
	for _, f := range d.found {
		if f.level != fine {
			t.Errorf("%s %s: %s", f.level, f.check, f.text)
		}
	}
	if status != 0 {
		t.Errorf("exit status %d\n%s", status, out)
	}
	t.Logf("figure: %d checks, all ok", len(checks()))
}

// TestThroughARouter: what a router has not is asked of its worker.
func TestThroughARouter(t *testing.T) {
	s := newSite(t)
	router := httptest.NewServer(sglangtest.NewRouter(sglangtest.RouterOptions{Workers: []string{s.serve(t)}}))
	t.Cleanup(router.Close)
	s.o.args.SGLangURL, s.o.grade = router.URL, 0
	d, out, _ := s.visit(t)
	for _, f := range d.found {
		if f.level > skipped {
			t.Errorf("%s %s: %s", f.level, f.check, f.text)
		}
	}
	if !strings.Contains(out, "a router with 1 workers") {
		t.Errorf("the table names no router:\n%s", out)
	}
}

// TestSlashAfterTheURL: a server that is strict about paths has no "//server_info".
func TestSlashAfterTheURL(t *testing.T) {
	s := newSite(t)
	strict := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "//") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"weight_version": "7"})
	}))
	t.Cleanup(strict.Close)
	s.o.args.SGLangURL = strict.URL + "/"
	d := &doctor{o: s.o}
	d.weightVersion(t.Context())
	if f := d.found[0]; f.level != fine {
		t.Errorf("%s: %s", f.level, f.text)
	}
}

// TestBackendThatDoesNotAnswer: the advice is about the boot.
func TestBackendThatDoesNotAnswer(t *testing.T) {
	s := newSite(t)
	s.bend = func(g *agentrl.Generator) {
		g.Sandboxes = &sandboxtest.Fake{CreateFunc: func(context.Context, sandbox.Spec) error { return errors.New("connection refused") }}
	}
	if _, out, status := s.visit(t); status != 1 || !strings.Contains(out, "what to do about boot_failed") {
		t.Errorf("status %d\n%s", status, out)
	}
}

// A fault is one thing that is broken on purpose.
type fault struct {
	name  string // of the check that has to say it
	level level
	says  string
	bend  func(s *site)
}

func faultsHere() []fault {
	set := func(v ...string) func(*site) { return func(s *site) { s.environ = append(s.environ, v...) } }
	return []fault{
		{"environment", failed, "SWE_BOOT_RETRIES", set("SWE_BOOT_RETRIES=0")},
		{"environment", warning, "SWE_AGNET", set("SWE_AGNET=mini")},
		{"files", failed, "/nowhere/node.tar", set("SLIME_AGENT_NODE_TARBALL=/nowhere/node.tar")},
		{"files", failed, "AGENTRL_PI_TARBALL", set("AGENTRL_PI_TARBALL=/nowhere/pi.tgz")},
		{"files", failed, "AGENTRL_OPENCODE_SHA256", func(s *site) {
			s.environ = append(s.environ, "AGENTRL_OPENCODE_TARBALL="+filepath.Join(s.o.args.HFCheckpoint, "tokenizer.json"), "AGENTRL_OPENCODE_SHA256="+strings.Repeat("0", 64))
		}},
		{"directories", failed, "AGENTRL_RUN_DIR", set("AGENTRL_RUN_DIR=/dev/null/runs")},
		{"directories", failed, "AGENTRL_LEDGER_DIR", set("AGENTRL_LEDGER_DIR=/dev/null/ledger")},
		{"configuration", failed, "SWE_ROLLOUT_GUARD_SEC", set("SWE_ROLLOUT_GUARD_SEC=60")},
		{"backend", failed, "127.0.0.1:1", func(s *site) {
			s.environ = append(s.environ, "AGENTRL_SANDBOX=e2b", "E2B_API_KEY=e2b_0", "E2B_API_URL=http://127.0.0.1:1", "SLIME_AGENT_SANDBOX_RPC_RETRIES=0")
		}},
		{"backend", failed, "/nowhere/docker.sock", set("AGENTRL_SANDBOX=docker", "DOCKER_HOST=unix:///nowhere/docker.sock", "SLIME_AGENT_SANDBOX_RPC_RETRIES=0")},
		{"configuration", failed, "DOCKER_HOST", set("AGENTRL_SANDBOX=docker", "DOCKER_HOST=tcp://10.0.0.9:2375")},
		{"checkpoint", failed, "tokenizer.json", func(s *site) {
			s.o.args.SGLangURL = s.serve(s.t)
			s.o.args.HFCheckpoint = s.dir
		}},
		{"parsers", failed, "qwen99", func(s *site) { s.o.args.ToolCallParser = "qwen99" }},
		{"dataset", failed, "line 2", func(s *site) { s.rows = `{"metadata":{"instance_id":"x","image":"host","workdir":"relative"}}` + "\n" }},
		{"dataset", failed, "line 2", func(s *site) { s.rows = `{"metadata":{"instance_id":"x"` }},
		{"dataset", failed, "line 4: the row is a JSON array", func(s *site) { s.rows = "\n \n[]\n" }},
		{"dataset", failed, "line 2: metadata is a JSON string", func(s *site) { s.rows = `{"metadata":"x"}` }},
		{"sandbox", failed, "/nowhere/image", func(s *site) { s.row.Metadata["image"] = "/nowhere/image" }},
		{"sandbox", failed, "no claude here", func(s *site) {
			s.bend = func(g *agentrl.Generator) {
				g.Harness = &harnesstest.Fake{OnInstall: func(context.Context, sandbox.Sandbox) error { return errors.New("no claude here") }}
			}
		}},
		{"sandbox", failed, "ADAPTER_PUBLIC_HOST", func(s *site) {
			s.environ = append(s.environ, "ADAPTER_PUBLIC_URL=http://127.0.0.1:1")
			s.bend = func(g *agentrl.Generator) { g.Harness = &harnesstest.Fake{Dials: true} }
		}},
		{"grading", failed, "gold patch", func(s *site) { s.row.Metadata["eval_cmd"] = "false" }},
		{"grading", failed, "without any change", func(s *site) { s.row.Metadata["eval_cmd"] = "true" }},
	}
}

func faultsOfTheEngine() []fault {
	return []fault{
		{"engine", failed, "want http://HOST:PORT", func(s *site) { s.o.args.SGLangURL = "10.0.0.2:30000" }},
		{"chat template", warning, "rendered anew", func(s *site) {
			path := filepath.Join(s.o.args.HFCheckpoint, "tokenizer_config.json")
			text, err := os.ReadFile(path)
			if err == nil {
				text = bytes.Replace(text, []byte(`"chat_template": "`), []byte(`"chat_template": "{{ messages | length }}`), 1)
				err = errors.Join(os.Remove(path), os.WriteFile(path, text, 0o644))
			}
			if err != nil || !bytes.Contains(text, []byte("| length }}")) {
				s.t.Errorf("the template was not changed: %v", err)
			}
		}},
		{"engine", failed, "127.0.0.1:1", func(s *site) { s.o.args.SGLangURL = "http://127.0.0.1:1" }},
		{"context length", warning, "200000000", func(s *site) { s.o.args.MaxContextLen = 200_000_000 }},
		{"engine's parsers", warning, "hermes", func(s *site) { s.said["tool_call_parser"] = "hermes" }},
		{"weight version", warning, "no weight version", func(s *site) { s.weights = map[string]any{} }},
		{"token ids", failed, "differ from id 3 on", func(s *site) {
			s.ids = func(ids []int32) []int32 { ids[3]++; return ids }
		}},
		{"generation", failed, "logprob", func(s *site) {
			s.edit = func(answer map[string]any) {
				meta := answer["meta_info"].(map[string]any)
				delete(meta, "output_token_logprobs")
			}
		}},
		{"aborts", failed, "/abort_request", func(s *site) { s.noAbort = true }},
		{"aborts", failed, "/abort_request", func(s *site) { s.deaf = true }},
		{"prefix cache", warning, "nothing cached", func(s *site) {
			s.edit = func(answer map[string]any) { answer["meta_info"].(map[string]any)["cached_tokens"] = 0 }
		}},
	}
}

// TestEachFaultIsNamedAndNothingElse breaks one thing at a time.
func TestEachFaultIsNamedAndNothingElse(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	named := 0
	for _, f := range slices.Concat(faultsHere(), faultsOfTheEngine()) {
		t.Run(f.name+"/"+f.says, func(t *testing.T) {
			s := newSite(t)
			f.bend(s)
			d, out, status := s.visit(t)
			bad := map[string]level{}
			for _, found := range d.found {
				if found.level > skipped {
					bad[found.check] = max(bad[found.check], found.level)
				}
			}
			if !maps.Equal(bad, map[string]level{f.name: f.level}) {
				t.Errorf("found %v, want %s in %q alone\n%s", bad, f.level, f.name, out)
			}
			if !strings.Contains(out, f.says) || !strings.Contains(out, "→ ") {
				t.Errorf("the table does not say %q and what to do:\n%s", f.says, out)
			}
			if want := map[level]int{failed: 1, warning: 0}[f.level]; status != want {
				t.Errorf("exit status %d, want %d", status, want)
			}
			if !t.Failed() {
				named++
			}
		})
	}
	t.Logf("figure: %d of %d faults named, and nothing else", named, len(faultsHere())+len(faultsOfTheEngine()))
}
