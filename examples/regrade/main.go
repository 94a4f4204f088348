// Command regrade grades stored patches again, after a grader or a row was
// changed: no agent is booted and no engine is asked.
//
//	regrade -rows rows.jsonl -patches patches.jsonl -out regraded.jsonl -sandbox docker
//
// A line of patches is {"instance_id": …, "patch": …, "outcome": …}: patch is a
// string, or a swe.Patch as JSON, whose trees are then checked again. With -run
// rows and patches are those of a run's records instead:
//
//	regrade -run runs -out regraded.jsonl -sandbox docker
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/examples/internal/grading"
	"github.com/agentrl-go/agentrl/swe"
)

type options struct {
	rows, patches, out string
	run                string
	protocol, sandbox  string
	parallel           int
}

func main() {
	var o options
	flag.StringVar(&o.rows, "rows", "rows.jsonl", "dataset rows, one slime sample as JSON a line")
	flag.StringVar(&o.patches, "patches", "patches.jsonl", "stored patches")
	flag.StringVar(&o.run, "run", "", "a run directory (AGENTRL_RUN_DIR), instead of -rows and -patches")
	flag.StringVar(&o.out, "out", "regraded.jsonl", "where the evaluations are written")
	flag.StringVar(&o.protocol, "protocol", cmp.Or(os.Getenv("SWE_TRAIN_PROTOCOL"), "scaleswe"), "the rows' format; SWE_TRAIN_PROTOCOL where that is set")
	flag.StringVar(&o.sandbox, "sandbox", cmp.Or(os.Getenv("AGENTRL_SANDBOX"), "local"), "local, docker or e2b; AGENTRL_SANDBOX where that is set")
	flag.IntVar(&o.parallel, "parallel", 4, "gradings at once")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	g, err := grading.Open(o.protocol, o.sandbox, false)
	if err == nil {
		err = run(ctx, o, g, os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "regrade:", err)
		os.Exit(1)
	}
}

// A stored patch, and what it was worth.
type stored struct {
	ID      string      `json:"instance_id"`
	Patch   patch       `json:"patch"`
	Outcome swe.Outcome `json:"outcome"`

	row *agentrl.Sample // nil: there is none
}

// A patch reads a string of diff text as well as a swe.Patch.
type patch struct{ swe.Patch }

// UnmarshalJSON implements json.Unmarshaler.
func (p *patch) UnmarshalJSON(data []byte) error {
	var text string
	if json.Unmarshal(data, &text) == nil {
		p.Bytes = []byte(text)
		return nil
	}
	return json.Unmarshal(data, &p.Patch)
}

// A result is one line of the output.
type result struct {
	ID     string         `json:"instance_id"`
	Before swe.Outcome    `json:"before"`
	After  swe.Outcome    `json:"after"` // "" when it could not be graded
	Eval   swe.Evaluation `json:"evaluation"`
	Err    string         `json:"error,omitempty"`
}

func run(ctx context.Context, o options, g *agentrl.Generator, stdout io.Writer) error {
	if o.parallel < 1 {
		return fmt.Errorf("-parallel %d: want one or more", o.parallel)
	}
	patches, err := read(o, stdout)
	if err != nil {
		return err
	}
	results := make([]result, len(patches))
	var group errgroup.Group
	group.SetLimit(o.parallel)
	for i, s := range patches {
		group.Go(func() error {
			results[i] = regrade(ctx, g, s)
			return context.Cause(ctx)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return write(o.out, results, stdout)
}

// read returns the stored patches with their rows.
func read(o options, stdout io.Writer) ([]stored, error) {
	if o.run != "" {
		return readRun(o.run, stdout)
	}
	rows, err := grading.ReadLines[agentrl.Sample](o.rows)
	if err != nil {
		return nil, err
	}
	byID := map[string]*agentrl.Sample{}
	for i := range rows {
		byID[grading.ID(rows[i])] = &rows[i]
	}
	patches, err := grading.ReadLines[stored](o.patches)
	for i := range patches {
		patches[i].row = byID[patches[i].ID]
	}
	return patches, err
}

// readRun takes rows and patches from a run's records. What has no patch is
// passed over, and what is no record named.
func readRun(dir string, stdout io.Writer) ([]stored, error) {
	var patches []stored
	for rec, err := range agentrl.ReadRunDir(dir) {
		var bad *agentrl.RunRecordError
		switch {
		case errors.As(err, &bad):
			fmt.Fprintln(stdout, "left out:", err)
		case err != nil:
			return nil, err
		case rec.Patch != nil:
			s := stored{ID: rec.InstanceID, Patch: patch{*rec.Patch}, row: &rec.Row}
			if rec.Eval != nil {
				s.Outcome = rec.Eval.Outcome
			}
			patches = append(patches, s)
		}
	}
	return patches, nil
}

func regrade(ctx context.Context, g *agentrl.Generator, s stored) result {
	r := result{ID: s.ID, Before: s.Outcome}
	if s.row == nil {
		r.Err = "no row has this instance_id"
		return r
	}
	eval, err := g.Grade(ctx, *s.row, s.Patch.Patch)
	if err != nil {
		r.Err = err.Error()
		return r
	}
	r.After, r.Eval = eval.Outcome, eval
	return r
}

func write(path string, results []result, stdout io.Writer) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	changed, ungraded := 0, 0
	for _, r := range results {
		mark := ""
		switch {
		case r.Err != "":
			ungraded++
		case r.Before != "" && r.Before != r.After:
			mark = "changed"
			changed++
		}
		fmt.Fprintf(stdout, "%-24s %-15s %-15s %-8s %s%s\n", r.ID, r.Before, r.After, mark, r.Eval.Reason, r.Err)
		if err := json.NewEncoder(f).Encode(r); err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "%d patches, %d changed, %d could not be graded\n", len(results), changed, ungraded)
	return nil
}
