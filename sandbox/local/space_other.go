//go:build !linux

package local

import (
	"context"
	"errors"
	"os/exec"

	"github.com/agentrl-go/agentrl/sandbox"
)

// space stands for the namespaces that only Linux has.
type space struct{}

var errLinux = errors.New("only Linux has namespaces and overlays")

func (*space) start(context.Context, *box) error { return errLinux }

func (*space) command(context.Context, *box, sandbox.Cmd, string) (*exec.Cmd, int, error) {
	return nil, 0, errLinux
}

func (*space) stop() error { return nil }

func (*space) dead() bool { return false }

// killMarked is for Linux, where an environment can be read: elsewhere only
// process groups are killed.
func killMarked(string) error { return nil }

func waitUnmounted(context.Context, string) error { return nil }
