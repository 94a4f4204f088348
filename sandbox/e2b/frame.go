package e2b

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/agentrl-go/agentrl/sandbox"
)

// The flags of a Connect frame: one byte, before a length of four, big endian.
const (
	flagCompressed = 1 // only ever sent to who asks for it
	flagEnd        = 2 // the stream's last frame: an error, or none
)

const maxFrame = 64 << 20 // bytes; envd's own frames are below 64 KiB

// frame makes a request's one frame.
func frame(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...), nil
}

// frames reads a stream's frames.
type frames struct {
	r   *bufio.Reader
	buf []byte // the payload last returned
}

func newFrames(r io.Reader) *frames { return &frames{r: bufio.NewReaderSize(r, 64<<10)} }

// next returns the next frame; its payload is valid until the next call. A
// stream that ends before its end frame, even between two frames, was cut.
func (f *frames) next() (flags byte, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(f.r, head[:]); err != nil {
		return 0, nil, cut(err)
	}
	n := binary.BigEndian.Uint32(head[1:])
	if n > maxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes, at most %d are read: %w", n, maxFrame, sandbox.ErrCut)
	}
	if head[0]&flagCompressed != 0 {
		return 0, nil, fmt.Errorf("compressed frame, which was not asked for: %w", sandbox.ErrCut)
	}
	// A length is only a claim: memory grows with what has come.
	f.buf = f.buf[:0]
	for len(f.buf) < int(n) {
		at, step := len(f.buf), min(int(n)-len(f.buf), 1<<20)
		f.buf = append(f.buf, make([]byte, step)...)
		if _, err := io.ReadFull(f.r, f.buf[at:]); err != nil {
			return 0, nil, cut(err)
		}
	}
	return head[0], f.buf, nil
}

func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w before its end", sandbox.ErrCut)
	}
	return fmt.Errorf("%w: %w", sandbox.ErrCut, err)
}

// An event is one message of a process's stream.
type event struct {
	started bool
	pid     int
	stdout  []byte // valid until the next frame, as stderr
	stderr  []byte
	end     *endEvent
}

// endEvent is a process's end. JSON leaves out what is zero: a plain success
// has no exitCode, a process killed by a signal has -1 and is not exited.
type endEvent struct {
	ExitCode int    `json:"exitCode"`
	Exited   bool   `json:"exited"`
	Status   string `json:"status"`
	Error    string `json:"error"`
}

var (
	stdoutPrefix = []byte(`{"event":{"data":{"stdout":"`)
	stderrPrefix = []byte(`{"event":{"data":{"stderr":"`)
	dataSuffix   = []byte(`"}}}`)
)

// parseEvent reads a message. Nearly all bytes come in frames of one form,
// which are decoded in place; encoding/json reads whatever else there is.
func parseEvent(b []byte) (event, error) {
	if out, ok := fastData(b, stdoutPrefix); ok {
		return event{stdout: out}, nil
	}
	if out, ok := fastData(b, stderrPrefix); ok {
		return event{stderr: out}, nil
	}
	var v struct {
		Event struct {
			Start *struct {
				PID int `json:"pid"`
			} `json:"start"`
			Data *struct {
				Stdout []byte `json:"stdout"`
				Stderr []byte `json:"stderr"`
			} `json:"data"`
			End *endEvent `json:"end"`
		} `json:"event"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return event{}, fmt.Errorf("message of the stream: %w: %.100q: %w", err, b, sandbox.ErrCut)
	}
	e := event{end: v.Event.End}
	if v.Event.Start != nil {
		e.started, e.pid = true, v.Event.Start.PID
	}
	if v.Event.Data != nil {
		e.stdout, e.stderr = v.Event.Data.Stdout, v.Event.Data.Stderr
	}
	return e, nil
}

// fastData decodes a frame that is the prefix, plain base64 and the suffix
// over itself. It changes b only when it succeeds or the JSON is broken too.
func fastData(b, prefix []byte) ([]byte, bool) {
	if !bytes.HasPrefix(b, prefix) || !bytes.HasSuffix(b, dataSuffix) || len(b) < len(prefix)+len(dataSuffix) {
		return nil, false
	}
	text := b[len(prefix) : len(b)-len(dataSuffix)]
	for _, c := range []byte("\\\"\r\n") { // escaped, or base64 that Go reads and JSON forbids
		if bytes.IndexByte(text, c) >= 0 {
			return nil, false
		}
	}
	n, err := base64.StdEncoding.Decode(text, text)
	return text[:n], err == nil
}

// endError reads an end frame: nil for a stream that ended well.
func endError(b []byte) error {
	var v struct {
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return fmt.Errorf("end of the stream: %w: %.100q: %w", err, b, sandbox.ErrCut)
	}
	if len(v.Error) == 0 || string(v.Error) == "null" {
		return nil
	}
	e := parseError(v.Error)
	e.Status = 200
	e.classifyRPC()
	return e
}
