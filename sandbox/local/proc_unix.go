//go:build unix

package local

import (
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"sync"
	"syscall"
)

// heeding is how a command begins that an interrupt has to reach although this
// process ignores it, as what a shell started in the background does: children
// ignore it too, for good. It takes the env of coreutils 8.31 or later; elsewhere
// it is nil.
var heeding = sync.OnceValue(func() []string {
	if !signal.Ignored(syscall.SIGINT) || exec.Command("env", "--default-signal=INT,QUIT", "true").Run() != nil {
		return nil
	}
	return []string{"env", "--default-signal=INT,QUIT"}
})

// command is exec.Command with a child that does not ignore interrupts.
func command(name string, args ...string) *exec.Cmd {
	all := slices.Concat(heeding(), []string{name}, args)
	return exec.Command(all[0], all[1:]...)
}

// ownGroup makes a command the leader of a session and so of a process group.
func ownGroup(c *exec.Cmd) {
	if c.SysProcAttr == nil {
		c.SysProcAttr = &syscall.SysProcAttr{}
	}
	c.SysProcAttr.Setsid = true
}

// killGroup kills the group that pid leads. Its leader must not have been
// waited for yet: the number could be somebody else's.
func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }

func termGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }

// exitOf splits a process's end into its status and its signal.
func exitOf(s *os.ProcessState) (code int, signal string) {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 0, signalName(w.Signal())
	}
	return s.ExitCode(), ""
}

// shellCode is the status that a shell would report.
func shellCode(s *os.ProcessState) int {
	if w, ok := s.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		return 128 + int(w.Signal())
	}
	return s.ExitCode()
}

// pipeSize is what a pipe holds at most: what a process wrote before its end
// is within the next so many bytes.
const pipeSize = 64 << 10

// drain takes what is in a pipe now, without waiting.
func drain(r *os.File, to io.Writer) {
	raw, err := r.SyscallConn()
	if err != nil {
		return
	}
	chunk := make([]byte, pipeSize)
	for left := pipeSize; left > 0; {
		n := 0
		err := raw.Read(func(fd uintptr) bool {
			for {
				n, err = syscall.Read(int(fd), chunk[:left])
				if err != syscall.EINTR {
					return true
				}
			}
		})
		if err != nil || n <= 0 {
			return
		}
		_, _ = to.Write(chunk[:n])
		left -= n
	}
}

func signalName(s syscall.Signal) string {
	switch s {
	case syscall.SIGHUP:
		return "SIGHUP"
	case syscall.SIGINT:
		return "SIGINT"
	case syscall.SIGQUIT:
		return "SIGQUIT"
	case syscall.SIGILL:
		return "SIGILL"
	case syscall.SIGTRAP:
		return "SIGTRAP"
	case syscall.SIGABRT:
		return "SIGABRT"
	case syscall.SIGBUS:
		return "SIGBUS"
	case syscall.SIGFPE:
		return "SIGFPE"
	case syscall.SIGKILL:
		return "SIGKILL"
	case syscall.SIGSEGV:
		return "SIGSEGV"
	case syscall.SIGPIPE:
		return "SIGPIPE"
	case syscall.SIGALRM:
		return "SIGALRM"
	case syscall.SIGTERM:
		return "SIGTERM"
	case syscall.SIGUSR1:
		return "SIGUSR1"
	case syscall.SIGUSR2:
		return "SIGUSR2"
	case syscall.SIGXCPU:
		return "SIGXCPU"
	case syscall.SIGXFSZ:
		return "SIGXFSZ"
	case syscall.SIGSYS:
		return "SIGSYS"
	}
	return "signal " + s.String()
}
