package scaleswe

import (
	"encoding/xml"
	"fmt"
	"regexp"
	"strings"
)

// A junit report: the status of each test by its key, see testKey.
type junit map[string]string

// parseJUnit reads a report of pytest's. A test with two entries keeps the
// worse.
func parseJUnit(data []byte) (junit, error) {
	var doc struct {
		XMLName xml.Name
		Suites  []suite `xml:"testsuite"`
		Cases   []entry `xml:"testcase"` // the root is itself a suite
	}
	if err := xml.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("junit report: %w", err)
	}
	report := junit{}
	for _, s := range append(doc.Suites, suite{doc.Cases}) {
		for _, c := range s.Cases {
			key := c.Class + "\x00" + c.Name
			if report[key] == "" || report[key] == passed {
				report[key] = c.status()
			}
		}
	}
	return report, nil
}

type suite struct {
	Cases []entry `xml:"testcase"`
}

type entry struct {
	Class   string    `xml:"classname,attr"`
	Name    string    `xml:"name,attr"`
	Failure *struct{} `xml:"failure"`
	Error   *struct{} `xml:"error"`
	Skipped *struct {
		Type string `xml:"type,attr"`
	} `xml:"skipped"`
}

const passed = "passed"

func (c entry) status() string {
	switch {
	case c.Failure != nil:
		return "failed"
	case c.Error != nil:
		return "error"
	case c.Skipped != nil && c.Skipped.Type == "pytest.xfail":
		return "xfailed"
	case c.Skipped != nil:
		return "skipped"
	}
	return passed
}

// count returns how many tests passed and how many failed or erred.
func (j junit) count() (good, bad int) {
	for _, status := range j {
		switch status {
		case passed:
			good++
		case "failed", "error":
			bad++
		}
	}
	return good, bad
}

var notXML = regexp.MustCompile("[^\t\n\r\x20-\x7e\u0085\u00a0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

// testKey is where a report has the test with this id, as pytest's junitxml
// forms the class and the name of an entry.
func testKey(id string) string {
	address, bracket, params := id, "", ""
	if i := strings.IndexByte(id, '['); i >= 0 {
		address, bracket, params = id[:i], "[", id[i+1:]
	}
	names := strings.Split(address, "::")
	names[0] = strings.TrimSuffix(strings.ReplaceAll(names[0], "/", "."), ".py")
	name := names[len(names)-1] + bracket + params
	name = notXML.ReplaceAllStringFunc(name, func(s string) string {
		r := []rune(s)[0]
		if r <= 0xff {
			return fmt.Sprintf("#x%02X", r)
		}
		return fmt.Sprintf("#x%04X", r)
	})
	return strings.Join(names[:len(names)-1], ".") + "\x00" + name
}
