package docker

import (
	"context"
	"fmt"
	"net/http"
	"strings"
)

// Commit keeps the sandbox's file system as an image of the daemon, under a
// reference REPOSITORY:TAG, so that what was prepared in it need not be done
// again in each. An image that has the reference already loses it. Processes go
// on; what they write meanwhile may be in the image or not. The labels of the
// sandbox are the image's, and of every container of it that has none of those
// names: prepare in a sandbox without labels. It takes as long as ctx allows.
func (s *Sandbox) Commit(ctx context.Context, reference string) error {
	repo, tag, ok := strings.Cut(reference, ":")
	if !ok || repo == "" || tag == "" {
		return fmt.Errorf("docker: commit: %q is not of the form REPOSITORY:TAG", reference)
	}
	path := "/commit?" + query("container", s.name, "repo", repo, "tag", tag, "pause", "true")
	resp, err := s.p.do(ctx, http.MethodPost, path, strings.NewReader("{}"), "Content-Type", "application/json")
	if err != nil {
		return fmt.Errorf("docker: commit: %w", err)
	}
	drain(resp.Body)
	return nil
}

// Forget removes an image's reference, and the image when it had no other. A
// missing one is no error.
func (p *Provider) Forget(ctx context.Context, reference string) error {
	err := p.call(ctx, http.MethodDelete, "/images/"+reference, nil, nil)
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	return err
}
