package local

import (
	"io"
	"os"
	"os/exec"
)

func command(name string, args ...string) *exec.Cmd { return exec.Command(name, args...) }

// Windows has neither process groups nor signals of this kind: a command is
// killed alone.
func ownGroup(*exec.Cmd) {}

func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}

func termGroup(pid int) { killGroup(pid) }

func exitOf(s *os.ProcessState) (code int, signal string) { return s.ExitCode(), "" }

func shellCode(s *os.ProcessState) int { return s.ExitCode() }

func drain(r *os.File, to io.Writer) {}
