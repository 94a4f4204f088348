package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/agentrl-go/agentrl"
)

// An output is the file of samples. A rollout's samples are appended in one
// write; what a killed writer left of one is cut off when the file is opened
// again. It is safe for concurrent use.
type output struct {
	mu   sync.Mutex
	file *os.File
	done map[int64]bool // indices of rollouts that are in the file, whole
}

// openOutput reads what is there and cuts an unfinished rollout off the end.
func openOutput(path string) (*output, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	o := &output{file: f, done: map[int64]bool{}}
	end, err := o.scan()
	if err == nil {
		err = f.Truncate(end)
	}
	if err == nil {
		_, err = f.Seek(end, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return o, nil
}

// scan returns where the last whole rollout ends.
func (o *output) scan() (end int64, err error) {
	in := bufio.NewReader(o.file)
	var at int64
	for line := 1; ; line++ {
		data, err := in.ReadBytes('\n')
		if err == io.EOF {
			return end, nil // a line without its end was being written
		}
		if err != nil {
			return 0, err
		}
		at += int64(len(data))
		var s agentrl.Sample
		if err := json.Unmarshal(data, &s); err != nil || s.Index == nil {
			return 0, fmt.Errorf("line %d is no sample with an index: move the file away to start anew: %v", line, err)
		}
		if last(s) {
			o.done[*s.Index] = true
			end = at
		}
	}
}

// last reports whether the sample is the last of its rollout.
func last(s agentrl.Sample) bool {
	segment, ok := s.Metadata["segment"].(map[string]any)
	if !ok {
		return true // an aborted rollout has one sample and no segments
	}
	index, _ := segment["index"].(json.Number).Int64()
	count, _ := segment["count"].(json.Number).Int64()
	return index == count-1
}

func (o *output) has(index int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.done[index]
}

// add appends one rollout.
func (o *output) add(samples []agentrl.Sample) error {
	var lines bytes.Buffer
	for _, s := range samples {
		data, err := json.Marshal(s)
		if err != nil {
			return err
		}
		lines.Write(append(data, '\n'))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := o.file.Write(lines.Bytes()); err != nil {
		return err
	}
	o.done[*samples[0].Index] = true
	return nil
}

// Close closes the file.
func (o *output) Close() error { return o.file.Close() }
