package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"os"
	"slices"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// A page is what the template is executed with.
type page struct {
	*loaded
	CSS         template.CSS
	JS          template.JS
	Solved      int
	Aborted     int
	Mean        float64 // reward of what was not aborted
	Outcomes    []bar
	Failures    []bar
	Rewards     []bar
	Lengths     []bar
	Waterfall   []span
	Slowest     []row
	Failed      []row
	MoreFailed  int
	FirstWords  []string // of Problems
	MoreProblem int
}

func newPage(r *loaded) page {
	p := page{
		loaded: r, CSS: template.CSS(pageCSS), JS: template.JS(pageJS),
		Outcomes: outcomes(r.Rows), Failures: failures(r.Rows), Rewards: rewards(r.Rows), Lengths: lengths(r.Rows),
		Waterfall: waterfall(r.Rows), Slowest: slowest(r.Rows), Failed: failed(r.Rows),
	}
	for _, row := range r.Rows {
		switch {
		case row.Class != "":
			p.Aborted++
		case row.Outcome == "solved":
			p.Solved++
		}
		if row.Class == "" {
			p.Mean += row.Reward
		}
	}
	p.Mean /= float64(max(len(r.Rows)-p.Aborted, 1))
	p.MoreFailed = p.Aborted - len(p.Failed)
	p.FirstWords = r.Problems[:min(len(r.Problems), 20)]
	p.MoreProblem = len(r.Problems) - len(p.FirstWords)
	return p
}

// write makes the page. The details follow what the template writes, so that a
// browser shows the page while it still reads them.
func write(path string, r *loaded, limit int64) (err error) {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	out := bufio.NewWriterSize(f, 1<<20)
	tmpl, err := template.New("page").Funcs(template.FuncMap{"seconds": seconds}).Parse(pageHTML)
	if err != nil {
		return err
	}
	if err := tmpl.Execute(out, newPage(r)); err != nil {
		return err
	}
	written := int64(0)
	for _, row := range byNeed(r.Rows) {
		if written >= limit {
			r.left++
			continue
		}
		n, err := detail(out, row)
		switch {
		case errors.Is(err, fs.ErrNotExist): // retention removed it meanwhile
			r.left++
		case err != nil:
			return err
		}
		written += n
	}
	if _, err := io.WriteString(out, "</body></html>\n"); err != nil {
		return err
	}
	return out.Flush()
}

// byNeed puts failed rollouts first, then slow ones.
func byNeed(rows []row) []row {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b row) int {
		switch {
		case (a.Class != "") != (b.Class != ""):
			if a.Class != "" {
				return -1
			}
			return 1
		case a.Seconds > b.Seconds:
			return -1
		case a.Seconds < b.Seconds:
			return 1
		}
		return 0
	})
	return rows
}

// detail writes a rollout's record, packed. The alphabet of base64 means
// nothing to an HTML parser.
func detail(out io.Writer, row row) (int64, error) {
	record, err := os.ReadFile(row.path)
	if err != nil {
		return 0, err
	}
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	if _, err := zip.Write(record); err != nil {
		return 0, err
	}
	if err := zip.Close(); err != nil {
		return 0, err
	}
	text := base64.StdEncoding.EncodeToString(packed.Bytes())
	n, err := fmt.Fprintf(out, "<script type=\"text/plain\" id=\"d%d\">%s</script>\n", row.ID, text)
	return int64(n), err
}
