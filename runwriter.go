package agentrl

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// A runWriter keeps a run directory: a file for each record, the oldest
// removed when there are too many or they are too big. Several processes may
// write to one directory. It is safe for concurrent use.
type runWriter struct {
	dir    string
	sample float64 // share of the rollouts that are recorded; aborted ones always are
	most   int64   // bytes of all records; 0: no limit
	keep   int     // records; 0: no limit

	mu     sync.Mutex
	known  bool // count and bytes are those of the directory, as far as this process knows
	count  int
	bytes  int64
	warned time.Time // when the last failure was logged
	lost   int       // failures since
}

func newRunWriter(cfg Config) *runWriter {
	if cfg.RunDir == "" {
		return nil
	}
	return &runWriter{dir: cfg.RunDir, sample: cfg.RunSample, most: int64(cfg.RunMaxMB) << 20, keep: cfg.RunKeep}
}

// maxRecord is the size that a record is brought below by leaving parts out.
const maxRecord = 64 << 20

// write leaves the record in the directory. That it can't is logged, at most
// once a minute, and is no concern of the rollout.
func (w *runWriter) write(rec *RunRecord, log *slog.Logger) {
	size, err := w.save(rec)
	if err == nil {
		err = w.retain(size)
	}
	if err == nil {
		return
	}
	w.mu.Lock()
	w.lost++
	lost, quiet := w.lost, time.Since(w.warned) < time.Minute
	if !quiet {
		w.lost, w.warned = 0, time.Now()
	}
	w.mu.Unlock()
	if !quiet {
		log.Warn("run record was not written; the samples are not touched by that", "dir", w.dir, "records", lost, "err", err)
	}
}

// save writes the record under another name first, so that a reader sees the
// whole of it or nothing.
func (w *runWriter) save(rec *RunRecord) (size int64, err error) {
	limit := int64(maxRecord)
	if w.most > 0 {
		limit = min(limit, w.most)
	}
	data, err := encodeRecord(rec, limit)
	if err != nil {
		return 0, err
	}
	if err := os.MkdirAll(w.dir, 0o755); err != nil {
		return 0, err
	}
	name := recordName(rec)
	temp := filepath.Join(w.dir, "."+name+tempSuffix)
	if err := writeFile(temp, data); err != nil {
		return 0, errors.Join(err, removed(temp))
	}
	if err := os.Rename(temp, filepath.Join(w.dir, name)); err != nil {
		return 0, errors.Join(err, removed(temp))
	}
	return int64(len(data)), nil
}

const tempSuffix = ".tmp"

// recordName sorts by time and is unique.
func recordName(rec *RunRecord) string {
	instance := label(rec.InstanceID)
	if len(instance) > 100 {
		instance = instance[:100]
	}
	end := rec.Start.Add(time.Duration(rec.Seconds * float64(time.Second))).UTC()
	return fmt.Sprintf("%s-%s-a%d-%08x.json", end.Format("20060102T150405.000Z"), instance, rec.Attempt, rand.Uint32())
}

func writeFile(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync() // a rename that outlives its content would be a record cut short
	}
	return errors.Join(err, f.Close())
}

func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// encodeRecord leaves out the biggest parts of a record that is too big, and
// names them in it; so too what JSON cannot hold, since the NaN that a rollout
// failed for must not cost its record.
func encodeRecord(rec *RunRecord, limit int64) ([]byte, error) {
	out := *rec
	parts := partsOf(&out)
	data, err := json.Marshal(&out)
	if wrong := (*json.UnsupportedValueError)(nil); errors.As(err, &wrong) {
		for _, p := range parts {
			if _, bad := json.Marshal(p.value); bad != nil {
				p.leaveOut(&out)
			}
		}
		data, err = json.Marshal(&out)
	}
	if err == nil && int64(len(data)) > limit {
		data, err = shrink(&out, parts, limit)
	}
	if err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return data, nil
}

