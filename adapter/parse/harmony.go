package parse

import (
	"slices"
	"strings"
)

// The special tokens of the harmony format.
const (
	hStart     = "<|start|>"
	hChannel   = "<|channel|>"
	hMessage   = "<|message|>"
	hConstrain = "<|constrain|>"
	hEnd       = "<|end|>"
	hCall      = "<|call|>"
	hReturn    = "<|return|>"
)

func harmonyMarks() []string {
	return []string{hStart, hChannel, hMessage, hConstrain, hEnd, hCall, hReturn}
}

// A harmonyEvent is what SGLang makes of one block: a thought, text or a call.
type harmonyEvent struct {
	kind SpanKind
	text string
	raw  string // of a call: the block with its markup
}

// A harmonyToken is a special token, or the text between two (mark "").
type harmonyToken struct {
	mark       string
	start, end int
}

// harmonyEvents reads a whole text as SGLang does.
func harmonyEvents(text string) []harmonyEvent {
	var events []harmonyEvent
	switch {
	case strings.Contains(text, hChannel) || strings.Contains(text, hStart):
		r := harmonyReader{text: text, tokens: harmonyTokens(text)}
		r.read()
		events = r.events
	case harmonyWord(text, "analysis", "commentary", "assistantfinal"):
		events = harmonyPlain(text)
	}
	return dropFiller(events, strings.HasSuffix(pyStrip(text), hCall))
}

// dropFiller leaves out the word commentary where it follows a call.
func dropFiller(events []harmonyEvent, endsInCall bool) []harmonyEvent {
	var out []harmonyEvent
	filter, partial := false, ""
	for _, e := range events {
		if e.kind == SpanText {
			word := partial + asciiLower(pyStrip(e.text))
			switch {
			case !filter && partial == "":
			case word == "commentary":
				filter, partial = false, ""
				continue
			case strings.HasPrefix("commentary", word):
				partial = word
				continue
			default:
				filter, partial = false, ""
			}
		}
		if e.kind == SpanCall {
			partial = ""
		}
		filter = filter || e.kind == SpanCall || endsInCall
		out = append(out, e)
	}
	return out
}

// harmonyTokens cuts a text at its special tokens. Text after a token that is
// none of the format's runs on to the next mark behind its end.
func harmonyTokens(text string) []harmonyToken {
	var out []harmonyToken
	opens, ends := finder{text: text, markup: "<|"}, finder{text: text, markup: "|>"}
	unknown := false
	add := func(mark string, start, end int) {
		if end > start || mark != "" {
			out = append(out, harmonyToken{mark, start, end})
		}
	}
	pos := 0
	for pos < len(text) {
		at := opens.next(pos)
		if at < 0 {
			break
		}
		add("", pos, at)
		if mark := markAt(text, at, harmonyMarks()); mark != "" {
			pos = at + len(mark)
			add(mark, at, pos)
			continue
		}
		if isPartialMark(text[at:]) {
			add("", at, len(text))
			pos = len(text)
			break
		}
		unknown = true
		pos = at + len("<|")
		add("", at, pos)
		if end := ends.next(pos); end >= 0 {
			next := opens.next(end + len("|>"))
			if next < 0 {
				next = len(text)
			}
			add("", pos, next)
			pos = next
		}
	}
	if pos < len(text) {
		add("", pos, len(text))
	} else if unknown && endsInMark(text) {
		out = append(out, harmonyToken{"", pos, pos})
	}
	return out
}

func markAt(text string, at int, marks []string) string {
	for _, m := range marks {
		if strings.HasPrefix(text[at:], m) {
			return m
		}
	}
	return ""
}

func isPartialMark(tail string) bool {
	for _, m := range harmonyMarks() {
		if strings.HasPrefix(m, tail) {
			return true
		}
	}
	return false
}

func endsInMark(text string) bool {
	for _, m := range harmonyMarks() {
		if strings.HasSuffix(text, m) {
			return true
		}
	}
	return false
}

