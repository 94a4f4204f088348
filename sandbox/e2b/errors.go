package e2b

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/agentrl-go/agentrl/sandbox"
)

// An Error is a refusal by the control plane, the gateway before envd, or
// envd. What it means is found with errors.Is and errors.As: an error of
// package sandbox, or fs.ErrNotExist.
type Error struct {
	Status  int    // HTTP status; 200 for an error at the end of a stream
	Code    string // "sandbox_capacity_unavailable", Connect's "not_found", …; "" when the server names none
	Message string // at most 500 bytes of what the server said

	class error
	// undelivered: whoever answered did not hand the request on, so that even
	// a command may be sent again.
	undelivered bool
	transient   bool
	retryAfter  time.Duration
}

func (e *Error) Error() string {
	s := strconv.Itoa(e.Status)
	if e.Code != "" {
		s += " " + e.Code
	}
	if e.class != nil {
		s = e.class.Error() + ": " + s
	}
	return s + ": " + e.Message
}

// Unwrap is the error's class.
func (e *Error) Unwrap() error { return e.class }

// A source is who answers; the same status means different things.
type source int

const (
	fromControl source = iota
	fromCreate
	fromEnvd // or the gateway before it
)

// readRefusal turns a response with a bad status into an *Error.
func readRefusal(resp *http.Response, from source) error {
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody)) // a cut body still has its status
	return refusal(resp.StatusCode, resp.Header, body, from)
}

func refusal(status int, header http.Header, body []byte, from source) *Error {
	e := parseError(body)
	e.Status = status
	e.retryAfter = retryAfter(header.Get("Retry-After"), time.Now())
	switch {
	case e.connectCode() && status != http.StatusTooManyRequests:
		e.classifyRPC()
	case from == fromEnvd:
		e.classifyEnvd()
	default:
		e.classifyControl(from)
	}
	return e
}

// parseError reads either body: the control plane, the gateway and envd's own
// HTTP errors have an integer code, Connect's have a word. Anything else is a
// proxy's page.
func parseError(body []byte) *Error {
	var v struct {
		Code      json.RawMessage `json:"code"`
		Message   json.RawMessage `json:"message"`
		ErrorCode string          `json:"error_code"`
	}
	e := new(Error)
	if err := json.Unmarshal(body, &v); err != nil {
		e.Message = shorten(string(bytes.ToValidUTF8(body, []byte("?"))))
		return e
	}
	if json.Unmarshal(v.Message, &e.Message) != nil {
		e.Message = string(body)
	}
	e.Message = shorten(e.Message)
	e.Code = v.ErrorCode
	if e.Code == "" {
		_ = json.Unmarshal(v.Code, &e.Code) // an integer only repeats the status
	}
	return e
}

// shorten keeps the ends: envd repeats the whole command in some messages, and
// says behind it what was wrong.
func shorten(s string) string {
	s = strings.TrimSpace(s)
	if len(s) <= 500 {
		return s
	}
	return strings.ToValidUTF8(s[:300], "") + " … " + strings.ToValidUTF8(s[len(s)-190:], "")
}

func (e *Error) connectCode() bool {
	switch e.Code {
	case "canceled", "unknown", "invalid_argument", "deadline_exceeded", "not_found", "already_exists", "permission_denied",
		"resource_exhausted", "failed_precondition", "aborted", "out_of_range", "unimplemented", "internal", "unavailable",
		"data_loss", "unauthenticated":
		return true
	}
	return false
}

// classifyRPC is for errors that envd's own services made.
func (e *Error) classifyRPC() {
	switch e.Code {
	case "not_found":
		e.class = fs.ErrNotExist
	case "already_exists":
		e.class = fs.ErrExist
	case "invalid_argument", "unimplemented", "out_of_range", "failed_precondition":
		e.class = sandbox.ErrInvalid
	case "unauthenticated", "permission_denied":
		e.class = unauthorized(e.Message)
	case "resource_exhausted":
		e.class, e.transient = &sandbox.RateLimitError{Message: e.Message}, true
	case "unavailable", "aborted", "canceled", "deadline_exceeded":
		e.transient = true
	}
	if strings.Contains(e.Message, "no space left on device") {
		e.class = sandbox.ErrNoSpace
	}
}

