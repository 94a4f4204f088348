// Command preflight tries a dataset's rows before money is spent on rollouts:
// the empty patch has to fail, and the row's gold patch (metadata.patch or
// metadata.remote_env_info.patch), where it has one, has to pass each time.
//
//	preflight -rows rows.jsonl -cache verdicts.jsonl -good good.jsonl -quarantine bad.jsonl -sandbox docker
//
// Verdicts are cached by the row's content. What the sandbox backend did is
// reported and not cached: it says nothing about the row.
package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/examples/internal/grading"
	"github.com/agentrl-go/agentrl/swe"
)

type options struct {
	rows, cache, good, quarantine string
	protocol, sandbox             string
	runs, parallel                int
}

func main() {
	var o options
	flag.StringVar(&o.rows, "rows", "rows.jsonl", "dataset rows, one slime sample as JSON a line")
	flag.StringVar(&o.cache, "cache", "verdicts.jsonl", "verdicts of earlier runs; new ones are appended")
	flag.StringVar(&o.good, "good", "good.jsonl", "where the rows to train on are written")
	flag.StringVar(&o.quarantine, "quarantine", "quarantine.jsonl", "where the others are written, with their verdict in metadata.preflight")
	flag.StringVar(&o.protocol, "protocol", cmp.Or(os.Getenv("SWE_TRAIN_PROTOCOL"), "scaleswe"), "the rows' format; SWE_TRAIN_PROTOCOL where that is set")
	flag.StringVar(&o.sandbox, "sandbox", cmp.Or(os.Getenv("AGENTRL_SANDBOX"), "local"), "local, docker or e2b; AGENTRL_SANDBOX where that is set")
	flag.IntVar(&o.runs, "runs", 3, "gradings of a gold patch: all have to agree")
	flag.IntVar(&o.parallel, "parallel", 4, "rows at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	g, err := grading.Open(o.protocol, o.sandbox, true)
	if err == nil {
		err = run(ctx, o, g, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "preflight:", err)
		os.Exit(1)
	}
}

// A verdict is what is known of a row.
type verdict struct {
	Key    string `json:"key"` // of the row's content
	ID     string `json:"instance_id"`
	Kind   string `json:"verdict"` // good, empty_passes, gold_fails, flaky, broken; unknown is not cached
	Reason string `json:"reason"`
}

func run(ctx context.Context, o options, g *agentrl.Generator, stdout io.Writer) error {
	if o.runs < 1 || o.parallel < 1 {
		return fmt.Errorf("-runs %d -parallel %d: want both from 1 on", o.runs, o.parallel)
	}
	rows, err := grading.ReadLines[agentrl.Sample](o.rows)
	if err != nil {
		return err
	}
	before, cache, err := grading.Resume[verdict](o.cache)
	if err != nil {
		return err
	}
	p := &preflight{o: o, g: g, known: map[string]verdict{}, cache: cache, out: stdout}
	for _, v := range before {
		p.known[v.Key] = v
	}
	verdicts := make([]verdict, len(rows))
	var group errgroup.Group
	group.SetLimit(o.parallel)
	for i, row := range rows {
		group.Go(func() (err error) {
			verdicts[i], err = p.check(ctx, row)
			return err
		})
	}
	if err := errors.Join(group.Wait(), cache.Close()); err != nil {
		return err
	}
	return divide(o, rows, verdicts)
}

// divide writes the rows into the two files.
func divide(o options, rows []agentrl.Sample, verdicts []verdict) error {
	files := map[bool]*os.File{}
	for good, path := range map[bool]string{true: o.good, false: o.quarantine} {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		files[good] = f
	}
	for i, row := range rows {
		good := verdicts[i].Kind == "good"
		if !good {
			if row.Metadata == nil { // that is why it is here
				row.Metadata = map[string]any{}
			}
			row.Metadata["preflight"] = verdicts[i]
		}
		if err := json.NewEncoder(files[good]).Encode(row); err != nil {
			return err
		}
	}
	return errors.Join(files[true].Sync(), files[false].Sync())
}

type preflight struct {
	o   options
	g   *agentrl.Generator
	out io.Writer

	mu    sync.Mutex // over what follows
	known map[string]verdict
	cache *os.File
}

// check is a row's verdict, from the cache or by trying.
func (p *preflight) check(ctx context.Context, row agentrl.Sample) (verdict, error) {
	key, err := keyOf(p.o, row)
	if err != nil {
		return verdict{}, err
	}
	p.mu.Lock()
	v, ok := p.known[key]
	p.mu.Unlock()
	source := "cached"
	if !ok {
		source = "tried"
		v = verdict{Key: key, ID: grading.ID(row)}
		v.Kind, v.Reason = p.try(ctx, row)
	}
	if err := context.Cause(ctx); err != nil {
		return verdict{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, "%-24s %-12s %-7s %s\n", v.ID, v.Kind, source, v.Reason)
	if ok || v.Kind == "unknown" {
		return v, nil
	}
	return v, json.NewEncoder(p.cache).Encode(v)
}

// keyOf names a row's content and what is asked of it.
func keyOf(o options, row agentrl.Sample) (string, error) {
	text, err := json.Marshal(map[string]any{"metadata": row.Metadata, "prompt": row.Prompt, "label": row.Label, "protocol": o.protocol, "runs": o.runs})
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// try grades the empty patch and then the gold patch.
func (p *preflight) try(ctx context.Context, row agentrl.Sample) (kind, reason string) {
	empty, err := p.g.Grade(ctx, row, swe.Patch{})
	switch {
	case err != nil:
		return failed(err)
	case empty.Outcome == swe.Solved:
		return "empty_passes", "the tests pass without any change"
	case !empty.Keep:
		return "broken", fmt.Sprintf("empty patch: %s: %s", empty.Outcome, empty.Reason)
	}
	gold := goldPatch(row)
	if gold == "" {
		return "good", "the empty patch fails; there is no gold patch"
	}
	solved := 0
	for n := 1; n <= p.o.runs; n++ {
		e, err := p.g.Grade(ctx, row, swe.Patch{Bytes: []byte(gold)})
		if err != nil {
			return failed(err)
		}
		if e.Outcome == swe.Solved {
			solved++
		}
		if solved != 0 && solved != n {
			return "flaky", fmt.Sprintf("the gold patch passed %d of %d times; last: %s", solved, n, e.Reason)
		}
		if solved == 0 && n == p.o.runs {
			return "gold_fails", fmt.Sprintf("gold patch: %s: %s", e.Outcome, e.Reason)
		}
	}
	return "good", fmt.Sprintf("the empty patch fails, the gold patch passed %d times", solved)
}

// failed tells a bad row from a backend that did not answer.
func failed(err error) (kind, reason string) {
	if f := agentrl.FailureOf(err); f.Class == agentrl.ClassData {
		return "broken", err.Error()
	}
	return "unknown", err.Error()
}

// goldPatch is the row's own solution.
func goldPatch(row agentrl.Sample) string {
	remote, _ := row.Metadata["remote_env_info"].(map[string]any)
	for _, m := range []map[string]any{row.Metadata, remote} {
		if s, ok := m["patch"].(string); ok && s != "" {
			return s
		}
	}
	return ""
}