// A harmonyReader turns tokens into events.
type harmonyReader struct {
	text   string
	tokens []harmonyToken
	pos    int
	events []harmonyEvent
}

func (r *harmonyReader) emit(kind SpanKind, text, raw string) {
	r.events = append(r.events, harmonyEvent{kind, text, raw})
}

// read goes through the tokens until a block is incomplete: the rest is lost.
func (r *harmonyReader) read() {
	for r.pos < len(r.tokens) {
		t := r.tokens[r.pos]
		switch {
		case t.mark == hStart || t.mark == hChannel:
			if !r.block() {
				return
			}
			continue
		case t.mark != "":
		case r.pos == len(r.tokens)-1:
			text := r.text[t.start:t.end]
			if text = text[:len(text)-heldBack(text, harmonyMarks())]; text != "" {
				r.emit(SpanText, text, "")
			}
		case slices.Contains(harmonyMarks(), pyStrip(r.text[t.start:t.end])):
		case r.pos > 0 && r.tokens[r.pos-1].mark == hCall && asciiLower(pyStrip(r.text[t.start:t.end])) == "commentary":
		default:
			r.emit(SpanText, r.text[t.start:t.end], "")
		}
		r.pos++
	}
}

// heldBack is the length of the longest end of text that may be the beginning
// of one of the words.
func heldBack(text string, words []string) int {
	held := 0
	for _, w := range words {
		for k := min(len(w)-1, len(text)); k > held; k-- {
			if strings.HasPrefix(w, text[len(text)-k:]) {
				held = k
				break
			}
		}
	}
	return held
}

// find returns the first token from i on with one of the marks, or -1.
func (r *harmonyReader) find(i int, marks ...string) int {
	for ; i < len(r.tokens); i++ {
		for _, m := range marks {
			if r.tokens[i].mark == m {
				return i
			}
		}
	}
	return -1
}

// block reads one message; false says that it is incomplete.
func (r *harmonyReader) block() bool {
	first := r.pos
	p := first
	if r.tokens[p].mark == hStart {
		p++
	}
	message := r.find(p, hMessage)
	if message < 0 {
		return false
	}
	channel := r.find(p, hChannel)
	from := r.tokens[message].end
	if channel < 0 || channel > message {
		end := r.find(message+1, hEnd, hCall, hReturn)
		if end >= 0 {
			r.emit(SpanText, r.text[from:r.tokens[end].start], "")
			r.pos = end + 1
		}
		return end >= 0
	}
	name := channelName(r.text[r.tokens[channel+1].start:r.tokens[message].start])
	switch name {
	case "":
		return false
	case "final":
		r.final(message)
		return true
	}
	end := r.find(message+1, hEnd, hCall)
	if end < 0 {
		if name == "analysis" {
			r.emit(SpanReasoning, r.text[from:], "")
		}
		return false
	}
	content := r.text[from:r.tokens[end].start]
	switch {
	case r.tokens[end].mark == hCall:
		r.emit(SpanCall, pyStrip(content), r.text[r.tokens[first].start:r.tokens[end].end])
	case name == "analysis":
		r.emit(SpanReasoning, content, "")
	default:
		r.emit(SpanText, content, "")
	}
	r.pos = end + 1
	return true
}

// final reads the answer up to <|return|>, with the text right behind that, or
// to the end.
func (r *harmonyReader) final(message int) {
	from := r.tokens[message].end
	end := r.find(message+1, hReturn)
	if end < 0 {
		r.emit(SpanText, r.text[from:], "")
		r.pos = len(r.tokens)
		return
	}
	content := r.text[from:r.tokens[end].start]
	r.pos = end + 1
	if r.pos < len(r.tokens) && r.tokens[r.pos].mark == "" {
		content += r.text[r.tokens[r.pos].start:r.tokens[r.pos].end]
		r.pos++
	}
	r.emit(SpanText, content, "")
}

func channelName(header string) string {
	header = asciiLower(pyStrip(header))
	for _, name := range []string{"analysis", "commentary", "final"} {
		if strings.HasPrefix(header, name) {
			return name
		}
	}
	return ""
}
