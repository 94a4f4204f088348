//go:build linux

package e2btest

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// launch starts the process and the reading of its output.
func (e *envd) launch(p *process) error {
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return rpcErrorf("invalid_argument", "error starting process '%s %v': %v", p.config.Cmd, p.config.Args, err)
	}
	p.pid = p.cmd.Process.Pid
	e.mu.Lock()
	e.procs[p.pid] = p
	e.mu.Unlock()
	go e.pump(p, stdout, stderr)
	return nil
}

// pump reads the output to its end, which is when the last holder of it ends,
// and only then looks at how the process itself ended.
func (e *envd) pump(p *process, stdout, stderr io.Reader) {
	var wg sync.WaitGroup
	for name, r := range map[string]io.Reader{"stdout": stdout, "stderr": stderr} {
		wg.Go(func() {
			buf := make([]byte, chunk)
			for {
				n, err := r.Read(buf)
				if n > 0 {
					p.tell(data(name, buf[:n]))
				}
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	p.finish(p.cmd.Wait())
	if !e.cfg.NoRetention {
		time.Sleep(retention)
	}
	e.mu.Lock()
	delete(e.procs, p.pid)
	e.mu.Unlock()
}

// finish makes the end event: what is zero is left out.
func (p *process) finish(err error) {
	state := p.cmd.ProcessState
	end := map[string]any{"status": state.String()}
	if state.Exited() {
		end["exited"] = true
	}
	if code := state.ExitCode(); code != 0 {
		end["exitCode"] = code
	}
	if err != nil {
		end["error"] = err.Error()
	}
	p.mu.Lock()
	p.end = map[string]any{"end": end}
	p.mu.Unlock()
	close(p.ended)
}

func (e *envd) listProcesses(r *http.Request, _ []byte) (any, error) {
	if _, err := requestUser(r); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	list := []map[string]any{}
	for _, p := range e.procs {
		select {
		case <-p.ended:
			continue
		default:
		}
		item := map[string]any{"config": p.config, "pid": p.pid}
		if p.tag != "" {
			item["tag"] = p.tag
		}
		list = append(list, item)
	}
	return map[string]any{"processes": list}, nil
}

// live selects a process that has not ended.
func (e *envd) live(sel selector) (*process, error) {
	p, err := e.find(sel)
	if err != nil {
		return nil, err
	}
	select {
	case <-p.ended:
		return nil, rpcErrorf("not_found", "process with pid %d not found", sel.PID)
	default:
		return p, nil
	}
}

// sendSignal signals the one process; its children live on.
func (e *envd) sendSignal(_ *http.Request, body []byte) (any, error) {
	var req struct {
		Process selector
		Signal  string
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, rpcErrorf("invalid_argument", "unmarshal message: %v", err)
	}
	p, err := e.live(req.Process)
	if err != nil {
		return nil, err
	}
	sig, ok := map[string]syscall.Signal{"SIGNAL_SIGKILL": syscall.SIGKILL, "SIGNAL_SIGTERM": syscall.SIGTERM}[req.Signal]
	if !ok {
		return nil, rpcErrorf("unimplemented", "invalid signal: %s", req.Signal)
	}
	if err := p.cmd.Process.Signal(sig); err != nil {
		return nil, rpcErrorf("internal", "error sending signal: %v", err)
	}
	return struct{}{}, nil
}

func (e *envd) sendInput(_ *http.Request, body []byte) (any, error) {
	var req struct {
		Process selector
		Input   struct{ Stdin []byte }
	}
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, rpcErrorf("invalid_argument", "unmarshal message: %v", err)
	}
	p, err := e.live(req.Process)
	if err != nil {
		return nil, err
	}
	if p.stdin == nil {
		return nil, rpcErrorf("internal", "error writing to stdin: stdin not enabled or closed")
	}
	if _, err := p.stdin.Write(req.Input.Stdin); err != nil {
		return nil, rpcErrorf("internal", "error writing to stdin: %v", err)
	}
	return struct{}{}, nil
}

func (e *envd) closeStdin(_ *http.Request, body []byte) (any, error) {
	var req struct{ Process selector }
	if err := json.Unmarshal(body, &req); err != nil {
		return nil, rpcErrorf("invalid_argument", "unmarshal message: %v", err)
	}
	p, err := e.live(req.Process)
	if err != nil {
		return nil, err
	}
	if p.stdin != nil {
		_ = p.stdin.Close()
	}
	return struct{}{}, nil
}