// unauthorized tells a wrong token, which is the run's trouble, from an unknown
// user of the image, which is the command's.
func unauthorized(message string) error {
	if strings.Contains(message, "username") || strings.Contains(message, "user:") || strings.Contains(message, "looking up user") {
		return sandbox.ErrInvalid
	}
	return sandbox.ErrUnauthorized
}

// classifyEnvd is for envd's plain HTTP errors and the gateway's.
func (e *Error) classifyEnvd() {
	switch e.Status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUnsupportedMediaType:
		e.class = sandbox.ErrInvalid
	case http.StatusUnauthorized:
		e.class = unauthorized(e.Message)
	case http.StatusForbidden:
		e.class = sandbox.ErrUnauthorized
	case http.StatusNotFound:
		e.class = fs.ErrNotExist
		if strings.Contains(e.Message, "page not found") {
			e.class = sandbox.ErrInvalid // no envd behind this address
		}
	case http.StatusConflict: // "still transitioning"
		e.transient, e.undelivered = true, true
	case http.StatusTooManyRequests:
		e.class = &sandbox.RateLimitError{RetryAfter: e.retryAfter, Message: e.Message}
		e.transient, e.undelivered = true, true
	case http.StatusInternalServerError:
		if strings.Contains(e.Message, "path is a file") || strings.Contains(e.Message, "not a directory") {
			e.class = sandbox.ErrInvalid
		}
	case http.StatusBadGateway:
		e.transient = true
		e.undelivered = e.notFound() || strings.Contains(e.Message, "port is not open")
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		e.transient = true
	case http.StatusInsufficientStorage:
		e.class = sandbox.ErrNoSpace
	}
}

// notFound is the gateway's "no such sandbox", which it also says when it
// could not look: the control plane has to confirm it.
func (e *Error) notFound() bool {
	return e.Status == http.StatusBadGateway && strings.Contains(e.Message, "sandbox was not found")
}

func (e *Error) classifyControl(from source) {
	switch e.Status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusUnprocessableEntity:
		e.class = sandbox.ErrInvalid
	case http.StatusUnauthorized, http.StatusForbidden:
		e.class = sandbox.ErrUnauthorized
	case http.StatusNotFound:
		e.class = sandbox.ErrGone
		if from == fromCreate {
			e.class = sandbox.ErrNoImage
		}
	case http.StatusConflict:
		e.transient = true
	case http.StatusTooManyRequests:
		e.class, e.transient = &sandbox.RateLimitError{RetryAfter: e.retryAfter, Message: e.Message}, true
		e.undelivered = true
	case http.StatusServiceUnavailable:
		e.class, e.transient = &sandbox.CapacityError{Code: e.Code, Message: e.Message}, true
		if e.Code == "sandbox_no_compatible_node" {
			e.class, e.transient = fmt.Errorf("%w: no node can run the template", sandbox.ErrInvalid), false
		}
		e.undelivered = e.Code == "sandbox_capacity_unavailable"
	case http.StatusGatewayTimeout, http.StatusInternalServerError:
		e.transient = true
		if e.Code == "sandbox_placement_timeout" || strings.HasPrefix(e.Message, "Failed to place sandbox") {
			e.class = &sandbox.CapacityError{Code: e.Code, Message: e.Message}
		}
	case http.StatusBadGateway, http.StatusRequestTimeout:
		e.transient = true
	}
}

// retryAfter reads the header's two forms; 0 when there is none.
func retryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(strings.TrimSpace(s)); err == nil {
		return min(max(time.Duration(n), 0), 3600) * time.Second
	}
	if t, err := http.ParseTime(s); err == nil {
		return min(max(t.Sub(now), 0), time.Hour)
	}
	return 0
}

// transient reports whether the same request may succeed later.
func transient(err error) bool {
	if errors.Is(err, sandbox.ErrCut) {
		return true
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.transient
	}
	return errors.As(err, new(*transportError))
}

// undelivered reports whether the request certainly changed nothing.
func undelivered(err error) bool {
	if errors.Is(err, sandbox.ErrCut) {
		return false
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.undelivered
	}
	t := (*transportError)(nil)
	return errors.As(err, &t) && !t.sent
}

// wait is how long the server wants to be left alone.
func wait(err error) time.Duration {
	if e := (*Error)(nil); errors.As(err, &e) {
		return e.retryAfter
	}
	return 0
}
