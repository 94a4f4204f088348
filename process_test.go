package agentrl

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
)

// Hundreds of calls come at once when a trainer starts: they share one
// tokenizer, one ledger and one listener from the first moment.
func TestProcessGeneratorIsMadeOnce(t *testing.T) {
	for name, value := range map[string]string{"SWE_AGENT": "mini", "AGENTRL_SANDBOX": "local", "ADAPTER_PORT": "0", "ADAPTER_BIND_HOST": "127.0.0.1"} {
		t.Setenv(name, value)
	}
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	args := Args{HFCheckpoint: "testdata/tokenizer", SGLangURL: "http://127.0.0.1:1"}
	got := make([]*Generator, 8)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			g, err := process.generator(args)
			if err != nil {
				t.Error(err)
			}
			got[i] = g
		})
	}
	wg.Wait()
	for _, g := range got {
		if g != got[0] {
			t.Fatalf("calls got different Generators: %p, %p", g, got[0])
		}
	}
	if err := Close(); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "generator ready"); n != 1 || !strings.Contains(log.String(), "adapter=http://127.0.0.1:") || strings.Contains(log.String(), portMark) {
		t.Errorf("%d Generators were made, want one, with its address in the log:\n%s", n, log.String())
	}
	if _, err := got[0].Generate(t.Context(), Sample{}, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Generate after Close = %v, want ErrClosed", err)
	}
}

func TestProcessGeneratorThatFailedIsTriedAgain(t *testing.T) {
	for name, value := range map[string]string{"SWE_AGENT": "mini", "AGENTRL_SANDBOX": "local", "ADAPTER_PORT": "0"} {
		t.Setenv(name, value)
	}
	args := Args{HFCheckpoint: t.TempDir(), SGLangURL: "http://127.0.0.1:1"}
	for range 2 {
		if _, err := Generate(t.Context(), args, Sample{}, nil); err == nil || !strings.Contains(err.Error(), "tokenizer.json") {
			t.Errorf("Generate = %v, want an error that names tokenizer.json", err)
		}
	}
	if n := len(process.generators); n != 0 {
		t.Errorf("%d Generators are remembered, want none", n)
	}
}

func TestPublicAddress(t *testing.T) {
	for given, want := range map[string]string{"10.0.0.1": "http://10.0.0.1:{port}", "head": "http://head:{port}", "PORT": "http://PORT:{port}",
		"::1": "http://[::1]:{port}", "[fe80::1]": "http://[fe80::1]:{port}", "http://head": "", "head:18001": "", "a b": "", "me@head": ""} {
		got, err := publicURL(Config{AdapterPublicHost: given}, nil)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ADAPTER_PUBLIC_HOST=%s gives %q, %v, want %q", given, got, err, want)
		}
	}
	for given, want := range map[string]string{"https://PORT.example/x/": "https://PORT.example/x", "head:18001": "", "ftp://head": "", "/x": "", "http://": ""} {
		got, err := publicURL(Config{AdapterPublicURL: given}, nil)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("ADAPTER_PUBLIC_URL=%s gives %q, %v, want %q", given, got, err, want)
		}
	}
}
