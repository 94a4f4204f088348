package agentrl

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func contains(s string, parts ...string) bool {
	return !slices.ContainsFunc(parts, func(p string) bool { return !strings.Contains(s, p) })
}

func TestConfigFromEnv(t *testing.T) {
	cfg, err := ConfigFromEnv([]string{"SWE_AGENT=mini", "SWE_AGENT_TIME_BUDGET_SEC=60", "SWE_EVAL_TIMEOUT_SEC=2m", "SHIM_PORT=0",
		"SLIME_FORK_MERGE_MAX_RESPONSE_TOKENS=0", "SWE_ROLLOUT_GUARD_SEC=", "AGENTRL_EVAL_RETRIES=0", "AGENTRL_CREATES_PER_SEC=2.5", "PATH=/bin"})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Agent != "mini" || cfg.AgentBudget != time.Minute || cfg.EvalTimeout != 2*time.Minute || cfg.AdapterPort != 0 ||
		cfg.ForkThreshold != None || cfg.EvalRetries != None || cfg.CreatesPerSec != 2.5 || len(cfg.Warnings) != 0 {
		t.Errorf("ConfigFromEnv = %+v", cfg)
	}
	full := cfg.withDefaults()
	if full.Guard != 6*time.Minute || full.BootConcurrency != 16 || full.BootRetries != 2 || full.Breaker != 20 || full.Trajectory != "exact" {
		t.Errorf("withDefaults = %+v", full)
	}
	if cfg, _ := ConfigFromEnv(nil); cfg.AdapterPort != 18001 {
		t.Errorf("ConfigFromEnv(nil).AdapterPort = %d, want 18001", cfg.AdapterPort)
	}
	if c := (Config{Compat: "slime"}).withDefaults(); c.Trajectory != "canonical" || c.Parse != "compat" {
		t.Errorf("AGENTRL_COMPAT=slime gives %s, %s", c.Trajectory, c.Parse)
	}
}

func TestConfigReportsEveryBadVariable(t *testing.T) {
	_, err := ConfigFromEnv([]string{"SWE_AGENT=vim", "SHIM_PORT=many", "SWE_TIME_BUDGET_SEC=soon", "SWE_BOOT_RETRIES=0",
		"AGENTRL_TRAJECTORY=straight", "AGENTRL_BREAKER=-1", "SWE_EVAL_TIMEOUT_SEC=0", "ADAPTER_BIND_HOST=", "AGENTRL_EGRESS=shut"})
	if err == nil {
		t.Fatal("ConfigFromEnv accepted nonsense")
	}
	for _, want := range []string{`SWE_AGENT="vim": want one of`, `ADAPTER_PORT="many"`, `SWE_AGENT_TIME_BUDGET_SEC="soon"`, `SWE_BOOT_RETRIES="0"`,
		"AGENTRL_TRAJECTORY", "AGENTRL_BREAKER", "SWE_EVAL_TIMEOUT_SEC", "AGENTRL_EGRESS", "mini"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %s:\n%v", want, err)
		}
	}
}

func TestConfigWarnings(t *testing.T) {
	cfg, err := ConfigFromEnv([]string{"SLIME_HEAD_HOST=old", "ADAPTER_PUBLIC_HOST=new", "SWE_AGNET=mini", "AGENTRL_CASES=/x", "SWE_TIME_BUDGET_SEC=90", "SWE_AGENT_TIME_BUDGET_SEC=90"})
	if err != nil {
		t.Fatal(err)
	}
	if cfg.AdapterPublicHost != "new" || cfg.AgentBudget != 90*time.Second {
		t.Errorf("the new name does not win: %+v", cfg)
	}
	if len(cfg.Warnings) != 2 || !contains(cfg.Warnings[0], "SLIME_HEAD_HOST", "ADAPTER_PUBLIC_HOST") || !contains(cfg.Warnings[1], "SWE_AGNET", "SWE_AGENT") {
		t.Errorf("Warnings = %q", cfg.Warnings)
	}
}

func TestDeadlinesThatCannotNest(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want []string
	}{
		"agent and guard":    {Config{AgentBudget: time.Hour, Guard: time.Hour}, []string{"SWE_AGENT_TIME_BUDGET_SEC (1h0m0s)", "SWE_ROLLOUT_GUARD_SEC (1h0m0s)"}},
		"agent and lifetime": {Config{AgentBudget: time.Hour, Sandbox: "e2b"}, []string{"SWE_AGENT_TIME_BUDGET_SEC (1h0m0s)", "SLIME_AGENT_SANDBOX_LIFETIME_SEC (1h0m0s)"}},
		"eval and lifetime":  {Config{EvalTimeout: time.Hour, Sandbox: "e2b"}, []string{"SWE_EVAL_TIMEOUT_SEC (1h0m0s)", "SLIME_AGENT_SANDBOX_LIFETIME_SEC"}},
	} {
		err := c.cfg.withDefaults().validate()
		if err == nil || !contains(err.Error(), c.want...) {
			t.Errorf("%s: validate() = %v, want %q", name, err, c.want)
		}
	}
	for name, cfg := range map[string]Config{"defaults": {}, "defaults on e2b": {Sandbox: "e2b"}, "no lifetime on docker": {AgentBudget: 5 * time.Hour, Sandbox: "docker"}} {
		if err := cfg.withDefaults().validate(); err != nil {
			t.Errorf("%s: validate() = %v", name, err)
		}
	}
}

// TestREADMEListsEveryVariable holds README's table against Config.
func TestREADMEListsEveryVariable(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range variables() {
		if !strings.Contains(string(readme), "`"+name+"`") {
			t.Errorf("README does not list %s", name)
		}
	}
	for _, line := range strings.Split(string(readme), "\n") {
		name, _, ok := strings.Cut(strings.TrimPrefix(line, "| `"), "`")
		if ok && strings.HasPrefix(line, "| `") && strings.ToUpper(name) == name && strings.Contains(name, "_") && !slices.Contains(variables(), name) {
			t.Errorf("README lists %s, which Config does not read", name)
		}
	}
}
