package agentrl

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// aliases are the older names of variables. The new name wins.
var aliases = map[string]string{
	"SLIME_HEAD_HOST":                "ADAPTER_PUBLIC_HOST",
	"SHIM_BIND_HOST":                 "ADAPTER_BIND_HOST",
	"SHIM_PORT":                      "ADAPTER_PORT",
	"SWE_TIME_BUDGET_SEC":            "SWE_AGENT_TIME_BUDGET_SEC",
	"SWE_GENERATE_GUARD_SEC":         "SWE_ROLLOUT_GUARD_SEC",
	"SWE_HOST_NODE_TARBALL":          "SLIME_AGENT_NODE_TARBALL",
	"SWE_HOST_CC_TARBALL":            "SLIME_AGENT_CC_TARBALL",
	"SWE_SANDBOX_IMAGE_METADATA_KEY": "SLIME_AGENT_SANDBOX_IMAGE_METADATA_KEY",
	"SWE_SANDBOX_LIFETIME_SEC":       "SLIME_AGENT_SANDBOX_LIFETIME_SEC",
	"SWE_RPC_RETRIES":                "SLIME_AGENT_SANDBOX_RPC_RETRIES",
	"SWE_E2B_SANDBOX_SIZE":           "SLIME_AGENT_E2B_SANDBOX_SIZE",
}

// ConfigFromEnv reads a Config from variables in the form of os.Environ. It is
// pure. A variable that is set but empty counts as unset. The error joins
// every bad variable, not the first alone.
func ConfigFromEnv(environ []string) (Config, error) {
	vars, warnings := resolveAliases(environ)
	cfg := Config{AdapterPort: 18001}
	err := env.ParseWithOptions(&cfg, env.Options{Environment: vars, FuncMap: map[reflect.Type]env.ParserFunc{
		reflect.TypeFor[time.Duration](): parseSeconds,
		reflect.TypeFor[Count]():         parseCount,
	}})
	cfg.Warnings = append(warnings, unknownVariables(environ)...)
	return cfg, errors.Join(namedErrors(err, vars), cfg.checkEnv(vars))
}

// resolveAliases returns the variables under their newest names.
func resolveAliases(environ []string) (vars map[string]string, warnings []string) {
	vars = map[string]string{}
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok && value != "" {
			vars[name] = value
		}
	}
	for _, old := range slices.Sorted(maps.Keys(aliases)) {
		value, ok := vars[old]
		if !ok {
			continue
		}
		name := aliases[old]
		switch newer, set := vars[name]; {
		case !set:
			vars[name] = value
		case newer != value:
			warnings = append(warnings, fmt.Sprintf("%s=%q is ignored: %s=%q wins", old, value, name, newer))
		}
	}
	return vars, warnings
}

// parseSeconds reads plain seconds or a Go duration.
func parseSeconds(s string) (any, error) {
	if secs, err := strconv.ParseFloat(s, 64); err == nil && secs < 1e9 && secs > -1e9 {
		return time.Duration(secs * float64(time.Second)), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return nil, errors.New("want seconds (1800) or a duration (30m)")
	}
	return d, nil
}

// parseCount reads a Count, in which the variable's 0 is None.
func parseCount(s string) (any, error) {
	n, err := strconv.Atoi(s)
	switch {
	case err != nil || n < 0:
		return nil, errors.New("want a whole number, 0 or more")
	case n == 0:
		return None, nil
	}
	return Count(n), nil
}

// namedErrors words env's errors with the variable instead of the Go field.
func namedErrors(err error, vars map[string]string) error {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return err
	}
	var named []error
	for _, e := range all.Errors {
		var p env.ParseError
		if !errors.As(e, &p) {
			named = append(named, e)
			continue
		}
		name := variableOf(p.Name)
		reason := p.Err
		var num *strconv.NumError
		if errors.As(reason, &num) {
			reason = fmt.Errorf("want a number: %w", num.Err)
		}
		named = append(named, fmt.Errorf("%s=%q: %w", name, vars[name], reason))
	}
	return errors.Join(named...)
}

func variableOf(field string) string {
	if f, ok := reflect.TypeFor[Config]().FieldByName(field); ok {
		name, _, _ := strings.Cut(f.Tag.Get("env"), ",")
		return name
	}
	return field
}

// variables lists the names that ConfigFromEnv reads, aliases included.
func variables() []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Config]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("env"), ","); name != "" {
			names = append(names, name)
		}
	}
	return append(names, slices.Sorted(maps.Keys(aliases))...)
}

