package wire

import (
	"encoding/json"
	"testing"
)

func TestCount(t *testing.T) {
	for text, want := range map[string]Count{"100": 100, "100.0": 100, "1e2": 100, "0": 0, "-1": -1, "null": 0} {
		var c Count
		if err := json.Unmarshal([]byte(text), &c); err != nil || c != want {
			t.Errorf("Unmarshal(%s) = %d, %v; want %d", text, c, err, want)
		}
	}
	for _, text := range []string{"1.5", `"100"`, "1e300", "true", "[]"} {
		var c Count
		if json.Unmarshal([]byte(text), &c) == nil {
			t.Errorf("Unmarshal(%s) = %d, want an error", text, c)
		}
	}
}
