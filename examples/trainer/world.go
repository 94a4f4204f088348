package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/agentrl-go/agentrl/adapter/token"
	"github.com/agentrl-go/agentrl/examples/internal/demo"
)

// A world is what -demo makes: repositories, rows, a checkpoint, an engine.
type world struct {
	dir    string
	engine *http.Server
}

// newWorld makes one and points the options at it. What the environment says
// wins over what suits a demo.
func newWorld(o *options) (w *world, err error) {
	for name, value := range map[string]string{"SWE_AGENT": "mini", "AGENTRL_SANDBOX": "local", "ADAPTER_PORT": "0", "ADAPTER_BIND_HOST": "127.0.0.1"} {
		if os.Getenv(name) == "" {
			if err := os.Setenv(name, value); err != nil {
				return nil, err
			}
		}
	}
	w = &world{}
	if w.dir, err = demo.TempDir(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if err := w.rows(o); err != nil {
		return w, err
	}
	if o.args.HFCheckpoint, err = demo.Checkpoint(filepath.Join(w.dir, "checkpoint")); err != nil {
		return w, err
	}
	return w, w.serve(o)
}

func (w *world) rows(o *options) error {
	o.rows = filepath.Join(w.dir, "rows.jsonl")
	f, err := os.Create(o.rows)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range o.demo {
		task, err := demo.NewTask(w.dir, fmt.Sprintf("tokens-%d", i))
		if err != nil {
			return err
		}
		if err := json.NewEncoder(f).Encode(task.Sample(demo.Image, 0, 0)); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) serve(o *options) error {
	tok, err := token.Load(o.args.HFCheckpoint)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	o.args.SGLangURL = "http://" + l.Addr().String()
	w.engine = &http.Server{Handler: demo.NewEngine(tok, demo.EngineOptions{}), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := w.engine.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			fmt.Fprintln(os.Stderr, "engine double:", err)
		}
	}()
	return nil
}

func (w *world) close() {
	if w.engine != nil {
		w.engine.Close()
	}
	os.RemoveAll(w.dir)
}
