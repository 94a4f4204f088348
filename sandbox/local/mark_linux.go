package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// killMarked kills what has a variable, NAME=VALUE, in its environment, until
// nothing does: a fork may have come between the look and the kill.
func killMarked(mark string) error {
	for range 500 {
		found := false
		names, err := os.ReadDir("/proc")
		if err != nil {
			return err
		}
		for _, entry := range names {
			pid := number(entry.Name())
			env, err := os.ReadFile("/proc/" + entry.Name() + "/environ")
			if pid == 0 || pid == os.Getpid() || err != nil || !hasVar(env, []byte(mark)) {
				continue
			}
			found = syscall.Kill(pid, syscall.SIGKILL) == nil || found
		}
		if !found {
			return nil
		}
		time.Sleep(10 * time.Millisecond) // what was killed takes a while to die on a busy machine
	}
	return errors.New("marked processes come up faster than they can be killed")
}

func hasVar(env, mark []byte) bool {
	for v := range bytes.SplitSeq(env, []byte{0}) {
		if bytes.Equal(v, mark) {
			return true
		}
	}
	return false
}

// number is the number that all of s spells, else 0.
func number(s string) int {
	n := 0
	for _, c := range s {
		if c < '0' || c > '9' {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// waitUnmounted waits until no process has mounts of a directory in sight:
// namespaces end some time after the processes in them were killed.
func waitUnmounted(ctx context.Context, dir string) error {
	for deadline := time.Now().Add(15 * time.Second); mounted(dir); {
		if time.Now().After(deadline) {
			return fmt.Errorf("something still uses %s", dir)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}

func mounted(dir string) bool {
	tables, _ := filepath.Glob("/proc/[0-9]*/mounts")
	for _, table := range tables {
		if text, _ := os.ReadFile(table); bytes.Contains(text, []byte(dir+"/")) {
			return true
		}
	}
	return false
}
