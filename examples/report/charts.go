package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/agentrl-go/agentrl"
)

// A bar is one line or column of a chart.
type bar struct {
	Label string
	Count int
	Share float64 // of the biggest bar, in percent
	Kind  string  // a class of page.css
}

// count makes bars of labels, the most frequent first.
func count(labels []string, kind func(string) string) []bar {
	n := map[string]int{}
	for _, l := range labels {
		n[l]++
	}
	var bars []bar
	for _, l := range slices.Sorted(maps.Keys(n)) {
		bars = append(bars, bar{Label: l, Count: n[l], Kind: kind(l)})
	}
	slices.SortStableFunc(bars, func(a, b bar) int { return b.Count - a.Count })
	return scaled(bars)
}

func scaled(bars []bar) []bar {
	most := 1
	for _, b := range bars {
		most = max(most, b.Count)
	}
	for i := range bars {
		bars[i].Share = 100 * float64(bars[i].Count) / float64(most)
	}
	return bars
}

func outcomes(rows []row) []bar {
	var labels []string
	for _, r := range rows {
		labels = append(labels, cmp.Or(r.Outcome, "none"))
	}
	return count(labels, outcomeKind)
}

// outcomeKind is an outcome's colour.
func outcomeKind(outcome string) string {
	switch outcome {
	case "solved":
		return "good"
	case "aborted", "grader_error", "base_broken":
		return "bad"
	case "partial":
		return "part"
	}
	return "plain"
}

func failures(rows []row) []bar {
	var labels []string
	for _, r := range rows {
		if r.Class != "" {
			labels = append(labels, r.Class+": "+r.Code)
		}
	}
	return count(labels, func(string) string { return "bad" })
}

// rewards is a histogram of the rewards of rollouts that were not aborted, in
// twenty-one steps over what there is.
func rewards(rows []row) []bar {
	var values []float64
	for _, r := range rows {
		if r.Class == "" {
			values = append(values, r.Reward)
		}
	}
	if len(values) == 0 {
		return nil
	}
	low, high := min(0, slices.Min(values)), max(1, slices.Max(values))
	const steps = 20
	bars := make([]bar, steps+1)
	for i := range bars {
		part := float64(i) / steps
		bars[i] = bar{Label: fmt.Sprintf("%.3g", low*(1-part)+high*part), Kind: "good"}
	}
	for _, v := range values {
		part := (v/2 - low/2) / (high/2 - low/2) // by halves: a custom reward may be as big as a float64
		bars[int(math.Round(steps*part))].Count++
	}
	return scaled(bars)
}

// lengths is a histogram of the longest response parts, each column twice as
// long as the one before.
func lengths(rows []row) []bar {
	n := map[int]int{}
	for _, r := range rows {
		if r.Length > 0 {
			n[bits(r.Length)]++
		}
	}
	if len(n) == 0 {
		return nil
	}
	all := slices.Sorted(maps.Keys(n))
	var bars []bar
	for b := all[0]; b <= all[len(all)-1]; b++ {
		bars = append(bars, bar{Label: "< " + thousands(1<<b), Count: n[b], Kind: "plain"})
	}
	return scaled(bars)
}

func bits(n int) int {
	b := 0
	for ; n > 0; n >>= 1 {
		b++
	}
	return b
}

func thousands(n int) string {
	if n >= 1024 {
		return fmt.Sprintf("%dk", n>>10)
	}
	return fmt.Sprint(n)
}

// A span is one stage of the waterfall: where the typical rollout is in it.
type span struct {
	Label       string
	Left, Width float64 // percent
	Median, P90 float64 // seconds
	Runs        int
}

// waterfall lays the stages of the rollouts end to end: each as long as its
// median, after the stages that come before it in a rollout.
func waterfall(rows []row) []span {
	seconds := map[string][]float64{}
	var order []string
	for _, r := range rows {
		for _, s := range r.stages {
			name := stageName(s)
			if seconds[name] == nil {
				order = append(order, name)
			}
			seconds[name] = append(seconds[name], s.Seconds)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(rank(a), rank(b)) })
	var spans []span
	at := 0.0
	for _, name := range order {
		all := seconds[name]
		slices.Sort(all)
		s := span{Label: name, Median: all[len(all)/2], P90: all[len(all)*9/10], Runs: len(all), Left: at}
		at += s.Median
		spans = append(spans, s)
	}
	for i := range spans {
		spans[i].Left *= 100 / max(at, 1e-9)
		spans[i].Width = 100 * spans[i].Median / max(at, 1e-9)
	}
	return spans
}

// stageName tells the grader's stages from the agent's.
func stageName(s agentrl.StageRecord) string {
	if s.Role == agentrl.RoleGrader && s.Stage != agentrl.StageEvaluate {
		return "grader " + string(s.Stage)
	}
	return string(s.Stage)
}

// rank is a stage's place in a rollout.
func rank(name string) int {
	order := []string{"parse", "open", "queue", "create", "install", "prepare", "run", "seal", "diff", "close",
		"grader queue", "grader create", "evaluate", "grader close", "finish", "drop"}
	if i := slices.Index(order, name); i >= 0 {
		return i
	}
	return len(order)
}

// top returns the n rows that come first by less, without changing rows.
func top(rows []row, n int, keep func(row) bool, order func(a, b row) int) []row {
	var out []row
	for _, r := range rows {
		if keep(r) {
			out = append(out, r)
		}
	}
	slices.SortStableFunc(out, order)
	return out[:min(n, len(out))]
}

func slowest(rows []row) []row {
	return top(rows, 10, func(row) bool { return true }, func(a, b row) int { return cmp.Compare(b.Seconds, a.Seconds) })
}

func failed(rows []row) []row {
	return top(rows, 10, func(r row) bool { return r.Class != "" }, func(a, b row) int { return b.Start.Compare(a.Start) })
}

// seconds words a duration.
func seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
