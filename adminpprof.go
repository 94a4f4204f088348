package agentrl

import (
	"net/http"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"time"
)

// servePprof serves what `go tool pprof` and `go tool trace` ask for.
// net/http/pprof would do it too, but by its import alone it puts the same on
// http.DefaultServeMux, which may be another listener of the trainer's.
func servePprof(mux *http.ServeMux) {
	mux.HandleFunc("GET /debug/pprof/{$}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		for _, name := range append([]string{"profile?seconds=10", "trace?seconds=1"}, profileNames()...) {
			_, _ = w.Write([]byte(`<a href="` + name + `">` + name + "</a><br>\n"))
		}
	})
	mux.HandleFunc("GET /debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) {
		if err := pprof.StartCPUProfile(download(w, "profile")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		defer pprof.StopCPUProfile()
		during(r, 30*time.Second)
	})
	mux.HandleFunc("GET /debug/pprof/trace", func(w http.ResponseWriter, r *http.Request) {
		if err := trace.Start(download(w, "trace")); err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		defer trace.Stop()
		during(r, time.Second)
	})
	mux.HandleFunc("GET /debug/pprof/{name}", func(w http.ResponseWriter, r *http.Request) {
		profile := pprof.Lookup(r.PathValue("name"))
		if profile == nil {
			http.Error(w, "no such profile; see /debug/pprof/", http.StatusNotFound)
			return
		}
		debug, _ := strconv.Atoi(r.FormValue("debug")) // 0 is the binary form
		if debug == 0 {
			download(w, profile.Name())
		}
		_ = profile.WriteTo(w, debug) // a reader that left
	})
}

func profileNames() []string {
	var names []string
	for _, p := range pprof.Profiles() {
		names = append(names, p.Name()+"?debug=1")
	}
	return names
}

func download(w http.ResponseWriter, name string) http.ResponseWriter {
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
	return w
}

// during waits for the seconds that the request names, or until it ends.
func during(r *http.Request, d time.Duration) {
	if secs, err := strconv.ParseFloat(r.FormValue("seconds"), 64); err == nil && secs > 0 && secs < 3600 {
		d = time.Duration(secs * float64(time.Second))
	}
	_ = sleep(r.Context(), d)
}
