package adaptertest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
)

// Recorded reads a request that a real client sent, as the cases of clients
// keep them: its headers, and its body with the tools brought back into their
// wire shape (the recordings keep an outline of each).
func Recorded(t testing.TB, path string) (*http.Request, []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rec struct {
		Method, Path, Query string
		Headers             map[string]string
		Body                map[string]any
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if err := dec.Decode(&rec); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	if tools, ok := rec.Body["tools"].([]any); ok {
		for _, tool := range tools {
			wireTool(tool.(map[string]any), rec.Body["messages"] != nil)
		}
	}
	body, err := json.Marshal(rec.Body)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(rec.Method, rec.Path+"?"+rec.Query, bytes.NewReader(body))
	for k, v := range rec.Headers {
		r.Header.Set(k, v)
	}
	return r, body
}

// wireTool makes a tool of its outline.
func wireTool(tool map[string]any, messages bool) {
	if kind, ok := tool["_type"].(string); ok && (kind != "function" || !messages) {
		tool["type"] = kind
	}
	if names, ok := tool["tools"].([]any); ok {
		for i, name := range names {
			names[i] = map[string]any{"type": "function", "name": name}
		}
	}
	props, ok := tool["schema_props"].(map[string]any)
	if !ok {
		return
	}
	schema := map[string]any{"type": "object", "properties": map[string]any{}}
	for name, kind := range props {
		schema["properties"].(map[string]any)[name] = map[string]any{"type": kind}
	}
	tool["input_schema"], tool["parameters"] = schema, schema
}
