// Command doctor looks at what a run will need, with the user's own
// environment, before the run does: the configuration, the checkpoint, the
// engine, the sandboxes and the dataset. It ends with a table of what is well,
// what is not, and what to do; its exit status is 1 when a line is an error.
//
//	doctor -checkpoint /models/qwen3 -sglang http://10.0.0.2:30000 -tool-parser qwen25 -reasoning-parser qwen3 -rows rows.jsonl
//
// A check that another one's fault keeps from being done is skipped: each
// fault is named once.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/agentrl-go/agentrl"
)

type options struct {
	args           agentrl.Args
	rows           string
	image, workdir string
	grade          int
	strict         bool
}

func main() {
	var o options
	flag.StringVar(&o.args.HFCheckpoint, "checkpoint", "", "directory with tokenizer.json, tokenizer_config.json and the chat template")
	flag.StringVar(&o.args.SGLangURL, "sglang", "", "URL of the SGLang server or router")
	flag.StringVar(&o.args.ToolCallParser, "tool-parser", "", "tool-call parser, as in SGLang's --tool-call-parser")
	flag.StringVar(&o.args.ReasoningParser, "reasoning-parser", "", "reasoning parser, as in SGLang's --reasoning-parser")
	flag.IntVar(&o.args.MaxContextLen, "max-context", 0, "tokens of prompt and answer together that the trainer will ask for; 0 is no limit")
	flag.StringVar(&o.rows, "rows", "", "dataset rows, one slime sample as JSON a line")
	flag.StringVar(&o.image, "image", "", "image of the sandbox to boot; empty is the first row's")
	flag.StringVar(&o.workdir, "workdir", "", "work directory in it; empty is the first row's")
	flag.IntVar(&o.grade, "grade", 2, "rows of which the empty patch, and the gold patch where there is one, are graded")
	flag.BoolVar(&o.strict, "strict", false, "exit with 1 for a warning too")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the findings say it
	d := &doctor{o: o, environ: os.Environ(), out: os.Stdout}
	d.run(ctx)
	os.Exit(d.print())
}

// A level is how bad a finding is.
type level int

const (
	fine level = iota
	skipped
	warning
	failed
)

func (l level) String() string { return [...]string{"ok", "skipped", "WARNING", "ERROR"}[l] }

// A finding is one line of the table.
type finding struct {
	check string
	level level
	text  string
	do    string // what to do about it; "" for nothing
}

// A check looks at one thing. It is skipped unless all that it needs went
// without an error.
type check struct {
	name  string
	needs []string
	look  func(d *doctor, ctx context.Context)
}

// checks are in the order in which they are done.
func checks() []check {
	return []check{
		{"environment", nil, (*doctor).environment},
		{"checkpoint", nil, (*doctor).checkpoint},
		{"chat template", []string{"checkpoint"}, (*doctor).chatTemplate},
		{"parsers", nil, (*doctor).parsers},
		{"files", []string{"environment"}, (*doctor).files},
		{"directories", []string{"environment"}, (*doctor).directories},
		{"engine", nil, (*doctor).engine},
		{"context length", []string{"engine"}, (*doctor).contextLength},
		{"engine's parsers", []string{"engine", "parsers"}, (*doctor).engineParsers},
		{"weight version", []string{"engine"}, (*doctor).weightVersion},
		{"token ids", []string{"engine", "checkpoint"}, (*doctor).tokenIDs},
		{"generation", []string{"engine", "checkpoint"}, (*doctor).generation},
		{"aborts", []string{"generation"}, (*doctor).aborts},
		{"prefix cache", []string{"generation"}, (*doctor).prefixCache},
		{"configuration", []string{"environment", "checkpoint", "parsers", "files", "directories"}, (*doctor).configuration},
		{"backend", []string{"configuration"}, (*doctor).backend},
		{"dataset", []string{"configuration"}, (*doctor).dataset},
		{"sandbox", []string{"backend", "dataset"}, (*doctor).sandbox},
		{"grading", []string{"dataset", "sandbox"}, (*doctor).grading},
	}
}

// A doctor does the checks and holds what they found and made.
type doctor struct {
	o       options
	environ []string
	out     io.Writer
	bend    func(*agentrl.Generator) // tests only

	check string // the one under way
	found []finding
	made
}

func (d *doctor) fine(format string, args ...any) {
	d.found = append(d.found, finding{d.check, fine, fmt.Sprintf(format, args...), ""})
}

func (d *doctor) warn(do, format string, args ...any) {
	d.found = append(d.found, finding{d.check, warning, fmt.Sprintf(format, args...), do})
}

func (d *doctor) fail(do, format string, args ...any) {
	d.found = append(d.found, finding{d.check, failed, fmt.Sprintf(format, args...), do})
}

func (d *doctor) skip(format string, args ...any) {
	d.found = append(d.found, finding{d.check, skipped, fmt.Sprintf(format, args...), ""})
}

// run does all checks, and takes down what they made.
func (d *doctor) run(ctx context.Context) {
	defer d.close()
	for _, c := range checks() {
		d.check = c.name
		if need := d.missing(c.needs); need != "" {
			d.skip("it needs %q, which was not well", need)
			continue
		}
		if ctx.Err() != nil {
			d.skip("interrupted")
			continue
		}
		fmt.Fprintf(d.out, "… %s\n", c.name)
		c.look(d, ctx)
	}
}

// missing returns the first of the checks that failed or was not done.
func (d *doctor) missing(needs []string) string {
	for _, need := range needs {
		for _, f := range d.found {
			if f.check == need && (f.level == failed || f.level == skipped) {
				return need
			}
		}
	}
	return ""
}

// print writes the table and returns the exit status.
func (d *doctor) print() int {
	fmt.Fprintln(d.out)
	table := tabwriter.NewWriter(d.out, 0, 8, 2, ' ', 0)
	count := map[level]int{}
	for _, f := range d.found {
		count[f.level]++
		lines := strings.Split(strings.TrimSpace(f.text), "\n")
		if f.do != "" {
			lines = append(lines, "→ "+f.do)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", f.level, f.check, lines[0])
		for _, line := range lines[1:] {
			fmt.Fprintf(table, "\t\t%s\n", line)
		}
	}
	_ = table.Flush() // a terminal that is gone reads no table
	fmt.Fprintf(d.out, "\n%d errors, %d warnings, %d skipped\n", count[failed], count[warning], count[skipped])
	if count[failed] > 0 || d.o.strict && count[warning] > 0 {
		return 1
	}
	return 0
}
