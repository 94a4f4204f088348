package parse

import (
	"slices"
	"strings"
)

// harmonyInput finds the special tokens of an output by its ids, so that a
// mark which the model typed is none. Without ids, or where they do not fit
// the text, every mark in the text counts and exact is false.
func harmonyInput(in Input) (text string, marks []harmonyMark, exact bool) {
	if len(in.IDs) == 0 {
		return in.Text, nil, false
	}
	if in.Decode != nil {
		text, marks := decodedMarks(in)
		if in.Text == text {
			return text, onlyHarmony(marks), true
		}
	}
	marks, ok := alignedMarks(in)
	return in.Text, onlyHarmony(marks), ok
}

func onlyHarmony(marks []harmonyMark) []harmonyMark {
	return slices.DeleteFunc(marks, func(m harmonyMark) bool { return !slices.Contains(harmonyMarks(), m.mark) })
}

// decodedMarks decodes what stands between the special tokens.
func decodedMarks(in Input) (string, []harmonyMark) {
	var b strings.Builder
	var marks []harmonyMark
	start := 0
	for i, id := range in.IDs {
		special, ok := in.Specials[id]
		if !ok {
			continue
		}
		if i > start {
			b.WriteString(in.Decode(in.IDs[start:i]))
		}
		marks = append(marks, harmonyMark{special, b.Len()})
		b.WriteString(special)
		start = i + 1
	}
	if start < len(in.IDs) {
		b.WriteString(in.Decode(in.IDs[start:]))
	}
	return b.String(), marks
}

// A tokenGap is a special token and how many ordinary ones stand before it.
type tokenGap struct {
	mark   string
	before int
}

const (
	bytesPerToken = 4
	maxAlignment  = 1 << 22 // pairs of places that are compared at most
)

// alignedMarks finds which marks in the text are the special tokens: those
// that leave between them the likeliest lengths for the number of ordinary
// tokens there. Where there are no more marks than tokens there is no choice.
func alignedMarks(in Input) ([]harmonyMark, bool) {
	gaps, tail := tokenGaps(in)
	before, size := []place{{}}, 0 // the text's start
	ways := make([][]place, len(gaps))
	work := 0
	for i, g := range gaps {
		for at := strings.Index(in.Text, g.mark); at >= 0; at = indexFrom(in.Text, g.mark, at+len(g.mark)) {
			ways[i] = append(ways[i], place{at: at, cost: -1})
		}
		if work += len(ways[i]) * len(before); work > maxAlignment {
			return nil, false
		}
		for j := range ways[i] {
			ways[i][j].reach(g, before, size)
		}
		before, size = ways[i], len(g.mark)
	}
	end := place{at: len(in.Text), cost: -1}
	if end.reach(tokenGap{before: tail}, before, size); end.cost < 0 {
		return nil, false
	}
	marks := make([]harmonyMark, len(gaps))
	for i, at := len(gaps)-1, end.from; i >= 0; i-- {
		marks[i] = harmonyMark{gaps[i].mark, ways[i][at].at}
		at = ways[i][at].from
	}
	return marks, true
}

func tokenGaps(in Input) (gaps []tokenGap, tail int) {
	for _, id := range in.IDs {
		if special, ok := in.Specials[id]; ok {
			gaps = append(gaps, tokenGap{special, tail})
			tail = 0
		} else {
			tail++
		}
	}
	return gaps, tail
}

// A place is where a token may stand; cost is that of the best way there, -1
// is none, and from the place of the token before on that way.
type place struct{ at, cost, from int }

// gapCost is how unlikely it is that so many tokens make so many bytes; -1 is
// impossible.
func gapCost(bytes, tokens int) int {
	if bytes < tokens || tokens == 0 && bytes > 0 {
		return -1
	}
	return max(bytes-bytesPerToken*tokens, bytesPerToken*tokens-bytes)
}

// reach finds the best way to a place from those of the token before.
func (p *place) reach(g tokenGap, before []place, size int) {
	for j, prev := range before {
		end := prev.at + size
		if prev.cost < 0 || end > p.at {
			continue
		}
		if c := gapCost(p.at-end, g.before); c >= 0 && (p.cost < 0 || prev.cost+c < p.cost) {
			p.cost, p.from = prev.cost+c, j
		}
	}
}