// unknownVariables warns of names that look like ours and are not.
func unknownVariables(environ []string) []string {
	known := variables()
	var warnings []string
	for _, kv := range environ {
		name, _, _ := strings.Cut(kv, "=")
		ours := strings.HasPrefix(name, "SWE_") || strings.HasPrefix(name, "SLIME_AGENT_") ||
			strings.HasPrefix(name, "ADAPTER_") || strings.HasPrefix(name, "AGENTRL_")
		if !ours || slices.Contains(known, name) || name == "AGENTRL_CASES" {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s is not a variable of ours; the nearest is %s", name, nearest(name, known)))
	}
	slices.Sort(warnings)
	return warnings
}

// nearest is the name with the smallest edit distance.
func nearest(name string, names []string) string {
	best, distance := "", len(name)+100
	for _, n := range names {
		if d := editDistance(name, n); d < distance {
			best, distance = n, d
		}
	}
	return best
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last = row[j+1]
			row[j+1] = min(row[j+1]+1, row[j]+1, cost)
		}
	}
	return row[len(b)]
}

// checkEnv refuses values that parse and are not allowed.
func (c *Config) checkEnv(vars map[string]string) error {
	var errs []error
	refuse := func(name, want string) { errs = append(errs, fmt.Errorf("%s=%q: want %s", name, vars[name], want)) }
	oneOf := func(name, value string, allowed ...string) {
		if value != "" && !slices.Contains(allowed, value) {
			refuse(name, "one of "+strings.Join(allowed, ", "))
		}
	}
	oneOf("SWE_AGENT", c.Agent, agentNames()...)
	oneOf("SWE_TRAIN_PROTOCOL", c.TrainProtocol, protocolNames()...)
	oneOf("SWE_EVAL_PROTOCOL", c.EvalProtocol, protocolNames()...)
	oneOf("AGENTRL_SANDBOX", c.Sandbox, "e2b", "docker", "local")
	oneOf("AGENTRL_TRAJECTORY", c.Trajectory, "exact", "canonical")
	oneOf("AGENTRL_PARSE", c.Parse, "strict", "compat")
	oneOf("AGENTRL_REWARD", c.Reward, "full", "split")
	oneOf("AGENTRL_ON_ABORT", c.OnAbort, "continue", "restart", "fail")
	oneOf("AGENTRL_COMPAT", c.Compat, "slime")
	oneOf("AGENTRL_EGRESS", c.Egress, "open", "adapter")
	set := func(name string) bool { return vars[name] != "" }
	atLeast := func(name string, value, least int) {
		if set(name) && value < least {
			refuse(name, fmt.Sprintf("%d or more", least))
		}
	}
	atLeast("ADAPTER_PORT", c.AdapterPort, 0)
	if c.AdapterPort > 65535 {
		refuse("ADAPTER_PORT", "a port, 0 to 65535")
	}
	atLeast("SWE_BOOT_CONCURRENCY", c.BootConcurrency, 1)
	atLeast("SWE_BOOT_RETRIES", c.BootRetries, 1)
	atLeast("SLIME_AGENT_SANDBOX_RPC_RETRIES", c.RPCRetries, 0)
	atLeast("AGENTRL_MAX_TURNS", c.MaxTurns, 0)
	atLeast("AGENTRL_MAX_TOKENS", c.MaxTokens, 0)
	atLeast("AGENTRL_DP_RANKS", c.DPRanks, 0)
	atLeast("AGENTRL_MAX_SANDBOXES", c.MaxSandboxes, 0)
	atLeast("AGENTRL_RUN_MAX_MB", c.RunMaxMB, 0)
	atLeast("AGENTRL_RUN_KEEP", c.RunKeep, 0)
	if set("AGENTRL_RUN_SAMPLE") && (c.RunSample <= 0 || c.RunSample > 1) {
		refuse("AGENTRL_RUN_SAMPLE", "a share above 0, at most 1; to record nothing leave AGENTRL_RUN_DIR empty")
	}
	if _, err := c.adminAddr(); err != nil {
		errs = append(errs, err)
	}
	if !(c.CreatesPerSec >= 0) || math.IsInf(c.CreatesPerSec, 0) { // NaN too
		refuse("AGENTRL_CREATES_PER_SEC", "a number, 0 or more")
	}
	for name, d := range map[string]time.Duration{"SWE_AGENT_TIME_BUDGET_SEC": c.AgentBudget, "SWE_EVAL_TIMEOUT_SEC": c.EvalTimeout,
		"SLIME_AGENT_SANDBOX_LIFETIME_SEC": c.SandboxLifetime} {
		if set(name) && d <= 0 {
			refuse(name, "more than 0 seconds")
		}
	}
	for name, d := range map[string]time.Duration{"SWE_ROLLOUT_GUARD_SEC": c.Guard, "AGENTRL_QUEUE_TIMEOUT": c.QueueTimeout, "AGENTRL_MAX_TIME": c.MaxTime} {
		if d < 0 {
			refuse(name, "0 seconds or more")
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errors.Join(errs...)
}
