package e2b

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/internal/retry"
	"github.com/agentrl-go/agentrl/sandbox"
)

const maxPages = 1000 // of 100 sandboxes each: a server whose token never ends is not followed for ever

// List implements sandbox.Reaper.
func (p *Provider) List(ctx context.Context, labels map[string]string) ([]sandbox.Listed, error) {
	if err := checkLabels(labels); err != nil {
		return nil, fmt.Errorf("e2b: list: %w", err)
	}
	var found []made
	err := retry.Do(ctx, p.opts.Wait, func(int) (err error) {
		found, err = p.list(ctx, labels)
		return err
	}, func(err error) retry.Verdict { return retry.Verdict{Again: transient(err), After: wait(err)} })
	if err != nil {
		return nil, fmt.Errorf("e2b: list: %w", err)
	}
	listed := make([]sandbox.Listed, len(found))
	for i, m := range found {
		listed[i] = sandbox.Listed{ID: m.SandboxID, Labels: m.Metadata, Created: m.StartedAt}
	}
	return listed, nil
}

// Kill implements sandbox.Reaper: as Close of the sandbox, and within ctx.
func (p *Provider) Kill(ctx context.Context, id string) error {
	if err := p.kill(ctx, id); err != nil {
		return fmt.Errorf("e2b: kill %s: %w", id, err)
	}
	return nil
}

// list names the sandboxes that carry all of the labels, running or paused.
func (p *Provider) list(ctx context.Context, labels map[string]string) ([]made, error) {
	q := url.Values{"limit": {"100"}, "state": {"running,paused"}}
	if len(labels) > 0 {
		q.Set("metadata", filter(labels))
	}
	var all []made
	for range maxPages {
		var page []made
		header, err := p.control(ctx, http.MethodGet, "/v2/sandboxes?"+q.Encode(), nil, &page)
		if err != nil {
			return nil, err
		}
		for _, m := range page {
			if hasLabels(m.Metadata, labels) { // a server may ignore the filter
				all = append(all, m)
			}
		}
		next := header.Get("X-Next-Token")
		if next == "" || next == q.Get("nextToken") {
			return all, nil
		}
		q.Set("nextToken", next)
	}
	return nil, fmt.Errorf("list has more than %d pages", maxPages)
}

func filter(labels map[string]string) string {
	var parts []string
	for k, v := range labels {
		parts = append(parts, k+"="+v)
	}
	slices.Sort(parts)
	return strings.Join(parts, "&")
}

func hasLabels(metadata, labels map[string]string) bool {
	for k, v := range labels {
		if metadata[k] != v {
			return false
		}
	}
	return true
}

// get asks for one sandbox; one that is not there is ErrGone.
func (p *Provider) get(ctx context.Context, id string) (made, error) {
	var m made
	_, err := p.control(ctx, http.MethodGet, "/sandboxes/"+url.PathEscape(id), nil, &m)
	if err == nil && m.SandboxID == "" {
		m.SandboxID = id
	}
	return m, err
}

// kill destroys a sandbox; one that is not there is destroyed. It retries
// within CloseTimeout, whatever the refusal: a sandbox that is left costs money.
func (p *Provider) kill(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, p.opts.CloseTimeout, fmt.Errorf("not destroyed within %v", p.opts.CloseTimeout))
	defer cancel()
	policy := p.opts.Wait
	policy.Retries, policy.Cap = max(policy.Retries, 8), 5*time.Second
	return retry.Do(ctx, policy, func(int) error {
		_, err := p.control(ctx, http.MethodDelete, "/sandboxes/"+url.PathEscape(id), nil, nil)
		if errors.Is(err, sandbox.ErrGone) {
			return nil
		}
		return err
	}, func(err error) retry.Verdict {
		return retry.Verdict{Again: transient(err), After: min(wait(err), 10*time.Second)}
	})
}

// alive asks the control plane whether a sandbox exists. An error means that
// it did not say.
func (p *Provider) alive(ctx context.Context, id string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	_, err := p.get(ctx, id)
	if errors.Is(err, sandbox.ErrGone) {
		return false, nil
	}
	return err == nil, err
}
