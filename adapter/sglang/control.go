package sglang

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
)

// abort ends rid in the engine, as far as that can be known, within its own
// time limit. Errors are not reported: the connection is closed as well, and
// an engine that is gone holds nothing.
func (c *Client) abort(ctx context.Context, rid string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.o.AbortTimeout)
	defer cancel()
	body := []byte(`{"rid":"` + rid + `","abort_all":false}`)
	status, _, err := c.call(ctx, http.MethodPost, c.base+"/abort_request", body)
	if err != nil || status != http.StatusNotFound {
		return
	}
	// A router has no such route; each of its workers has. Those that do not
	// know the id do nothing.
	workers, err := c.workers(ctx)
	if err != nil {
		return
	}
	var wg sync.WaitGroup
	for _, worker := range workers {
		wg.Go(func() { c.call(ctx, http.MethodPost, worker+"/abort_request", body) })
	}
	wg.Wait()
}

// workers lists the URLs of a router's workers.
func (c *Client) workers(ctx context.Context) ([]string, error) {
	status, body, err := c.call(ctx, http.MethodGet, c.base+"/workers", nil)
	if err != nil {
		return nil, err
	}
	var list struct {
		Workers []struct {
			URL string `json:"url"`
		} `json:"workers"`
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("GET /workers: status %d", status)
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("GET /workers: %w", err)
	}
	var urls []string
	for _, w := range list.Workers {
		// With data parallelism the router appends the rank to the URL.
		url, _, _ := strings.Cut(w.URL, "@")
		urls = append(urls, strings.TrimRight(url, "/"))
	}
	return urls, nil
}

// Info is what the engine says about itself.
type Info struct {
	Model      string // name or path of the served model
	MaxContext int    // tokens of prompt and answer together; 0 when it does not say
	Router     bool   // the URL is a router's
}

// Info asks the engine for its model and context length. An engine that is
// starting answers with an *Error of kind Unavailable.
func (c *Client) Info(ctx context.Context) (Info, error) {
	status, body, err := c.call(ctx, http.MethodGet, c.base+"/v1/models", nil)
	if err != nil {
		return Info{}, &Error{Kind: Unavailable, Err: unwrapURL(err), Attempts: 1}
	}
	if status != http.StatusOK {
		return Info{}, statusError(status, body)
	}
	var list struct {
		Data []struct {
			ID          string `json:"id"`
			MaxModelLen int    `json:"max_model_len"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return Info{}, bad("GET /v1/models: %v", err)
	}
	if len(list.Data) == 0 {
		return Info{}, &Error{Kind: Unavailable, Status: status, Message: "the engine lists no model"}
	}
	info := Info{Model: list.Data[0].ID, MaxContext: list.Data[0].MaxModelLen}
	_, err = c.workers(ctx)
	info.Router = err == nil
	return info, nil
}

// Health reports whether the engine answers; nil when it is ready.
func (c *Client) Health(ctx context.Context) error {
	status, body, err := c.call(ctx, http.MethodGet, c.base+"/health", nil)
	if err != nil {
		return &Error{Kind: Unavailable, Err: unwrapURL(err), Attempts: 1}
	}
	if status != http.StatusOK {
		return statusError(status, body)
	}
	return nil
}

// call makes a small request; the caller's ctx bounds it.
func (c *Client) call(ctx context.Context, method, url string, body []byte) (int, []byte, error) {
	hr, err := c.request(ctx, method, url, body)
	if err != nil {
		return 0, nil, err
	}
	res, err := c.o.HTTP.Do(hr)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return 0, nil, errors.Join(fmt.Errorf("read %s", url), err)
	}
	return res.StatusCode, data, nil
}
