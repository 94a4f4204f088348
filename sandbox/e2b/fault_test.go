//go:build linux

package e2b_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/e2b"
	"github.com/agentrl-go/agentrl/sandbox/e2b/e2btest"
)

const refused e2btest.Kind = "refused"

const (
	ran      = "/tmp/ran" // a line for each time a command ran
	upload   = "/tmp/up/file"
	waitBody = "-lt 130" // in the script by which RunDetached waits
	spawn    = "cannot write the supervisor"
)

// An op is one column of the matrix: what is done, and where faults hit it.
type op struct {
	name, at, body string
	run            func(context.Context, *e2b.Provider, sandbox.Sandbox) error
}

var ops = []op{
	{"create", "create", "", func(ctx context.Context, p *e2b.Provider, _ sandbox.Sandbox) error {
		sb, err := p.Create(ctx, sandbox.Spec{Image: "base", Workdir: "/tmp"})
		if err != nil {
			return err
		}
		return sb.Close()
	}},
	{"exec", "Start", "", func(ctx context.Context, _ *e2b.Provider, sb sandbox.Sandbox) error {
		res, err := sb.Exec(ctx, sandbox.Cmd{Script: "echo x >>" + ran + "; sleep 0.7; echo out"})
		return wrong(err, string(res.Stdout), "out\n")
	}},
	{"spawn", "Start", spawn, detached},
	{"wait", "Start", waitBody, detached},
	{"upload", "POST /files", "", func(ctx context.Context, _ *e2b.Provider, sb sandbox.Sandbox) error {
		if err := sb.WriteFile(ctx, upload, "daemon", bytes.NewReader(content)); err != nil {
			return err
		}
		res, err := sb.Exec(ctx, sandbox.Cmd{Script: "cd /tmp/up && ls -A && wc -c <file && stat -c %U file", Replayable: true})
		return wrong(err, string(res.Stdout), fmt.Sprintf("file\n%d\ndaemon\n", len(content)))
	}},
	{"download", "GET /files", "", func(ctx context.Context, _ *e2b.Provider, sb sandbox.Sandbox) error {
		r, err := sb.ReadFile(ctx, "/tmp/big")
		if err != nil {
			return err
		}
		defer r.Close()
		got, err := io.ReadAll(r)
		if err == nil && !bytes.Equal(got, content) {
			err = errors.New("other bytes came")
		}
		return err
	}},
	{"close", "delete", "", func(_ context.Context, _ *e2b.Provider, sb sandbox.Sandbox) error { return sb.Close() }},
}

var content = bytes.Repeat([]byte("0123456789abcdef"), 1<<19) // 8 MB

func wrong(err error, got, want string) error {
	if err == nil && got != want {
		return fmt.Errorf("wrong output %q", got)
	}
	return err
}

func detached(ctx context.Context, _ *e2b.Provider, sb sandbox.Sandbox) error {
	exit, err := sandbox.RunDetached(ctx, sb, sandbox.Detached{Cmd: sandbox.Cmd{Script: "echo x >>" + ran + "; sleep 0.7; exit 5"}})
	if err == nil && exit.State == sandbox.Lost {
		return errLost
	}
	return wrong(err, fmt.Sprint(exit), fmt.Sprint(sandbox.Exit{Code: 5}))
}

var errLost = errors.New("the job is lost")

// class names what an orchestrator tells apart.
func class(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, errLost):
		return "lost"
	case errors.Is(err, sandbox.ErrGone):
		return "gone"
	case errors.As(err, new(*sandbox.RateLimitError)):
		return "rate"
	case errors.As(err, new(*sandbox.CapacityError)):
		return "capacity"
	case errors.Is(err, sandbox.ErrUnresponsive):
		return "unresponsive"
	case errors.Is(err, sandbox.ErrCut):
		return "cut"
	}
	return "other: " + err.Error()
}

// The matrix for a fault that happens once: the class of each op's outcome, in
// the order of ops. "+" behind it: the request was made again. What was not
// delivered is repeated whatever it is; a plain command that may have run is
// not, and its error says that it is unknown.
var once = []struct {
	kind e2btest.Kind
	want string
}{
	{refused, "ok ok ok ok ok ok ok"},
	{e2btest.ResetBefore, "ok+ cut ok+ ok+ ok+ ok+ ok+"},
	{e2btest.LoseReply, "ok cut ok+ ok+ ok+ ok+ ok+"},
	{e2btest.ResetAfter, "ok cut ok+ ok+ ok+ ok+ ok"},
	{e2btest.CutFrame, "ok cut ok+ ok+ ok+ ok+ ok"},
	{e2btest.CutUpload, "- - - - ok+ - -"},
	{e2btest.Hang, "ok+ cut ok+ ok+ ok+ ok+ ok+"},
	{e2btest.GatewayNotFound, "ok+ ok+ ok+ ok+ ok+ ok+ ok+"},
	{e2btest.GatewayClosed, "ok+ ok+ ok+ ok+ ok+ ok+ ok+"},
	{e2btest.GatewayText, "ok+ cut ok+ ok+ ok+ ok+ ok+"},
	{e2btest.TooFast, "ok+ ok+ ok+ ok+ ok+ ok+ ok+"},
	{e2btest.TooMany, "ok+ ok+ ok+ ok+ ok+ ok+ ok+"},
	{e2btest.Capacity, "ok+ cut ok+ ok+ ok+ ok+ ok+"},
	{e2btest.Placement, "ok+ cut ok+ ok+ ok+ ok+ ok+"},
	{e2btest.PlacementMade, "ok - - - - - -"},
	{e2btest.Conflict, "ok+ ok+ ok+ ok+ ok+ ok+ ok+"},
	{e2btest.KillSandbox, "gone|ok gone gone gone gone gone -"}, // the kill may come behind the first contact
	{e2btest.RestartEnvd, "ok cut lost lost ok ok -"},
}

