package sglangtest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// stream answers with server-sent events: cumulative by default, deltas with
// Options.Incremental.
func (e *Engine) stream(ctx context.Context, w http.ResponseWriter, g *generation) {
	w.Header().Set("Content-Type", "text/event-stream")
	g.rec.Status = http.StatusOK
	flush := http.NewResponseController(w).Flush
	sent := 0
	send := func() {
		from := 0
		if e.o.Incremental {
			from = sent
		}
		sent = len(g.ids)
		answer := e.answerOf(g, g.ids[from:], g.lps[from:])
		data, err := json.Marshal(answer)
		if err != nil {
			panic(err)
		}
		// Frames may be split anywhere on their way.
		fmt.Fprintf(w, "data: %s", data[:len(data)/2])
		flush()
		fmt.Fprintf(w, "%s\n\n", data[len(data)/2:])
		flush()
	}
	last := func() {
		if g.finish == nil {
			send()
		}
	}
	if !e.run(ctx, g, last) {
		panic(http.ErrAbortHandler)
	}
	if f := g.out.Fault; f != nil && f.CutBody {
		io.WriteString(w, "data: {\"text\":")
		flush()
		panic(http.ErrAbortHandler)
	}
	send()
	io.WriteString(w, "data: [DONE]\n\n")
}
