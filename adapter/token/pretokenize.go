package token

import (
	"fmt"
	"strings"
)

// splitters returns what a pre-tokenizer does, step by step, and whether its
// last step turns text into byte-level characters.
func (c *component) splitters(chars *charTables) (steps []splitter, byteLevel bool, err error) {
	if c == nil {
		return nil, false, nil
	}
	parts := []component{*c}
	if c.Type == "Sequence" {
		parts = c.PreTokenizers
	}
	for i := range parts {
		if byteLevel {
			return nil, false, fmt.Errorf("%s after ByteLevel is not supported", parts[i].Type)
		}
		step, err := parts[i].splitters1(chars)
		if err != nil {
			return nil, false, err
		}
		steps = append(steps, step...)
		byteLevel = parts[i].Type == "ByteLevel"
	}
	return steps, byteLevel, nil
}

// splitters1 returns the steps of a part that is no sequence.
func (c *component) splitters1(chars *charTables) ([]splitter, error) {
	switch c.Type {
	case "ByteLevel":
		var steps []splitter
		if c.AddPrefixSpace == nil || *c.AddPrefixSpace {
			steps = append(steps, prefixSpace{})
		}
		if c.UseRegex == nil || *c.UseRegex {
			steps = append(steps, patterns(chars)[patternGPT2])
		}
		return steps, nil
	case "Split":
		step, err := c.split(chars)
		return []splitter{step}, err
	}
	return nil, fmt.Errorf("type %q is not known", c.Type)
}

func (c *component) split(chars *charTables) (splitter, error) {
	switch {
	case c.Pattern == nil:
		return nil, fmt.Errorf("Split without a pattern")
	case c.Pattern.String != nil && *c.Pattern.String != "":
		if c.Behavior != "MergedWithPrevious" || c.Invert {
			return nil, fmt.Errorf("Split at a string is only known as MergedWithPrevious, not inverted")
		}
		return splitAfter(*c.Pattern.String), nil
	case c.Pattern.Regex != nil:
		step, ok := patterns(chars)[*c.Pattern.Regex]
		if !ok {
			return nil, fmt.Errorf("Split by a pattern that is not known: %s", *c.Pattern.Regex)
		}
		_, covers := step.(*scanner)
		if whole := c.Behavior == "Isolated" || c.Behavior == "Removed" && c.Invert && covers; !whole {
			return nil, fmt.Errorf("Split with behavior %s (invert %t) is not known", c.Behavior, c.Invert)
		}
		return step, nil
	}
	return nil, fmt.Errorf("Split without a pattern")
}

// prefixSpace puts a space before a piece that does not begin with one.
type prefixSpace struct{}

func (prefixSpace) split(e *encoding, step int, s string) {
	if !strings.HasPrefix(s, " ") {
		s = " " + s
	}
	e.piece(step+1, s)
}

// splitAfter splits after each occurrence of a string.
type splitAfter string

func (p splitAfter) split(e *encoding, step int, s string) {
	for len(s) > 0 {
		end := len(s)
		if i := strings.Index(s, string(p)); i >= 0 {
			end = i + len(p)
		}
		e.piece(step+1, s[:end])
		s = s[end:]
	}
}
