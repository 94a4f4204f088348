package scaleswe

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/agentrl-go/agentrl/swe"
)

// A rowCase is a row and what the reference system makes of it.
type rowCase struct {
	Name, Protocol string
	Sample         struct {
		Prompt, Label json.RawMessage
		Metadata      map[string]json.RawMessage
	}
	Out struct {
		MD *struct {
			ID        string `json:"instance_id"`
			Image     *string
			Workdir   *string
			Statement string `json:"problem_statement"`
			Grading   struct {
				EvalCmd *string `json:"eval_cmd"`
				Script  *string `json:"f2p_script"`
				SwePro  any
			}
		}
		Abort *string `json:"generate_abort_reason"`
	}
}

// differences from the reference, each because it lets a rollout be paid for
// that can earn nothing. The text is part of our error.
var differences = map[string]string{
	"flat f2p_script ignored":                 "metadata.remote_env_info.f2p_script", // reference: full rollout, reward 0
	"remote_env_info a string":                "want an object",                      // reference: crashes
	"prompt dict":                             "metadata.problem_statement",          // reference: an agent that is told nothing
	"nothing to grade passes the check":       "no_grader",                           // reference: full rollout, reward 0
	"swepro + eval_cmd + f2p all carried":     "run_script_path",                     // reference: reward 0 without a word
	"swepro dict":                             "run_script_path",                     // the script of the vector is not on this machine
	"unknown protocol name falls to scaleswe": "",                                    // the caller chooses; same result
}

// asPro stands for package swepro, which this one can't import.
type asPro struct{}

func (asPro) Parse(row swe.Row) (swe.Task, error) {
	f, err := row.Fields().Object("swepro")
	if err != nil {
		return nil, err
	}
	return nil, f.Error("run_script_path", "a script")
}

// TestRowVectors: rows of the default protocol read as the reference reads
// them, but for the differences that are listed.
func TestRowVectors(t *testing.T) {
	data, err := os.ReadFile("testdata/row_cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []rowCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	same, different := 0, 0
	for _, c := range cases {
		if c.Protocol == "swebench" {
			continue
		}
		parsed, err := New(Options{Pro: asPro{}}).Parse(swe.Row{Prompt: c.Sample.Prompt, Label: c.Sample.Label, Metadata: c.Sample.Metadata})
		if want, ok := differences[c.Name]; ok && want != "" {
			different++
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want one that names %s", c.Name, err, want)
			}
			continue
		}
		same++
		checkVector(t, c, parsed, err)
	}
	t.Logf("figure: %d vectors as the reference, %d differ on purpose", same, different)
}

func checkVector(t *testing.T, c rowCase, parsed swe.Task, err error) {
	t.Helper()
	if c.Out.Abort != nil {
		if err == nil || !strings.HasPrefix(err.Error(), *c.Out.Abort) {
			t.Errorf("%s: %v, want %s", c.Name, err, *c.Out.Abort)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", c.Name, err)
		return
	}
	spec, got, md := parsed.Spec(), parsed.(*task), c.Out.MD
	if spec.InstanceID != md.ID || spec.Agent.Image != *md.Image || spec.Agent.Workdir != *md.Workdir || spec.ProblemStatement != md.Statement {
		t.Errorf("%s: %+v, want %+v", c.Name, spec, md)
	}
	if want := md.Grading.EvalCmd; want != nil && got.evalCmd != *want {
		t.Errorf("%s: eval_cmd %q, want %q", c.Name, got.evalCmd, *want)
	}
	if want := md.Grading.Script; want != nil && md.Grading.EvalCmd == nil && got.pytest.script != *want {
		t.Errorf("%s: f2p_script %q, want %q", c.Name, got.pytest.script, *want)
	}
}

// TestRowErrors: rows of the wrong shape, each refused with its key.
func TestRowErrors(t *testing.T) {
	for _, c := range []struct{ metadata, want string }{
		{`{"image":"i","workdir":"/w","eval_cmd":["a"]}`, "metadata.eval_cmd"},
		{`{"image":"i","workdir":"/w","eval_cmds":"a"}`, "metadata.eval_cmds"},
		{`{"image":"i","workdir":"/w","evalCmd":"a"}`, "metadata.evalCmd"},
		{`{"image":"i","workdir":"w","eval_cmd":"a"}`, "metadata.workdir"},
		{`{"image":"i","workdir":"/","eval_cmd":"a"}`, "metadata.workdir"},
		{`{"image":7,"workdir":"/w","eval_cmd":"a"}`, "metadata.image"},
		{`{"image":"i","workdir":"/w","eval_cmd":"a","pre_commands":[1]}`, "metadata.pre_commands"},
		{`{"image":"i","workdir":"/w","eval_cmd":"a","env":{"A":1}}`, "metadata.env"},
		{`{"image":"i","workdir":"/w","eval_cmd":"a","shell":"bash; rm"}`, "metadata.shell"},
		{`{"image_url":"i","workdir":"/w","eval_cmd":"a"}`, "missing_image_or_workdir"},
		{`{"remote_env_info":{"image_url":"i","workdir":"/w","f2p_patch":"d"}}`, "FAIL_TO_PASS"},
		{`{"remote_env_info":{"image_url":"i","workdir":"/w","f2p_patch":"d","FAIL_TO_PASS":"tests/a.py"}}`, "FAIL_TO_PASS"},
		{`{"remote_env_info":{"image_url":"i","workdir":"/w","f2p_patch":"d","fail_to_pass":["a"]}}`, "FAIL_TO_PASS"},
		{`{"image":"i","workdir":"/w","swepro":{"fail_to_pass":["a"]}}`, "metadata.swepro"},
	} {
		var row swe.Row
		row.Prompt = json.RawMessage(`"p"`)
		if err := json.Unmarshal([]byte(c.metadata), &row.Metadata); err != nil {
			t.Fatal(err)
		}
		_, err := New(Options{}).Parse(row)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error that names %s", c.metadata, err, c.want)
		}
	}
	_, err := New(Options{}).Parse(swe.Row{})
	if !errors.Is(err, swe.ErrNoImage) {
		t.Errorf("empty row: %v", err)
	}
}
