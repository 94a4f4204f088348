package token

import (
	"fmt"
	"strings"
	"unicode/utf8"
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
		if c.AddPrefixSpace == nil {
			return nil, fmt.Errorf("%s without add_prefix_space", c.Type)
		}
		if *c.AddPrefixSpace {
			steps = append(steps, prefixSpace{})
		}
		if c.UseRegex == nil || *c.UseRegex {
			steps = append(steps, patterns(chars)[patternGPT2].(*scanner))
		}
		return steps, nil
	case "Digits":
		one := runScanner{chars, isNumber, 1}
		if c.IndividualDigits {
			return []splitter{isolate{one}}, nil
		}
		return []splitter{splitAt{one, "Contiguous", false}}, nil
	case "Split":
		step, err := c.split(chars)
		return []splitter{step}, err
	}
	return nil, fmt.Errorf("type %q is not known", c.Type)
}

func (c *component) split(chars *charTables) (splitter, error) {
	switch c.Behavior {
	case "Isolated", "Removed", "MergedWithPrevious", "MergedWithNext", "Contiguous":
	default:
		return nil, fmt.Errorf("%s with behavior %q is not known", c.Type, c.Behavior)
	}
	m, err := c.matcher(chars)
	if err != nil {
		return nil, err
	}
	whole := c.Behavior == "Isolated" || c.Behavior == "Removed" && c.Invert
	switch known, covers := m.(*scanner); {
	case covers && whole:
		return known, nil
	case c.Behavior == "Isolated":
		return isolate{m}, nil
	}
	return splitAt{m, c.Behavior, c.Invert}, nil
}

// matcher returns what finds the pattern of a Split.
func (c *component) matcher(chars *charTables) (matcher, error) {
	switch {
	case c.Pattern != nil && c.Pattern.String != nil && *c.Pattern.String != "":
		return literal(*c.Pattern.String), nil
	case c.Pattern == nil || c.Pattern.Regex == nil:
		return nil, fmt.Errorf("%s without a pattern", c.Type)
	}
	if m, ok := patterns(chars)[*c.Pattern.Regex]; ok {
		return m, nil
	}
	re, err := compileRegex(chars, *c.Pattern.Regex)
	if err != nil {
		return nil, fmt.Errorf("%s by %q: %w", c.Type, *c.Pattern.Regex, err)
	}
	return re, nil
}

// literal matches a string.
type literal string

func (l literal) end(s string, i int) int {
	if strings.HasPrefix(s[i:], string(l)) {
		return i + len(l)
	}
	return i
}

// prefixSpace puts a space before a piece that does not begin with one.
type prefixSpace struct{}

func (prefixSpace) split(e *encoding, step int, s string) {
	if !strings.HasPrefix(s, " ") {
		s = " " + s
	}
	e.piece(step+1, s)
}

// splitAt splits at matches, and does with them what its behavior says;
// inverted, what is between two matches counts as a match and they do not.
type splitAt struct {
	matcher
	behavior string
	invert   bool
}

func (p splitAt) split(e *encoding, step int, s string) {
	var parts []part
	for _, found := range p.parts(s) {
		found.match = found.match != p.invert
		last := len(parts) - 1
		join := false
		switch p.behavior {
		case "Removed":
			if found.match {
				continue
			}
		case "Contiguous":
			join = last >= 0 && parts[last].match == found.match
		case "MergedWithPrevious":
			join = last >= 0 && found.match && !parts[last].match
		case "MergedWithNext":
			join = last >= 0 && parts[last].match && !found.match
		}
		if join {
			parts[last].end, parts[last].match = found.end, found.match
			continue
		}
		parts = append(parts, found)
	}
	for _, part := range parts {
		e.piece(step+1, s[part.start:part.end])
	}
}

// A part of a text is a match or what lies between two.
type part struct {
	start, end int
	match      bool
}

func (p splitAt) parts(s string) []part {
	var parts []part
	gap := 0
	for i := 0; i < len(s); {
		j := p.end(s, i)
		if j == i {
			_, n := utf8.DecodeRuneInString(s[i:])
			i += n
			continue
		}
		if gap < i {
			parts = append(parts, part{gap, i, false})
		}
		parts = append(parts, part{i, j, true})
		gap, i = j, j
	}
	if gap < len(s) {
		parts = append(parts, part{gap, len(s), false})
	}
	return parts
}
