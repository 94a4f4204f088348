//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A process is what this process holds.
type process struct {
	heap        uint64 // bytes of the heap in use, after a collection
	resident    uint64 // bytes
	goroutines  int
	descriptors int
}

func measureProcess() process {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	p := process{heap: m.HeapInuse, goroutines: runtime.NumGoroutine()}
	if text, err := os.ReadFile("/proc/self/statm"); err == nil {
		if fields := bytes.Fields(text); len(fields) > 1 {
			pages, _ := strconv.ParseUint(string(fields[1]), 10, 64)
			p.resident = pages * uint64(os.Getpagesize())
		}
	}
	if fds, err := os.ReadDir("/proc/self/fd"); err == nil {
		p.descriptors = len(fds)
	}
	return p
}

// settle waits for what ends on its own: connections close in their own goroutines.
func settle(idle process) process {
	now := measureProcess()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		now = measureProcess()
		if now.goroutines <= idle.goroutines && now.descriptors <= idle.descriptors {
			break
		}
	}
	return now
}

// folder counts the files below a directory that keep accepts, and their bytes.
func folder(dir string, keep func(name string) bool) (files int, size int64) {
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !keep(e.Name()) {
			return nil // gone while we walk
		}
		if info, err := e.Info(); err == nil {
			files++
			size += info.Size()
		}
		return nil
	})
	return files, size
}

func ledgerEntry(name string) bool { return strings.HasSuffix(name, ".json") }

// A watch measures the world at intervals.
type watch struct {
	world *world
	out   io.Writer
	start time.Time
	lines []measures
}

// measures are one sample, in the order of series.
type measures [9]float64

// series are what is measured, and by how much its mean may differ from one
// third of the run to the next beside a tenth.
var series = [len(measures{})]struct {
	name  string
	unit  string
	slack float64
}{
	{"heap", "MB", 3}, {"resident", "MB", 12}, {"goroutines", "", 30}, {"descriptors", "", 20}, {"sandboxes", "", 5},
	{"ledger-entries", "", 5}, {"ledger", "kB", 5}, {"records", "", 20}, {"records-size", "MB", 0.5},
}

// begin measures at each interval until the function that it returns is called.
func (w *watch) begin(every time.Duration) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.measure()
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}

func (w *watch) measure() {
	p, cfg := measureProcess(), w.world.config()
	entries, ledger := folder(cfg.LedgerDir, ledgerEntry)
	records, size := folder(cfg.RunDir, func(string) bool { return true })
	m := measures{float64(p.heap) / 1e6, float64(p.resident) / 1e6, float64(p.goroutines), float64(p.descriptors), float64(len(w.world.boxes.Live())),
		float64(entries), float64(ledger) / 1e3, float64(records), float64(size) / 1e6}
	w.world.boxes.Reset() // what the double notes down would grow
	w.lines = append(w.lines, m)
	line := fmt.Sprintf("%8s rollouts=%d", time.Since(w.start).Round(time.Second), w.world.tally.done())
	for i, s := range series {
		line += fmt.Sprintf(" %s=%.4g%s", s.name, m[i], s.unit)
	}
	fmt.Fprintln(w.out, line)
}

// judge compares the last third of the run with the second, series by series.
func (w *watch) judge() error {
	third := len(w.lines) / 3
	if third < 3 {
		fmt.Fprintf(w.out, "%d samples: too few to tell what is flat\n", len(w.lines))
		return nil
	}
	var errs []error
	for i, s := range series {
		before, after := mean(w.lines[third:2*third], i), mean(w.lines[2*third:], i)
		verdict := "flat"
		if after > before*1.1+s.slack {
			verdict = "GROWS"
			errs = append(errs, errors.New(s.name+" grows"))
		}
		fmt.Fprintf(w.out, "%-14s %10.4g → %10.4g %-2s  %s\n", s.name, before, after, s.unit, verdict)
	}
	return errors.Join(errs...)
}

func mean(lines []measures, i int) float64 {
	sum := 0.0
	for _, m := range lines {
		sum += m[i]
	}
	return sum / float64(len(lines))
}
