package sglang

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
)

// A Text keeps how token ids were written, for requests that begin with the ids
// of an earlier one: only what follows is written anew. The zero value is ready.
// It is safe for concurrent use.
//
// It keeps the two sequences that were asked for last, those of an agent and of
// its sub-agent. Each costs 6 to 8 bytes an id, and the slice of ids, which is
// the caller's and must not change.
type Text struct {
	mu    sync.Mutex
	lines [2]line // the newest first
}

// A line is a sequence of ids and its text. Both only grow: a request that is
// on its way reads the text without the lock.
type line struct {
	ids  []int32
	text []byte // "1,17,151643"
}

// of returns the text of ids, which must not be changed.
func (t *Text) of(ids []int32) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.IndexFunc(t.lines[:], func(l line) bool { return hasPrefix(ids, l.ids) })
	var known line
	if i < 0 {
		i = len(t.lines) - 1 // the oldest makes room
	} else {
		known = t.lines[i]
	}
	copy(t.lines[1:i+1], t.lines[:i])
	t.lines[0] = line{ids, appendIDs(known.text, ids[len(known.ids):])}
	return t.lines[0].text
}

// hasPrefix reports whether ids begin with prefix, which is not empty. Often
// they are the same memory: nothing need be compared then.
func hasPrefix(ids, prefix []int32) bool {
	if len(prefix) == 0 || len(ids) < len(prefix) {
		return false
	}
	return &ids[0] == &prefix[0] || slices.Equal(ids[:len(prefix)], prefix)
}

// appendIDs appends ids as text, with a comma before each but the first of all.
func appendIDs(dst []byte, ids []int32) []byte {
	dst = slices.Grow(dst, 7*len(ids))
	for _, id := range ids {
		if len(dst) > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, int64(id), 10)
	}
	return dst
}

// A body is a request's body in pieces that are sent one after the other, so
// that a long text need not be copied into it.
type body [][]byte

func (b body) reader() io.ReadCloser {
	readers := make([]io.Reader, len(b))
	for i, piece := range b {
		readers[i] = bytes.NewReader(piece)
	}
	return io.NopCloser(io.MultiReader(readers...))
}

// of makes b the body of a request, that can be sent again on another connection.
func (b body) of(r *http.Request) {
	r.Body = b.reader()
	r.GetBody = func() (io.ReadCloser, error) { return b.reader(), nil }
	r.ContentLength = 0
	for _, piece := range b {
		r.ContentLength += int64(len(piece))
	}
}
