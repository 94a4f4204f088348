package e2b

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"strings"

	"github.com/agentrl-go/agentrl/sandbox"
)

// A Template is what an image is at the server.
type Template struct {
	ID       string            // template id or alias, may carry ":tag"
	Metadata map[string]string // sent with the create, beside the labels
	Env      map[string]string // the image's own environment (PATH …), under every command's
}

// An ImageResolver turns an image reference into a template. E2B boots
// templates only; compatible servers take an image by metadata. It is called
// concurrently. An image it does not know is sandbox.ErrNoImage.
type ImageResolver interface {
	Resolve(ctx context.Context, image string) (Template, error)
}

// MetadataImages boots one template and names the image in the metadata. A
// server that does not know the key ignores it without a word; Create notices
// by the missing work directory.
type MetadataImages struct {
	Key      string // "e2b.agents.kruise.io/image"
	Size     string // sent as Key's prefix + "/size", or "size" for a key without one; "" sends none
	Template string // "" for "base"
}

// Resolve implements ImageResolver. It does not ask anybody.
func (m MetadataImages) Resolve(_ context.Context, image string) (Template, error) {
	if m.Key == "" || image == "" {
		return Template{}, fmt.Errorf("image %q by metadata key %q: both must be set: %w", image, m.Key, sandbox.ErrInvalid)
	}
	t := Template{ID: m.Template, Metadata: map[string]string{m.Key: image}}
	if t.ID == "" {
		t.ID = "base"
	}
	if m.Size != "" {
		t.Metadata[sizeKey(m.Key)] = m.Size
	}
	return t, nil
}

// sizeKey stands beside the image key: "a.b/image" gives "a.b/size".
func sizeKey(key string) string {
	if dir := path.Dir(key); dir != "." {
		return dir + "/size"
	}
	return "size"
}

// A TemplateMap boots templates that were built before, one an image.
type TemplateMap map[string]Template

// ReadTemplateMap reads a JSON object from image reference to template: a
// string (id or alias), or {"id": …, "env": {…}, "metadata": {…}}.
func ReadTemplateMap(file string) (TemplateMap, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("e2b: template map: %w", err)
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(b, &raw); err != nil {
		return nil, fmt.Errorf("e2b: template map %s: want a JSON object from image to template: %w", file, err)
	}
	m := make(TemplateMap, len(raw))
	for image, v := range raw {
		var t Template
		if json.Unmarshal(v, &t.ID) != nil {
			if err := json.Unmarshal(v, &t); err != nil {
				return nil, fmt.Errorf("e2b: template map %s: image %q: want a string or an object: %w", file, image, err)
			}
		}
		if t.ID == "" {
			return nil, fmt.Errorf("e2b: template map %s: image %q has no template id", file, image)
		}
		m[image] = t
	}
	return m, nil
}

// Resolve implements ImageResolver.
func (m TemplateMap) Resolve(_ context.Context, image string) (Template, error) {
	t, ok := m[image]
	if !ok {
		return Template{}, fmt.Errorf("%w: %q is not among the %d images of the template map; build its template and add it", sandbox.ErrNoImage, image, len(m))
	}
	return t, nil
}

// NamedImages boots the template that is named as the image, with what names
// may not have replaced: "docker.io/swe/django:1.2" is
// "docker-io-swe-django-1-2". A plain template name stays as it is.
type NamedImages struct{}

// Resolve implements ImageResolver.
func (NamedImages) Resolve(_ context.Context, image string) (Template, error) {
	id := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, image)
	id = strings.Trim(id, "-")
	if id == "" {
		return Template{}, fmt.Errorf("%w: %q leaves no template name", sandbox.ErrNoImage, image)
	}
	return Template{ID: id}, nil
}
