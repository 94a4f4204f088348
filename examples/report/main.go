// Command report makes one self-contained HTML file of a run's records: what
// became of the rollouts, where their time went, and for each of them what the
// model saw, what is trained of it, its patch and its grading.
//
//	AGENTRL_RUN_DIR=runs mytrainer
//	report -run runs -out report.html
//
// The page asks no network for anything. Details are packed into it and
// unpacked when they are looked at, so that a page of a thousand rollouts opens
// at once.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

type options struct {
	dir, id, out string
	maxMB        int
}

func main() {
	var o options
	flag.StringVar(&o.dir, "run", os.Getenv("AGENTRL_RUN_DIR"), "the run directory; defaults to AGENTRL_RUN_DIR")
	flag.StringVar(&o.id, "id", "", "only the records of this AGENTRL_RUN_ID; empty takes all")
	flag.StringVar(&o.out, "out", "report.html", "the page")
	flag.IntVar(&o.maxMB, "max-mb", 512, "how big the page may get in MiB: details beyond are left out, those of failed and slow rollouts last")
	flag.Parse()
	if err := run(o, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(o options, stdout io.Writer) error {
	if o.dir == "" {
		return fmt.Errorf("no run directory: pass -run DIR, the AGENTRL_RUN_DIR of the run")
	}
	r, err := load(o.dir, o.id)
	if err != nil {
		return err
	}
	if err := write(o.out, r, int64(o.maxMB)<<20); err != nil {
		return err
	}
	for _, p := range r.Problems {
		fmt.Fprintln(stdout, "left out:", p)
	}
	fmt.Fprintf(stdout, "%s: %d rollouts, %d files that are no records of this version, %d details left out\n", o.out, len(r.Rows), len(r.Problems), r.left)
	return nil
}
