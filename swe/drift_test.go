package swe

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDriftIsListed: of both lists, what is not the same in them.
func TestDriftIsListed(t *testing.T) {
	was := []byte("100644 blob aa\ta\x00100644 blob bb\tdir/b\n\x00100644 blob cc\tc\x00")
	is := []byte("100755 blob aa\ta\x00100644 blob cc\tc\x00120000 blob dd\td\x00")
	got, err := compareListings(was, is)
	want := []Drift{{"a", "100644 blob aa", "100755 blob aa"}, {"d", "", "120000 blob dd"}, {"dir/b\n", "100644 blob bb", ""}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := compareListings(was[:20], is); err == nil {
		t.Error("a list that is cut was read")
	}
}

func FuzzListing(f *testing.F) {
	f.Add([]byte("100644 blob aa\ta\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := parseListing(data); err != nil {
			return
		}
		if drifts, err := compareListings(data, data); err != nil || len(drifts) > 0 {
			t.Errorf("%v, %v", drifts, err)
		}
	})
}
