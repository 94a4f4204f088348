package parse

import "strings"

const assistantFinal = "assistantfinal"

// harmonyPlain reads the format with its special tokens left out, which leaves
// "analysis…assistantfinal…".
func harmonyPlain(text string) []harmonyEvent {
	lower := asciiLower(text)
	channel, rest, headed := plainHeader(text)
	if at := strings.Index(asciiLower(rest), assistantFinal); headed && at >= 0 {
		var out []harmonyEvent
		if thought := pyStrip(rest[:at]); thought != "" {
			out = append(out, harmonyEvent{kind: channelKind(channel), text: thought})
		}
		if final := pyStrip(rest[at+len(assistantFinal):]); final != "" {
			out = append(out, harmonyEvent{kind: SpanText, text: final})
		}
		return out
	}
	if strings.Contains(lower, "assistantfin") && !strings.Contains(lower, assistantFinal) && harmonyWord(text, "analysis", "commentary") {
		return nil
	}
	if after, ok := cutFold(skipBlanks(text), assistantFinal); ok {
		return plainText(SpanText, pyStrip(after))
	}
	if headed {
		out := rest[:len(rest)-heldBack(rest, []string{assistantFinal})]
		if channel == "commentary" && out == rest {
			out = pyStrip(out)
		}
		return plainText(channelKind(channel), out)
	}
	return plainText(SpanText, text[:len(text)-heldBack(text, []string{"analysis", "commentary", assistantFinal})])
}

func plainText(kind SpanKind, text string) []harmonyEvent {
	if text == "" {
		return nil
	}
	return []harmonyEvent{{kind: kind, text: text}}
}

func channelKind(channel string) SpanKind {
	if channel == "analysis" {
		return SpanReasoning
	}
	return SpanText
}

// plainHeader reads [assistant]analysis or [assistant]commentary.
func plainHeader(text string) (channel, rest string, ok bool) {
	text = skipBlanks(text)
	for _, start := range []string{text, afterAssistant(text)} {
		for _, word := range []string{"analysis", "commentary"} {
			if rest, ok := cutFold(start, word); ok {
				return word, rest, true
			}
		}
	}
	return "", "", false
}

func afterAssistant(text string) string {
	rest, _ := cutFold(text, "assistant")
	return skipBlanks(rest)
}

func skipBlanks(s string) string { return s[skipSpace(s, 0):] }

// cutFold cuts a prefix in any case off.
func cutFold(s, prefix string) (rest string, ok bool) {
	if len(s) < len(prefix) || asciiLower(s[:len(prefix)]) != prefix {
		return "", false
	}
	return s[len(prefix):], true
}

// harmonyWord reports whether one of the words stands at the text's start or
// behind a blank, in any case, perhaps with "assistant" before it.
func harmonyWord(text string, words ...string) bool {
	lower := asciiLower(text)
	for _, w := range words {
		for from := 0; ; {
			at := indexFrom(lower, w, from)
			if at < 0 {
				break
			}
			head := strings.TrimSuffix(lower[:at], "assistant")
			if at == 0 || endsBlank(lower[:at]) || head != lower[:at] && (head == "" || endsBlank(head)) {
				return true
			}
			from = at + 1
		}
	}
	return false
}

func endsBlank(s string) bool {
	return s != "" && strings.TrimRightFunc(s[max(0, len(s)-4):], pySpace) != s[max(0, len(s)-4):]
}
