package local

import (
	"bytes"
	"errors"
	"os"
	"syscall"
)

// killMarked kills what has a variable, NAME=VALUE, in its environment, until
// nothing does: a fork may have come between the look and the kill.
func killMarked(mark string) error {
	for range 50 {
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
