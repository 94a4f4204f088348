// Package wire writes the two kinds of HTTP answers that model clients read:
// one JSON document, and a stream of server-sent events. Both can show a sign
// of life before the answer is there.
package wire

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// writeLimit is how long a client may take to accept what is written to it, and
// the end of the answer after it: one that is starved of time is not one that
// has gone.
const writeLimit = time.Minute

// Marshal is json.Marshal without the escaping of <, > and &.
func Marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// A Writer writes one answer. It is used by one goroutine at a time.
type Writer struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	begun bool
}

// NewWriter returns a Writer on w.
func NewWriter(w http.ResponseWriter) *Writer {
	return &Writer{w: w, rc: http.NewResponseController(w)}
}

// Begun reports whether the headers were sent: no status can be chosen then.
func (w *Writer) Begun() bool { return w.begun }

// Space sends a blank, which a reader of JSON skips; with the headers, if they
// are not sent yet.
func (w *Writer) Space() error {
	w.begin(http.StatusOK, "application/json")
	return w.write([]byte(" "))
}

// JSON sends v as the whole answer. After Space the status can't be chosen any
// more, so it must be 200 then.
func (w *Writer) JSON(status int, v any) error {
	data, err := Marshal(v)
	if err != nil {
		return err
	}
	if !w.begun {
		w.w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	}
	w.begin(status, "application/json")
	return w.write(data)
}

// Event sends one server-sent event and flushes it; an empty name leaves the
// event line out.
func (w *Writer) Event(name string, v any) error {
	data, err := Marshal(v)
	if err != nil {
		return err
	}
	return w.event(name, data)
}

// Done sends the marker that ends an OpenAI stream.
func (w *Writer) Done() error { return w.event("", []byte("[DONE]")) }

func (w *Writer) event(name string, data []byte) error {
	w.begin(http.StatusOK, "text/event-stream")
	frame := make([]byte, 0, len(name)+len(data)+20)
	if name != "" {
		frame = append(append(append(frame, "event: "...), name...), '\n')
	}
	frame = append(append(append(frame, "data: "...), data...), "\n\n"...)
	return w.write(frame)
}

// Cut ends the answer by cutting the connection: the client sees an error, not
// a short answer that looks whole. It does not return.
func (w *Writer) Cut() { panic(http.ErrAbortHandler) }

func (w *Writer) begin(status int, contentType string) {
	if w.begun {
		return
	}
	w.begun = true
	h := w.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	w.w.WriteHeader(status)
}

func (w *Writer) write(data []byte) error {
	// A writer without deadlines is a test's; it does not block.
	w.rc.SetWriteDeadline(time.Now().Add(writeLimit))
	if _, err := w.w.Write(data); err != nil {
		return err
	}
	return w.rc.Flush()
}
