package sglangtest

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
)

// control registers the endpoints around /generate.
func (e *Engine) control() {
	e.mux.HandleFunc("POST /abort_request", e.abortRequest)
	e.mux.HandleFunc("POST /pause_generation", e.pauseGeneration)
	e.mux.HandleFunc("POST /continue_generation", e.continueGeneration)
	e.mux.HandleFunc("GET /flush_cache", e.flushCache)
	e.mux.HandleFunc("POST /flush_cache", e.flushCache)
	e.mux.HandleFunc("POST /update_weight_version", e.updateVersion)
	e.mux.HandleFunc("POST /release_memory_occupation", e.releaseMemory)
	e.mux.HandleFunc("GET /health", e.health)
	e.mux.HandleFunc("GET /health_generate", e.health)
	e.mux.HandleFunc("GET /v1/models", e.models)
	e.mux.HandleFunc("GET /model_info", e.modelInfo)
	e.mux.HandleFunc("GET /server_info", e.serverInfo)
	e.mux.HandleFunc("GET /v1/loads", e.loads)
}

// abortRequest ends generations: it answers 200 whether it knows the id or not.
func (e *Engine) abortRequest(w http.ResponseWriter, r *http.Request) {
	var req struct {
		RID      string `json:"rid"`
		AbortAll bool   `json:"abort_all"`
	}
	body, _ := io.ReadAll(r.Body)
	json.Unmarshal(body, &req)
	e.mu.Lock()
	defer e.mu.Unlock()
	name := req.RID
	if req.AbortAll {
		name = "*"
	}
	if e.o.MaxLog >= 0 {
		e.stats.Aborts = append(e.stats.Aborts, name)
	}
	e.abort(req.RID, req.AbortAll)
}

// abort marks what is to end; e.mu is held. The front end wants an exact live
// id, the scheduler then takes it as a prefix.
func (e *Engine) abort(rid string, all bool) {
	if !all && e.live[rid] == nil {
		return
	}
	for id, g := range e.live {
		if !g.parked && (all || strings.HasPrefix(id, rid)) {
			g.aborted = true
		}
	}
	e.change()
}

func (e *Engine) pauseGeneration(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Mode string `json:"mode"`
	}
	body, _ := io.ReadAll(r.Body)
	json.Unmarshal(body, &req)
	if req.Mode == "" {
		req.Mode = "abort"
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if req.Mode == "abort" {
		e.abort("", true)
		for e.running > 0 {
			e.block(nil)
		}
	}
	e.paused = req.Mode
	e.change()
	writeJSON(w, 200, map[string]any{"message": "Generation paused successfully.", "status": "ok"})
}

func (e *Engine) continueGeneration(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.paused = ""
	e.change()
	writeJSON(w, 200, map[string]any{"message": "Generation continued successfully.", "status": "ok"})
}

func (e *Engine) flushCache(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.live) > 0 {
		http.Error(w, "Flush cache failed: requests are pending.", http.StatusBadRequest)
		return
	}
	e.cache.init(e.o.PageSize)
	io.WriteString(w, "Cache flushed.")
}

// updateVersion aborts everything by default, as the server does.
func (e *Engine) updateVersion(w http.ResponseWriter, r *http.Request) {
	var req struct {
		Version  string `json:"new_version"`
		AbortAll *bool  `json:"abort_all_requests"`
	}
	body, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(body, &req); err != nil {
		invalid("%v", err).write(w)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if req.AbortAll == nil || *req.AbortAll {
		e.abort("", true)
	}
	e.version = req.Version
	writeJSON(w, 200, map[string]any{"success": true, "message": "ok", "new_version": req.Version})
}

// SetWeightVersion changes the version without touching what runs.
func (e *Engine) SetWeightVersion(version string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.version = version
}

// releaseMemory fails when anything runs: the real engine asserts and dies.
func (e *Engine) releaseMemory(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.running > 0 {
		http.Error(w, "AssertionError: release_memory_occupation should be called only when server is idle.", http.StatusInternalServerError)
		return
	}
	io.WriteString(w, "null")
}

func (e *Engine) health(w http.ResponseWriter, r *http.Request) {}

func (e *Engine) models(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, 200, map[string]any{"object": "list", "data": []any{map[string]any{
		"id": "double", "object": "model", "owned_by": "sglang", "root": "double", "parent": nil, "max_model_len": e.o.ContextLen,
	}}})
}

func (e *Engine) modelInfo(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	writeJSON(w, 200, map[string]any{"model_path": "double", "tokenizer_path": "double", "is_generation": true, "weight_version": e.version})
}

func (e *Engine) serverInfo(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, 200, map[string]any{"context_length": e.o.ContextLen, "max_req_input_len": e.o.ContextLen - 6, "internal_states": []any{}})
}

func (e *Engine) loads(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	writeJSON(w, 200, map[string]any{"loads": []any{map[string]any{
		"dp_rank": 0, "num_running_reqs": e.running, "num_waiting_reqs": len(e.live) - e.running,
	}}})
}
