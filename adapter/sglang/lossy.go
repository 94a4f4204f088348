package sglang

import (
	"context"
	"fmt"
	"net/http"
	"slices"
)

// lossy are sampling parameters that every router leaves out without a word: its
// sampling_params are a closed struct (sgl-model-gateway 0.3.2 and later).
var lossy = [...]string{"custom_params", "logit_bias", "stop_regex", "structural_tag"}

// survives refuses a request whose sampling a router would change silently.
// custom_params pass where something is wanted: the answer then shows whether
// they arrived.
func (c *Client) survives(ctx context.Context, req Request) error {
	i := slices.IndexFunc(lossy[:], func(key string) bool {
		return req.Sampling[key] != nil && (key != "custom_params" || len(req.Want) == 0)
	})
	if i < 0 {
		return nil
	}
	routed, err := c.isRouted(ctx)
	if err != nil || !routed {
		return err
	}
	return &Error{Kind: Rejected, Message: fmt.Sprintf("sampling parameter %s: a router drops it silently, and there is one at %s; name a server itself, or leave the parameter out", lossy[i], c.base)}
}

// isRouted reports whether base is a router's, and remembers what it was told.
func (c *Client) isRouted(ctx context.Context) (bool, error) {
	if known := c.routed.Load(); known != nil {
		return *known, nil
	}
	status, _, err := c.call(ctx, http.MethodGet, c.base+"/workers", nil)
	if err != nil {
		return false, &Error{Kind: Unavailable, Err: unwrapURL(err)}
	}
	routed := status == http.StatusOK
	if routed || status == http.StatusNotFound {
		c.routed.Store(&routed)
	}
	return routed, nil
}
