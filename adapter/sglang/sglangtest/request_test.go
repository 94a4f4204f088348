package sglangtest

import (
	"encoding/json"
	"slices"
	"testing"
)

// FuzzIDs compares with encoding/json.
func FuzzIDs(f *testing.F) {
	for _, s := range []string{`[1,23,151643]`, `[]`, `[ 1 ]`, `null`, `[-1]`, `[2147483648]`, `[1.0]`, `[1e2]`, `[[1]]`, `"x"`, `[999999999,0]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}
		var got ids
		var want []int32
		err, wantErr := json.Unmarshal(data, &got), json.Unmarshal(data, &want)
		if (err == nil) != (wantErr == nil) || err == nil && (!slices.Equal(got, want) || (got == nil) != (want == nil)) {
			t.Fatalf("ids of %s = %v, %v, want %v, %v", data, got, err, want, wantErr)
		}
	})
}
