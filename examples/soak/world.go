//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/sglang/sglangtest"
	"github.com/agentrl-go/agentrl/adapter/token"
	"github.com/agentrl-go/agentrl/examples/internal/demo"
	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
)

// Images of the E2B double: of the light one all sandboxes share one machine,
// so that they cost little; of the whole one each has its own.
const (
	light = "light"
	whole = "base"
)

// A world is the Generator among its doubles.
type world struct {
	o         options
	idle      process // before anything was opened
	boxes     *e2btest.Server
	engine    *sglangtest.Engine
	http      *http.Server
	generator *agentrl.Generator
	agent     *agent
	tally     tally
}

func newWorld(o options) (w *world, err error) {
	w = &world{o: o, idle: measureProcess()}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.shut())
		}
	}()
	dirs := "{ id agent || useradd -m agent || adduser -D agent; } >/dev/null 2>&1; mkdir -p /srv/soak && cd /srv/soak && for i in $(seq 0 " + fmt.Sprint(o.parallel-1) + "); do mkdir agent$i grader$i; chmod 777 agent$i grader$i; done"
	if w.boxes, err = e2btest.Start(e2btest.Options{Shared: light, Templates: map[string]string{light: dirs, whole: dirs}}); err != nil {
		return w, err
	}
	checkpoint, err := demo.Checkpoint(filepath.Join(o.dir, "checkpoint"))
	if err != nil {
		return w, err
	}
	url, err := w.serveEngine(checkpoint)
	if err != nil {
		return w, err
	}
	w.generator, err = agentrl.New(w.config(), agentrl.Args{
		HFCheckpoint: checkpoint, SGLangURL: url, ToolCallParser: "qwen25", ReasoningParser: "qwen3", MaxContextLen: 32768,
	})
	if err != nil {
		return w, err
	}
	w.agent = newAgent(w.boxes)
	w.generator.Harness, w.generator.Protocol = w.agent, protocol{}
	return w, nil
}

func (w *world) config() agentrl.Config {
	return agentrl.Config{
		Agent: "shell", Command: "true", // replaced
		AdapterBindHost: "127.0.0.1", AdapterPublicHost: "127.0.0.1",
		AgentBudget: 20 * time.Second, EvalTimeout: time.Minute, Guard: 5 * time.Minute,
		AdminAddr: w.o.admin,
		Sandbox:   "e2b", E2BAPIKey: w.boxes.Key(), E2BAPIURL: w.boxes.URL, E2BSandboxURL: w.boxes.URL,
		LedgerDir: filepath.Join(w.o.dir, "ledger"),
		RunDir:    filepath.Join(w.o.dir, "runs"), RunKeep: 1000, RunMaxMB: 16,
	}
}

func (w *world) serveEngine(checkpoint string) (url string, err error) {
	tok, err := token.Load(checkpoint)
	if err != nil {
		return "", err
	}
	w.engine = sglangtest.New(sglangtest.Options{MaxLog: -1, Decode: tok.Decode, EOS: tok.Encode("<|im_end|>"), Policy: policy(tok)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	w.http = &http.Server{Handler: w.engine, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = w.http.Serve(l) }() // ends with its Close
	return "http://" + l.Addr().String(), nil
}

// loop runs the rollouts; it returns when none is under way.
func (w *world) loop(ctx context.Context, n int) {
	next := make(chan int)
	var workers sync.WaitGroup
	for slot := range w.o.parallel {
		workers.Go(func() {
			for i := range next {
				w.rollout(ctx, slot, i)
			}
		})
	}
	defer workers.Wait()
	defer close(next)
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			return
		}
	}
}

// rollout is one call. No other has its slot, and so its work directories.
func (w *world) rollout(ctx context.Context, slot, i int) {
	p := newPlan(i)
	if rand.IntN(100) < 15 {
		w.boxes.Inject(boxFault())
	}
	workdir := fmt.Sprintf("/srv/soak/agent%d", slot)
	w.agent.set(workdir, p)
	index := int64(i)
	base := agentrl.Sample{Index: &index, Prompt: agentrl.Prompt{Text: "Write the number."}, Metadata: map[string]any{
		"instance_id": fmt.Sprintf("soak-%d", i), "image": p.image, "workdir": workdir, "want": p.want,
	}}
	samples, err := w.generator.Generate(ctx, base, agentrl.SamplingParams{"temperature": 1.0, "max_new_tokens": 512})
	if ctx.Err() == nil || err == nil {
		w.tally.add(p, samples, err)
	}
}

// boxFault is something that goes wrong with the next request of its kind.
func boxFault() e2btest.Fault {
	kinds := []e2btest.Kind{
		e2btest.ResetBefore, e2btest.LoseReply, e2btest.ResetAfter, e2btest.CutFrame, e2btest.CutUpload, e2btest.GatewayNotFound, e2btest.GatewayClosed,
		e2btest.GatewayText, e2btest.TooFast, e2btest.TooMany, e2btest.Capacity, e2btest.Placement, e2btest.PlacementMade, e2btest.Conflict, e2btest.Internal,
	}
	ops := []string{"Start", "POST /files", "GET /files", "Move"}
	kind := kinds[rand.IntN(len(kinds))]
	switch kind {
	case e2btest.TooFast, e2btest.TooMany, e2btest.Capacity, e2btest.Placement, e2btest.PlacementMade:
		ops = []string{"create"}
	case e2btest.Conflict, e2btest.Internal:
		ops = []string{"create", "delete"}
	case e2btest.CutUpload:
		ops = []string{"POST /files"}
	case e2btest.ResetBefore, e2btest.LoseReply:
		ops = append(ops, "create", "delete")
	}
	return e2btest.Fault{Kind: kind, Op: ops[rand.IntN(len(ops))]}
}

// close ends everything and prints what is left of it: there must be nothing.
func (w *world) close(out io.Writer) error {
	err := w.generator.Close()
	boxes, generations := len(w.boxes.Live()), w.engine.Live()
	entries, bytes := folder(w.config().LedgerDir, ledgerEntry)
	violations := w.boxes.Stats().Violations
	err = errors.Join(err, w.shut())
	now := settle(w.idle)
	fmt.Fprintf(out, "left: %d sandboxes, %d ledger entries (%d bytes), %d generations, %d goroutines more, %d descriptors more\n",
		boxes, entries, bytes, generations, now.goroutines-w.idle.goroutines, now.descriptors-w.idle.descriptors)
	if boxes > 0 || entries > 0 || generations > 0 || now.goroutines > w.idle.goroutines || now.descriptors > w.idle.descriptors {
		err = errors.Join(err, errors.New("something is left over: see the line that begins with left"))
	}
	if len(violations) > 0 {
		err = errors.Join(err, fmt.Errorf("requests that harm a real server: %s", strings.Join(violations, "; ")))
	}
	return err
}

// shut ends the doubles.
func (w *world) shut() error {
	var errs []error
	if w.agent != nil {
		w.agent.client.CloseIdleConnections()
	}
	if w.http != nil {
		errs = append(errs, w.http.Close())
	}
	if w.boxes != nil {
		errs = append(errs, w.boxes.Close())
	}
	return errors.Join(errs...)
}