// isCell reports whether a cell came out as wanted; a retry may be more than wanted.
func isCell(cell, want string) bool {
	return strings.TrimSuffix(cell, "+") == strings.TrimSuffix(want, "+") && (strings.HasSuffix(cell, "+") || !strings.HasSuffix(want, "+"))
}

func TestFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	var mu sync.Mutex
	cells := 0
	for _, row := range once {
		t.Run(string(row.kind), func(t *testing.T) {
			t.Parallel()
			var got []string
			for i, want := range strings.Fields(row.want) {
				if want == "-" {
					got = append(got, "-")
					continue
				}
				cell := faultCell(t, row.kind, 1, ops[i])
				if !slices.ContainsFunc(strings.Split(want, "|"), func(want string) bool { return isCell(cell, want) }) {
					t.Errorf("%s × %s: %s, want %s", row.kind, ops[i].name, cell, want)
				}
				got = append(got, ops[i].name+" "+cell)
				mu.Lock()
				cells++
				mu.Unlock()
			}
			t.Logf("figure: %s: %s", row.kind, strings.Join(got, ", "))
		})
	}
	t.Cleanup(func() { t.Logf("figure: %d cells, in each nothing ran twice and nothing was left alive", cells) })
}

// What a fault that never ends is called, for create, exec, upload and close.
var forEver = []struct {
	kind e2btest.Kind
	want string
}{
	{refused, "other unresponsive unresponsive other"},
	{e2btest.ResetBefore, "unresponsive cut unresponsive other"},
	{e2btest.GatewayNotFound, "other unresponsive unresponsive other"},
	{e2btest.GatewayText, "other cut unresponsive other"},
	{e2btest.TooMany, "rate rate rate rate"},
	{e2btest.Capacity, "capacity cut unresponsive capacity"},
	{e2btest.Placement, "capacity cut unresponsive capacity"},
}

func TestFaultsForEver(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test-all")
	}
	for _, row := range forEver {
		t.Run(string(row.kind), func(t *testing.T) {
			t.Parallel()
			var got []string
			for i, want := range strings.Fields(row.want) {
				o := ops[[]int{0, 1, 4, 6}[i]]
				cell, _, _ := strings.Cut(strings.TrimSuffix(faultCell(t, row.kind, -1, o), "+"), ":")
				if cell != want {
					t.Errorf("%s × %s: %s, want %s", row.kind, o.name, cell, want)
				}
				got = append(got, o.name+" "+cell)
			}
			t.Logf("figure: %s for ever: %s", row.kind, strings.Join(got, ", "))
		})
	}
}

// faultCell does one op under one fault, on a server of its own.
func faultCell(t *testing.T, kind e2btest.Kind, times int, o op) string {
	t.Helper()
	srv, p := start(t, e2btest.Options{NoKeepAlive: true}, func(o *e2b.Options) {
		o.PingInterval, o.CallTimeout, o.CreateTimeout, o.Retries = time.Second, time.Second, time.Second, 3
		o.CloseTimeout = 10 * time.Second
	})
	sb := boot(t, p, sandbox.Spec{Workdir: "/tmp"})
	if err := sb.WriteFile(t.Context(), "/tmp/big", "", bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	srv.Reset()
	inject(srv, kind, times, o)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	outcome := class(o.run(ctx, p, sb))
	requests := srv.Stats().Requests[o.at]
	srv.Reset()
	checkRuns(t, kind, o, sb)
	if err := sb.Close(); err != nil {
		t.Errorf("%s × %s: close: %v", kind, o.name, err)
	}
	if live := srv.Live(); len(live) > 0 {
		t.Errorf("%s × %s: left alive: %v", kind, o.name, live)
	}
	if o.at != "Start" && requests > 1 || o.at == "Start" && o.name == "exec" && requests > 1 || o.body != "" && retriedStart(kind, outcome) {
		outcome += "+"
	}
	return outcome
}

// retriedStart: of a job's many commands, those were repeated that a fault hit
// and that still ended well.
func retriedStart(kind e2btest.Kind, outcome string) bool { return kind != refused && outcome == "ok" }

func inject(srv *e2btest.Server, kind e2btest.Kind, times int, o op) {
	f := e2btest.Fault{Kind: kind, Op: o.at, Body: o.body, Times: times}
	switch {
	case kind == refused:
		srv.Refuse(map[int]int{1: 1, -1: 1 << 30}[times])
		return
	case kind == e2btest.KillSandbox || kind == e2btest.RestartEnvd:
		f.After = 300 * time.Millisecond
		if o.name == "create" { // it is made, and ends while it boots
			f.Op, f.After = "Start", time.Millisecond
		}
		if o.name == "upload" || o.name == "download" {
			f.After = 2 * time.Millisecond
		}
	}
	srv.Inject(f)
}

// checkRuns counts how often the command ran, in a sandbox that still lives.
func checkRuns(t *testing.T, kind e2btest.Kind, o op, sb sandbox.Sandbox) {
	t.Helper()
	if kind == e2btest.KillSandbox || o.name == "close" {
		return
	}
	res, err := sb.Exec(t.Context(), sandbox.Cmd{Script: "cat " + ran + " 2>/dev/null; true", Replayable: true})
	if err != nil {
		t.Errorf("%s × %s: afterwards: %v", kind, o.name, err)
	}
	if n := bytes.Count(res.Stdout, []byte("\n")); n > 1 {
		t.Errorf("%s × %s: it ran %d times", kind, o.name, n)
	}
}