// shrink leaves out the biggest part, and the next, until the record is small enough.
func shrink(rec *RunRecord, parts []recordPart, limit int64) ([]byte, error) {
	for i := range parts {
		text, _ := json.Marshal(parts[i].value) // what can't be encoded was left out before
		parts[i].size = len(text)
	}
	slices.SortStableFunc(parts, func(a, b recordPart) int { return cmp.Compare(b.size, a.size) })
	for _, p := range parts {
		p.leaveOut(rec)
		data, err := json.Marshal(rec)
		if err != nil || int64(len(data)) <= limit {
			return data, err
		}
	}
	return nil, fmt.Errorf("the record has more than %d bytes without all that can be left out", limit)
}

// A recordPart is a part of a record that it can do without.
type recordPart struct {
	name  string
	value any
	drop  func()
	size  int // bytes of JSON
}

func partsOf(rec *RunRecord) []recordPart {
	return []recordPart{
		{name: "tokens", value: []any{rec.Segments, rec.Pieces}, drop: func() { rec.Segments, rec.Pieces = withoutTokens(rec.Segments), nil }},
		{name: "messages", value: []any{rec.Messages, rec.Toolsets}, drop: func() { rec.Messages, rec.Toolsets = nil, nil }},
		{name: "patch", value: rec.Patch, drop: func() { rec.Patch = nil }},
		{name: "row", value: rec.Row, drop: func() { rec.Row = Sample{} }},
		{name: "params", value: rec.Params, drop: func() { rec.Params = nil }},
		{name: "evaluation", value: rec.Eval, drop: func() { rec.Eval = nil }},
		{name: "reward", value: rec.Reward, drop: func() { rec.Reward = 0 }},
	}
}

func (p recordPart) leaveOut(rec *RunRecord) {
	if slices.Contains(rec.Omitted, p.name) {
		return
	}
	p.drop()
	rec.Omitted = append(slices.Clone(rec.Omitted), p.name)
}

// withoutTokens keeps what is known of each segment but its tokens.
func withoutTokens(segs []trajectory.Segment) []trajectory.Segment {
	out := make([]trajectory.Segment, len(segs))
	for i, s := range segs {
		s.Tokens, s.LossMask, s.LogProbs, s.Text = nil, nil, nil, ""
		out[i] = s
	}
	return out
}

// retain counts a new record and removes the oldest ones over the limits, a
// tenth more than it has to, so that the directory is not read each time.
func (w *runWriter) retain(size int64) error {
	if w.keep <= 0 && w.most <= 0 {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	w.bytes += size
	if w.known && !w.over(w.count, w.bytes, 1) {
		return nil
	}
	return w.prune()
}

// over reports whether that much is more than the given share of the limits.
func (w *runWriter) over(count int, bytes int64, share float64) bool {
	return w.keep > 0 && float64(count) > share*float64(w.keep) || w.most > 0 && float64(bytes) > share*float64(w.most)
}

// prune reads the directory and removes the oldest records over the limits,
// and what writers that died left half-written. w.mu is held.
func (w *runWriter) prune() error {
	entries, err := os.ReadDir(w.dir)
	if err != nil {
		return err
	}
	sizes := map[string]int64{}
	var names []string // by time
	w.count, w.bytes, w.known = 0, 0, true
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // another process removed it
		}
		switch {
		case isRecord(e):
			names = append(names, e.Name())
			sizes[e.Name()] = info.Size()
			w.count++
			w.bytes += info.Size()
		case strings.HasSuffix(e.Name(), ".json"+tempSuffix) && time.Since(info.ModTime()) > time.Hour:
			_ = removed(filepath.Join(w.dir, e.Name())) // again the next time
		}
	}
	if !w.over(w.count, w.bytes, 1) {
		return nil
	}
	for _, name := range names[:max(len(names)-1, 0)] { // the newest stays, whatever its size
		if !w.over(w.count, w.bytes, 0.9) {
			break
		}
		if err := removed(filepath.Join(w.dir, name)); err != nil {
			return err
		}
		w.count--
		w.bytes -= sizes[name]
	}
	return nil
}
