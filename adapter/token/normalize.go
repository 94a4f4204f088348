package token

import (
	"fmt"
	"strings"
)

// A normalizer changes a segment of text before it is split.
type normalizer interface {
	normalize(s string) string
}

// normalize applies all normalizers.
func (t *Tokenizer) normalize(s string) string {
	for _, n := range t.normalizers {
		s = n.normalize(s)
	}
	return s
}

// normalizers returns what a normalizer does, step by step.
func (c *component) normalizers(chars *charTables) ([]normalizer, error) {
	if c == nil {
		return nil, nil
	}
	switch c.Type {
	case "NFC":
		return []normalizer{&chars.nfc}, nil
	case "Prepend":
		return []normalizer{prepend(c.Prepend)}, nil
	case "Replace":
		from, to, err := c.replacement()
		return []normalizer{replace{from, to}}, err
	case "Sequence":
		var all []normalizer
		for i := range c.Normalizers {
			n, err := c.Normalizers[i].normalizers(chars)
			if err != nil {
				return nil, err
			}
			all = append(all, n...)
		}
		return all, nil
	}
	return nil, fmt.Errorf("type %q is not known", c.Type)
}

// replacement returns what a Replace replaces and by what.
func (c *component) replacement() (from, to string, err error) {
	if c.Pattern == nil || c.Pattern.String == nil || *c.Pattern.String == "" || c.Content == nil {
		return "", "", fmt.Errorf("%s is only known with a String pattern", c.Type)
	}
	return *c.Pattern.String, *c.Content, nil
}

type prepend string

func (p prepend) normalize(s string) string {
	if s == "" {
		return s
	}
	return string(p) + s
}

type replace struct{ from, to string }

func (r replace) normalize(s string) string { return strings.ReplaceAll(s, r.from, r.to) }
