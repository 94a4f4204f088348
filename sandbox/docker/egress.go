package docker

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"github.com/agentrl-go/agentrl/internal/netns"
	"github.com/agentrl-go/agentrl/internal/netprobe"
	"github.com/agentrl-go/agentrl/internal/shell"
	"github.com/agentrl-go/agentrl/sandbox"
)

// closeNetwork opens the one way that a restricted sandbox has, and proves
// from inside that it is the only one.
func (s *Sandbox) closeNetwork(ctx context.Context, spec sandbox.Spec) error {
	if spec.Egress == sandbox.EgressOpen {
		return nil
	}
	var reach []string
	if spec.Egress == sandbox.EgressAdapter {
		addr, err := netprobe.Addr(spec.Adapter)
		if err != nil {
			return err
		}
		if s.p.opts.AdapterNetwork == "" {
			if err := s.letOut(ctx, addr); err != nil {
				return fmt.Errorf("egress %q needs root on the daemon's own machine, or a network for it in AdapterNetwork: %w", spec.Egress, err)
			}
		}
		reach = append(reach, addr)
	}
	script, err := netprobe.Script(reach, s.p.opts.Outside)
	if err != nil {
		return err
	}
	res, err := s.Exec(ctx, sandbox.Cmd{Script: script, Replayable: true})
	if err != nil {
		return fmt.Errorf("prove egress %q: %w", spec.Egress, err)
	}
	if err := netprobe.Verdict(res.Code, string(res.Stdout)); err != nil {
		return fmt.Errorf("egress %q is not kept: %w: %w", spec.Egress, sandbox.ErrInvalid, err)
	}
	return nil
}

// letOut makes the adapter's address reachable in the container's empty
// network. A name gets an entry in its hosts file and an address of its own
// loopback.
func (s *Sandbox) letOut(ctx context.Context, addr string) error {
	var v struct{ State struct{ Pid int } }
	if err := s.p.call(ctx, http.MethodGet, "/containers/"+s.name+"/json", nil, &v); err != nil {
		return err
	}
	if v.State.Pid == 0 {
		return fmt.Errorf("%w: it does not run", sandbox.ErrGone)
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	inside, to := addr, addr
	if net.ParseIP(host) == nil {
		inside = net.JoinHostPort("127.0.0.1", port)
		if host == HostName { // which is this machine, as seen from a container
			to = inside
		}
		entry := "127.0.0.1 " + host
		script := "grep -qxF " + shell.Quote(entry) + " /etc/hosts || echo " + shell.Quote(entry) + " >>/etc/hosts"
		if _, err := sandbox.Output(ctx, s, sandbox.Cmd{Script: script, Replayable: true}); err != nil {
			return err
		}
	}
	relay, err := netns.Listen(fmt.Sprintf("/proc/%d/ns/net", v.State.Pid), inside, to)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.life.Err() != nil {
		_ = relay.Close()
		return errClosed
	}
	s.relay = relay
	return nil
}
