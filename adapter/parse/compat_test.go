package parse

import (
	"testing"
)

// givenFormats are the formats with cases that SGLang itself has answered.
func givenFormats() []string {
	return []string{"qwen3_coder", "qwen25", "hermes", "glm45", "glm47", "kimi_k2", "deepseekv3", "deepseekv31", "deepseekv32", "deepseekv4", "minimax-m2", "mistral", "llama3", "gpt-oss", "mimo", "step3", "pythonic"}
}

func TestCompatEqualsSGLang(t *testing.T) {
	for _, name := range givenFormats() {
		t.Run(name, func(t *testing.T) {
			cases := readCases[toolCase](t, "cases/"+name+".jsonl.gz")
			for _, c := range cases {
				got, err := ReadTools(name, Compat, c.Text, chatTools(c.Tools), false)
				if err != nil {
					t.Fatal(err)
				}
				if diff := compatDiff(c, got); diff != "" {
					t.Errorf("ReadTools(%s, %q): %s", c.ID, c.Text, diff)
				}
			}
			t.Logf("figure: %s %d cases equal", name, len(cases))
		})
	}
}
