package docker

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/internal/endmark"
	"github.com/agentrl-go/agentrl/sandbox"
)

func frame(stream byte, text string) string {
	return string(binary.BigEndian.AppendUint32([]byte{stream, 0, 0, 0}, uint32(len(text)))) + text
}

func FuzzStream(f *testing.F) {
	f.Add([]byte(frame(1, "out") + frame(2, "err")))
	f.Add([]byte(frame(3, "x")))
	f.Add([]byte("\x01\x00\x00\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m := endmark.New(1 << 16)
		err := demultiplex(strings.NewReader(string(b)), m)
		if m.Done() {
			t.Errorf("%q: done without a mark", b)
		}
		if err != nil && !errors.Is(err, sandbox.ErrCut) && !errors.Is(err, sandbox.ErrInvalid) {
			t.Errorf("%q: %v", b, err)
		}
	})
}

func FuzzRefusal(f *testing.F) {
	f.Add(404, []byte(`{"message":"No such container: x"}`))
	f.Add(500, []byte(`{"cause":"x","message":"y","response":500}`))
	f.Fuzz(func(t *testing.T, status int, b []byte) {
		if e := parseRefusal(status, b); len(e.message) > 510 || e.Error() == "" {
			t.Errorf("%d %q: %+v", status, b, e)
		}
	})
}

func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		want   error
	}{
		{404, `{"message":"No such container: agentrl-1"}`, sandbox.ErrGone},
		{409, `{"message":"Container abc is not running"}`, sandbox.ErrGone},
		{409, `{"message":"can only create exec sessions on running containers: container state improper"}`, sandbox.ErrGone},
		{400, `{"message":"invalid"}`, sandbox.ErrInvalid},
		{500, `{"message":"unable to find user x: no matching entries in passwd file"}`, sandbox.ErrInvalid},
		{500, `{"message":"write /f: no space left on device"}`, sandbox.ErrNoSpace},
		{403, `denied`, sandbox.ErrUnauthorized},
		{500, `busy`, nil},
	} {
		if e := parseRefusal(tt.status, []byte(tt.body)); !errors.Is(e, tt.want) && !(tt.want == nil && e.class == nil) {
			t.Errorf("%d %s: %v, want %v", tt.status, tt.body, e, tt.want)
		}
	}
}
