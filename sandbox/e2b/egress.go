package e2b

import (
	"context"
	"fmt"

	"github.com/agentrl-go/agentrl/internal/netprobe"
	"github.com/agentrl-go/agentrl/sandbox"
)

// proveEgress shows from inside that the network is what the spec says: a
// server that does not know the create's network fields ignores them.
func (s *Sandbox) proveEgress(ctx context.Context, spec sandbox.Spec) error {
	if spec.Egress == sandbox.EgressOpen {
		return nil
	}
	var reach []string
	if spec.Egress == sandbox.EgressAdapter {
		addr, err := netprobe.Addr(spec.Adapter)
		if err != nil {
			return fmt.Errorf("egress %q: %w: %w", spec.Egress, sandbox.ErrInvalid, err)
		}
		reach = append(reach, addr)
	}
	script, err := netprobe.Script(reach, s.p.opts.Outside)
	if err != nil {
		return err
	}
	res, err := s.Exec(ctx, sandbox.Cmd{Script: script, Replayable: true})
	if err != nil {
		return fmt.Errorf("prove egress %q: %w", spec.Egress, attribute(ctx, err))
	}
	if err := netprobe.Verdict(res.Code, string(res.Stdout)); err != nil {
		return fmt.Errorf("egress %q is not kept: %w: %w", spec.Egress, sandbox.ErrInvalid, err)
	}
	return nil
}
