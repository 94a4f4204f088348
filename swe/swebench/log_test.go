package swebench

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentrl-go/agentrl/swe"
)

type bucketCase struct{ Success, Failure []string }

type answer struct {
	StatusMap    map[string]string `json:"status_map"`
	Found        bool
	Resolved     bool
	InfraFailure bool    `json:"infra_failure"`
	InfraReason  *string `json:"infra_reason"`
	Resolution   *string
	F2P, P2P     *bucketCase
}

type logCase struct {
	Name, Parser, Repo string
	F2P                []string `json:"FAIL_TO_PASS"`
	P2P                []string `json:"PASS_TO_PASS"`
	EvalType           string   `json:"eval_type"`
	LogFile            string   `json:"log_file"`
	V5, V4             *answer
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// TestLogs: both harnesses' answers to every log.
func TestLogs(t *testing.T) {
	var file struct{ Cases []logCase }
	readJSON(t, "testdata/log_cases.json", &file)
	perParser := map[string]int{}
	for _, c := range file.Cases {
		log, err := os.ReadFile("testdata/logs/" + c.LogFile)
		if err != nil {
			t.Fatal(err)
		}
		for version, want := range map[Harness]*answer{V5: c.V5, V4: c.V4} {
			if want == nil {
				continue
			}
			perParser[c.Parser]++
			j := Judge{Version: version, Parser: parsers(c.Parser), FailOnly: c.EvalType == "fail_only", F2P: c.F2P, P2P: c.P2P}
			got := j.answer(j.Judge(string(log)))
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, harness %d (-want +got):\n%s", c.Name, version, diff)
			}
		}
	}
	for parser, n := range perParser {
		t.Logf("figure: %s %d answers", strings.TrimPrefix(parser, "parse_log_"), n)
	}
}

// answer words a report as the harness does.
func (j Judge) answer(r Report) *answer {
	a := &answer{StatusMap: r.Statuses.Map(), Found: r.Found}
	if j.Version >= V5 {
		a.InfraFailure = r.Infra
		if r.InfraReason != "" {
			a.InfraReason = &r.InfraReason
		}
	}
	if res := r.Resolution(); res != "" {
		a.Resolution = &res
		a.Resolved = res == "RESOLVED_FULL"
		a.F2P, a.P2P = inOrder(j.F2P, r.F2P), inOrder(j.P2P, r.P2P)
	}
	return a
}

func inOrder(ids []string, b swe.Bucket) *bucketCase {
	out := &bucketCase{}
	for _, id := range ids {
		switch {
		case slices.Contains(b.Passed, id):
			out.Success = append(out.Success, id)
		case slices.Contains(b.Failed, id), slices.Contains(b.Missing, id):
			out.Failure = append(out.Failure, id)
		}
	}
	return out
}

// TestScriptsV4: harness 4.1.0's scripts for all 12 repositories.
func TestScriptsV4(t *testing.T) {
	var cases []struct {
		Name, Repo, Version string
		Base                string   `json:"base_commit"`
		TestPatch           string   `json:"test_patch"`
		Modified            []string `json:"modified_files"`
		Directives          []string
		Script              string `json:"eval_script"`
	}
	readJSON(t, "testdata/eval_script_cases_v4.json", &cases)
	repos := map[string]int{}
	for _, c := range cases {
		repos[c.Repo]++
		if diff := cmp.Diff(c.Modified, modifiedFiles(c.TestPatch), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: modified files (-want +got):\n%s", c.Name, diff)
		}
		if diff := cmp.Diff(c.Directives, directives(c.Repo, c.TestPatch), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: directives (-want +got):\n%s", c.Name, diff)
		}
		got, err := scriptV4(c.Repo, c.Version, c.Base, c.TestPatch)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.Script, got); diff != "" {
			t.Errorf("%s: script (-want +got):\n%s", c.Name, diff)
		}
	}
	if len(repos) != 12 {
		t.Errorf("%d repositories, want 12", len(repos))
	}
	t.Logf("figure: %d scripts of %d repositories", len(cases), len(repos))
}
