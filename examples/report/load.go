package main

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
)

// A row is one rollout in the page's tables. Its JSON names are page.js's.
type row struct {
	ID       int       `json:"id"` // names its details
	Instance string    `json:"instance"`
	Attempt  int       `json:"attempt"`
	Mode     string    `json:"mode"`
	Outcome  string    `json:"outcome"` // "aborted" for a failure
	Class    string    `json:"class"`   // of the failure; "" for none
	Code     string    `json:"code"`
	Stage    string    `json:"stage"` // that failed
	Reward   float64   `json:"reward"`
	Start    time.Time `json:"start"`
	Seconds  float64   `json:"seconds"`
	Turns    int       `json:"turns"`
	Failed   int       `json:"failed_turns"`
	Trained  int       `json:"trained"`  // tokens
	Length   int       `json:"length"`   // tokens of the longest response part
	Segments int       `json:"segments"` // token sequences
	Splits   string    `json:"splits"`   // causes, each once
	Message  string    `json:"message"`  // of the failure, or the evaluation's reason

	path   string
	stages []agentrl.StageRecord
}

// loaded is all that the page shows but the details.
type loaded struct {
	Dir      string
	RunIDs   []string
	Rows     []row
	Problems []string // files that could not be read, and why
	left     int      // details that were left out
}

// load reads the records of a directory, one at a time.
func load(dir, id string) (*loaded, error) {
	paths, err := agentrl.RunRecordPaths(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no directory %s: pass -run DIR, the AGENTRL_RUN_DIR of the run", dir)
	}
	if err != nil {
		return nil, err
	}
	r := &loaded{Dir: dir}
	for _, path := range paths {
		rec, err := agentrl.ReadRunRecord(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // retention removed it
		case err != nil:
			r.Problems = append(r.Problems, err.Error())
		case id == "" || rec.RunID == id:
			r.add(rec, path)
		}
	}
	return r, nil
}

func (r *loaded) add(rec *agentrl.RunRecord, path string) {
	if !slices.Contains(r.RunIDs, rec.RunID) {
		r.RunIDs = append(r.RunIDs, rec.RunID)
	}
	row := row{
		ID: len(r.Rows), Instance: rec.InstanceID, Attempt: rec.Attempt, Mode: rec.Mode, Outcome: rec.Outcome, Reward: rec.Reward,
		Start: rec.Start, Seconds: rec.Seconds, Turns: len(rec.Turns), Segments: len(rec.Segments), Splits: splits(rec.Segments),
		path: path, stages: rec.Stages,
	}
	for _, t := range rec.Turns {
		if t.Err != "" {
			row.Failed++
		}
	}
	for _, s := range rec.Segments {
		row.Trained += s.Owned
		row.Length = max(row.Length, len(s.LossMask))
	}
	if f := rec.Failure; f != nil {
		row.Class, row.Code, row.Stage, row.Message = string(f.Class), f.Code, string(f.Stage), f.Message
	} else if rec.Eval != nil {
		row.Message = rec.Eval.Reason
	}
	if len(row.Message) > 300 {
		row.Message = strings.ToValidUTF8(row.Message[:300], "") + " …"
	}
	r.Rows = append(r.Rows, row)
}

// splits lists why the session became more than one sequence.
func splits(segs []trajectory.Segment) string {
	var causes []string
	for _, s := range segs {
		if s.Split != nil && !slices.Contains(causes, s.Split.Cause) {
			causes = append(causes, s.Split.Cause)
		}
	}
	return strings.Join(causes, " ")
}
