package agentrl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"time"

	"github.com/agentrl-go/agentrl/adapter"
	"github.com/agentrl-go/agentrl/adapter/anthropic"
	"github.com/agentrl-go/agentrl/adapter/chat"
	"github.com/agentrl-go/agentrl/adapter/openai"
	"github.com/agentrl-go/agentrl/adapter/parse"
	"github.com/agentrl-go/agentrl/adapter/sglang"
	"github.com/agentrl-go/agentrl/adapter/template"
	"github.com/agentrl-go/agentrl/adapter/token"
	"github.com/agentrl-go/agentrl/adapter/trajectory"
	"github.com/agentrl-go/agentrl/harness"
	"github.com/agentrl-go/agentrl/sandbox"
	"github.com/agentrl-go/agentrl/sandbox/docker"
	"github.com/agentrl-go/agentrl/sandbox/e2b"
	"github.com/agentrl-go/agentrl/sandbox/local"
	"github.com/agentrl-go/agentrl/swe"
	"github.com/agentrl-go/agentrl/swe/harbor"
	"github.com/agentrl-go/agentrl/swe/scaleswe"
	"github.com/agentrl-go/agentrl/swe/statusmap"
	"github.com/agentrl-go/agentrl/swe/swebench"
	"github.com/agentrl-go/agentrl/swe/swepro"
)

// A Count is a number of which the zero value means the default, and None means 0.
type Count int

// None is a Count of 0.
const None Count = -1

// n is the count with its default.
func (c Count) n() int { return max(int(c), 0) }

// A Config says how rollouts run. Its zero value means the defaults; each field
// names its environment variable, in which durations are plain seconds (1800)
// or Go durations (30m).
type Config struct {
	// Agent is the harness. Defaults to "claude_code".
	Agent string `env:"SWE_AGENT"`
	// Command is the command line of the harness "shell".
	Command string `env:"AGENTRL_SHELL_COMMAND"`
	// AdapterPublicHost is the host that sandboxes reach the adapter at.
	// Required as soon as a sandboxed CLI must dial back.
	AdapterPublicHost string `env:"ADAPTER_PUBLIC_HOST"`
	// AdapterPublicURL overrides the whole address: scheme, host, port, path.
	AdapterPublicURL string `env:"ADAPTER_PUBLIC_URL"`
	// AdapterBindHost is where the adapter listens. Defaults to "0.0.0.0".
	AdapterBindHost string `env:"ADAPTER_BIND_HOST"`
	// AdapterPort is the adapter's port; 0 means any free one. ConfigFromEnv
	// defaults to 18001. One listener serves all Generators of a process.
	AdapterPort int `env:"ADAPTER_PORT"`
	// ForkThreshold is the fork/merge threshold of the canonical trajectory
	// policy, in tokens. Defaults to 1024; None switches merging off.
	ForkThreshold Count `env:"SLIME_FORK_MERGE_MAX_RESPONSE_TOKENS"`
	// AgentBudget is the agent's wall clock. Defaults to 30 min.
	AgentBudget time.Duration `env:"SWE_AGENT_TIME_BUDGET_SEC"`
	// EvalTimeout bounds the tests of an evaluation. Defaults to 10 min.
	EvalTimeout time.Duration `env:"SWE_EVAL_TIMEOUT_SEC"`
	// Guard bounds the whole call; waiting for a boot slot, for the creation
	// rate or in a pause does not count. Defaults to AgentBudget + EvalTimeout + 3 min.
	Guard time.Duration `env:"SWE_ROLLOUT_GUARD_SEC"`
	// QueueTimeout bounds that waiting. Defaults to no limit.
	QueueTimeout time.Duration `env:"AGENTRL_QUEUE_TIMEOUT"`
	// BootConcurrency is how many sandboxes are booted (created and installed)
	// at once in the process; evaluations go first. Defaults to 16.
	BootConcurrency int `env:"SWE_BOOT_CONCURRENCY"`
	// BootRetries is how many boots are attempted. Defaults to 2.
	BootRetries int `env:"SWE_BOOT_RETRIES"`
	// Prompt is the task instruction. Defaults to swe.TaskPrompt.
	Prompt string `env:"SWE_CC_PROMPT"`

	// NodeTarball, ClaudeCodeTarball and CodexTarball are host files that the
	// harness installs from; required only where the chosen harness needs them.
	NodeTarball       string `env:"SLIME_AGENT_NODE_TARBALL"`
	ClaudeCodeTarball string `env:"SLIME_AGENT_CC_TARBALL"`
	CodexTarball      string `env:"SLIME_AGENT_CODEX_TARBALL"`
	// ClaudeCodeMuslTarball is for images with musl. Defaults to ClaudeCodeTarball.
	ClaudeCodeMuslTarball string `env:"AGENTRL_CC_MUSL_TARBALL"`
	// OpencodeTarball and PiTarball are those of "opencode" and "pi".
	OpencodeTarball string `env:"AGENTRL_OPENCODE_TARBALL"`
	PiTarball       string `env:"AGENTRL_PI_TARBALL"`
	// NodeSHA256 and its like pin those files, in hex; another file is refused.
	// Default to none: any file is accepted.
	NodeSHA256           string `env:"AGENTRL_NODE_SHA256"`
	ClaudeCodeSHA256     string `env:"AGENTRL_CC_SHA256"`
	ClaudeCodeMuslSHA256 string `env:"AGENTRL_CC_MUSL_SHA256"`
	CodexSHA256          string `env:"AGENTRL_CODEX_SHA256"`
	OpencodeSHA256       string `env:"AGENTRL_OPENCODE_SHA256"`
	PiSHA256             string `env:"AGENTRL_PI_SHA256"`
	// ClaudeCodeArgs and CodexArgs are appended to the command line, as shell text.
	ClaudeCodeArgs string `env:"SLIME_AGENT_CC_EXTRA_ARGS"`
	CodexArgs      string `env:"SLIME_AGENT_CODEX_EXTRA_ARGS"`
	// ClaudeCodeEnvs and CodexEnvs are JSON objects, merged into the agent's environment last.
	ClaudeCodeEnvs string `env:"SLIME_AGENT_CC_EXTRA_ENVS"`
	CodexEnvs      string `env:"SLIME_AGENT_CODEX_EXTRA_ENVS"`

	// ImageMetadataKey is the sandbox metadata key that routes an image. Defaults to none.
	ImageMetadataKey string `env:"SLIME_AGENT_SANDBOX_IMAGE_METADATA_KEY"`
	// SandboxLifetime is how long a sandbox may live, from its creation and
	// again from the start of the stages that take long. Defaults to 1 h.
	SandboxLifetime time.Duration `env:"SLIME_AGENT_SANDBOX_LIFETIME_SEC"`
	// RPCRetries is how often a replayable sandbox request is tried. Defaults to 6.
	RPCRetries int `env:"SLIME_AGENT_SANDBOX_RPC_RETRIES"`
	// SandboxSize is E2B's sandbox size. Defaults to "md".
	SandboxSize string `env:"SLIME_AGENT_E2B_SANDBOX_SIZE"`
	// E2BAPIKey, E2BAPIURL, E2BDomain and E2BSandboxURL are E2B's own.
	E2BAPIKey     string `env:"E2B_API_KEY"`
	E2BAPIURL     string `env:"E2B_API_URL"`
	E2BDomain     string `env:"E2B_DOMAIN"`
	E2BSandboxURL string `env:"E2B_SANDBOX_URL"`

	// TrainProtocol and EvalProtocol are the dataset protocols of Generate and
	// of Evaluate. Default to "scaleswe".
	TrainProtocol string `env:"SWE_TRAIN_PROTOCOL"`
	EvalProtocol  string `env:"SWE_EVAL_PROTOCOL"`

	// Sandbox is the backend: "e2b", "docker" or "local". Defaults to e2b if
	// E2BAPIKey is set, else docker if its socket answers, else local.
	Sandbox string `env:"AGENTRL_SANDBOX"`
	// DockerHost is Docker's own: unix:// and the path of the daemon's socket.
	// Defaults to /var/run/docker.sock.
	DockerHost string `env:"DOCKER_HOST"`
	// Trajectory is "exact" or "canonical". Defaults to "exact".
	Trajectory string `env:"AGENTRL_TRAJECTORY"`
	// Parse is "strict" or "compat". Defaults to "strict".
	Parse string `env:"AGENTRL_PARSE"`
	// Reward is "full" (each sample of a rollout carries the whole reward) or
	// "split" (each carries its share). Defaults to "full".
	Reward string `env:"AGENTRL_REWARD"`
	// OnAbort says what becomes of a generation that the engine aborts:
	// "continue", "restart" or "fail". Defaults to "continue".
	OnAbort string `env:"AGENTRL_ON_ABORT"`
	// Compat "slime" is canonical, compat and the seeds' grading order in one switch. Defaults to none.
	Compat string `env:"AGENTRL_COMPAT"`
	// MaxTurns bounds the model turns of a rollout. Defaults to no limit.
	MaxTurns int `env:"AGENTRL_MAX_TURNS"`
	// MaxTokens bounds the tokens that are sampled in a rollout. Defaults to no limit.
	MaxTokens int `env:"AGENTRL_MAX_TOKENS"`
	// MaxTime bounds the time from the agent's first model call on, pauses not
	// counted; calls after it are refused, so that the agent ends by itself
	// before AgentBudget has it killed. Defaults to no limit.
	MaxTime time.Duration `env:"AGENTRL_MAX_TIME"`
	// MaxSandboxes bounds the sandboxes alive at once in the process. Defaults to no limit.
	MaxSandboxes int `env:"AGENTRL_MAX_SANDBOXES"`
	// CreatesPerSec bounds the rate of creations in the process. Defaults to no limit.
	CreatesPerSec float64 `env:"AGENTRL_CREATES_PER_SEC"`
	// Egress is "open", or "adapter": the agent reaches nothing but the adapter. Defaults to "open".
	Egress string `env:"AGENTRL_EGRESS"`
	// EvalRetries is how often an evaluation is tried again after an
	// infrastructure fault. Defaults to 1.
	EvalRetries Count `env:"AGENTRL_EVAL_RETRIES"`
	// Breaker is how many consecutive infrastructure failures of one class
	// open the circuit breaker. Defaults to 20; None switches it off.
	Breaker Count `env:"AGENTRL_BREAKER"`
	// LedgerDir is where live sandboxes are written down for a reaper. Defaults to none.
	LedgerDir string `env:"AGENTRL_LEDGER_DIR"`
	// RunID labels the run's sandboxes. Defaults to one made at the start.
	RunID string `env:"AGENTRL_RUN_ID"`
	// RunDir is where each rollout leaves its record. Defaults to none.
	RunDir string `env:"AGENTRL_RUN_DIR"`
	// RunSample is the share of the rollouts that leave a record; aborted ones
	// always do. Defaults to 1.
	RunSample float64 `env:"AGENTRL_RUN_SAMPLE"`
	// RunMaxMB and RunKeep bound the records in RunDir, in MiB and in number:
	// the oldest are removed, down to nine tenths. Default to no limit.
	RunMaxMB int `env:"AGENTRL_RUN_MAX_MB"`
	RunKeep  int `env:"AGENTRL_RUN_KEEP"`
	// RecordDir is where each rollout leaves a Recording, which is as big as all
	// its traffic: for debugging. Defaults to none.
	RecordDir string `env:"AGENTRL_RECORD_DIR"`
	// AdminAddr is where the live view is served, "HOST:PORT" or "PORT": what
	// each rollout is doing, and pprof. Without a host it is the loopback's.
	// Defaults to none.
	AdminAddr string `env:"AGENTRL_ADMIN_ADDR"`

	// TemplateKwargs is a JSON object of variables of the chat template, such as
	// {"enable_thinking": false}. A row's apply_chat_template_kwargs, or those in
	// its metadata, win over it. Defaults to none.
	TemplateKwargs string `env:"AGENTRL_CHAT_TEMPLATE_KWARGS"`
	// DPRanks is the engine's number of data-parallel ranks (--dp-size): each
	// session is then kept on one, so that its prefix stays cached. It takes a
	// server, not a router: routers drop the field. Defaults to 0: the engine chooses.
	DPRanks int `env:"AGENTRL_DP_RANKS"`
	// EngineFields are further fields of each /generate request, such as
	// {"return_routed_experts": true}, and EngineWants the fields of meta_info
	// that must come back for them: an answer without one fails. With any
	// wanted, Hooks.Turn gets meta_info as Meta. Default to none.
	EngineFields map[string]any
	EngineWants  []string
	// GradeEmpty runs the tests for an empty patch too, instead of giving it
	// reward 0 without a sandbox: a preflight needs that. Defaults to false;
	// Compat "slime" sets it.
	GradeEmpty bool
	// TruncatedStatus gives samples whose last turn was cut the status
	// truncated instead of completed. Defaults to false.
	TruncatedStatus bool
	// Warnings are what ConfigFromEnv noticed; New logs them.
	Warnings []string
}

// withDefaults fills what is zero, in the order of the fields.
func (c Config) withDefaults() Config {
	setDefault(&c.Agent, "claude_code")
	setDefault(&c.AdapterBindHost, "0.0.0.0")
	setDefault(&c.ForkThreshold, 1024)
	setDefault(&c.AgentBudget, 30*time.Minute)
	setDefault(&c.EvalTimeout, 10*time.Minute)
	setDefault(&c.Guard, c.AgentBudget+c.EvalTimeout+3*time.Minute)
	setDefault(&c.BootConcurrency, 16)
	setDefault(&c.BootRetries, 2)
	setDefault(&c.SandboxLifetime, time.Hour)
	setDefault(&c.RPCRetries, 6)
	setDefault(&c.SandboxSize, "md")
	setDefault(&c.TrainProtocol, "scaleswe")
	setDefault(&c.EvalProtocol, "scaleswe")
	if c.Compat == "slime" {
		setDefault(&c.Trajectory, "canonical")
		setDefault(&c.Parse, "compat")
		c.GradeEmpty = true
	}
	setDefault(&c.Trajectory, "exact")
	setDefault(&c.Parse, "strict")
	setDefault(&c.Reward, "full")
	setDefault(&c.OnAbort, "continue")
	setDefault(&c.Egress, "open")
	setDefault(&c.EvalRetries, 1)
	setDefault(&c.Breaker, 20)
	setDefault(&c.RunID, "run-"+randomID())
	setDefault(&c.RunSample, 1)
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// validate refuses deadlines that can't nest; the message names both sides.
func (c Config) validate() error {
	var errs []error
	if c.AgentBudget >= c.Guard {
		errs = append(errs, fmt.Errorf("SWE_AGENT_TIME_BUDGET_SEC (%v) must be less than SWE_ROLLOUT_GUARD_SEC (%v): raise the guard or leave it empty", c.AgentBudget, c.Guard))
	}
	if c.Sandbox == "e2b" {
		const slack = 300 * time.Second
		for name, d := range map[string]time.Duration{"SWE_AGENT_TIME_BUDGET_SEC": c.AgentBudget, "SWE_EVAL_TIMEOUT_SEC": c.EvalTimeout} {
			if d+slack > c.SandboxLifetime {
				errs = append(errs, fmt.Errorf("%s (%v) + %v must not exceed SLIME_AGENT_SANDBOX_LIFETIME_SEC (%v): raise the lifetime", name, d, slack, c.SandboxLifetime))
			}
		}
	}
	return errors.Join(errs...)
}

// Args are the trainer's own. They are comparable: they key the process-wide Generators.
type Args struct {
	HFCheckpoint    string `json:"hf_checkpoint"`    // directory with tokenizer.json, tokenizer_config.json and, if separate, chat_template.jinja
	SGLangURL       string `json:"sglang_url"`       // server or router, "http://10.0.0.2:30000"
	ToolCallParser  string `json:"tool_call_parser"` // as in SGLang's --tool-call-parser; "" for none
	ReasoningParser string `json:"reasoning_parser"` // as in SGLang's --reasoning-parser; "" for none
	MaxContextLen   int    `json:"max_context_len"`  // tokens of prompt and answer together; 0 for no limit
}

// New makes a Generator with the production stages that cfg and args name. It
// checks everything before anything is queued and reports all problems at once.
func New(cfg Config, args Args) (*Generator, error) {
	cfg = cfg.withDefaults()
	backend, why := chooseSandbox(cfg)
	cfg.Sandbox = backend
	g := &Generator{Config: cfg, args: args}

	var errs []error
	try := func(err error) { errs = append(errs, err) }
	try(cfg.positive())
	try(cfg.validate())
	if args.MaxContextLen < 0 {
		try(fmt.Errorf("max_context_len %d: want 0 for no limit, or tokens", args.MaxContextLen))
	}
	var err error
	g.Harness, err = newHarness(cfg)
	try(err)
	g.Protocol, err = newProtocol(cfg, "SWE_TRAIN_PROTOCOL", cfg.TrainProtocol)
	try(err)
	g.EvalProtocol, err = newProtocol(cfg, "SWE_EVAL_PROTOCOL", cfg.EvalProtocol)
	try(err)
	g.Sandboxes, err = NewProvider(cfg)
	try(err)
	ledger, err := openLedger(cfg.LedgerDir)
	try(err)
	public, err := publicURL(cfg, g.Harness)
	try(err)
	options, err := adapterOptions(cfg, args)
	try(err)
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, closeLedger(ledger))
	}
	g.shared = process.gates(cfg)
	if ledger != nil {
		g.reap(cfg.LedgerDir)
		g.Sandboxes = ledger.Wrap(backend, g.Sandboxes)
	}
	if cfg.RecordDir != "" {
		g.Recorder = NewRecorder(cfg.RecordDir)
		options = g.Recorder.Adapter(options)
	}
	address, err := g.serve(options, public, ledger)
	if err != nil {
		return nil, errors.Join(err, closeLedger(ledger))
	}
	if err := g.openAdmin(); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	for _, w := range cfg.Warnings {
		slog.Warn("configuration", "warning", w)
	}
	slog.Info("generator ready", "tokenizer", args.HFCheckpoint, "adapter", address, "max_context_len", args.MaxContextLen,
		"tool_parser", args.ToolCallParser, "reasoning_parser", args.ReasoningParser, "sandbox", backend, "because", why)
	return g, nil
}

// protocols are the dataset protocols by name.
var protocols = map[string]func(Config) swe.Protocol{
	"scaleswe": func(c Config) swe.Protocol {
		seeds := c.Compat == "slime"
		pro := swepro.New(swepro.Options{EvalTimeout: c.EvalTimeout, AsPatched: seeds, GradeEmpty: c.GradeEmpty})
		return scaleswe.New(scaleswe.Options{EvalTimeout: c.EvalTimeout, AsPatched: seeds, KeepHistory: seeds, GradeEmpty: c.GradeEmpty, Pro: pro})
	},
	"swebench": func(c Config) swe.Protocol {
		seeds := c.Compat == "slime"
		return swebench.New(swebench.Options{EvalTimeout: c.EvalTimeout, AsPatched: seeds, KeepHistory: seeds, GradeEmpty: c.GradeEmpty})
	},
	"swepro": func(c Config) swe.Protocol {
		return swepro.New(swepro.Options{EvalTimeout: c.EvalTimeout, AsPatched: c.Compat == "slime", GradeEmpty: c.GradeEmpty})
	},
	"statusmap": func(c Config) swe.Protocol {
		return statusmap.New(statusmap.Options{EvalTimeout: c.EvalTimeout, GradeEmpty: c.GradeEmpty})
	},
	"harbor": func(c Config) swe.Protocol {
		return harbor.New(harbor.Options{EvalTimeout: c.EvalTimeout, GradeEmpty: c.GradeEmpty})
	},
}

func protocolNames() []string { return slices.Sorted(maps.Keys(protocols)) }

func newProtocol(cfg Config, variable, name string) (swe.Protocol, error) {
	make, ok := protocols[name]
	if !ok {
		return nil, fmt.Errorf("%s=%q: want one of %s", variable, name, strings.Join(protocolNames(), ", "))
	}
	return make(cfg), nil
}

// chooseSandbox names the backend, and why it is that one.
func chooseSandbox(cfg Config) (name, why string) {
	switch {
	case cfg.Sandbox != "":
		return cfg.Sandbox, "AGENTRL_SANDBOX says so"
	case cfg.E2BAPIKey != "":
		return "e2b", "E2B_API_KEY is set"
	case docker.New(docker.Options{Socket: cfg.DockerHost}).Ping(context.Background()) == nil: // gives up after 5 s
		return "docker", "its socket answers"
	}
	return "local", "there is neither an E2B_API_KEY nor a Docker socket that answers"
}

// NewProvider returns the backend that cfg.Sandbox names, set up as New does,
// without a ledger.
func NewProvider(cfg Config) (sandbox.Provider, error) {
	switch cfg.Sandbox {
	case "e2b":
		if cfg.E2BAPIKey == "" {
			return nil, errors.New("AGENTRL_SANDBOX=e2b needs E2B_API_KEY")
		}
		return e2b.New(e2b.Options{
			APIKey: cfg.E2BAPIKey, APIURL: cfg.E2BAPIURL, Domain: cfg.E2BDomain, SandboxURL: cfg.E2BSandboxURL,
			ImageMetadataKey: cfg.ImageMetadataKey, Size: cfg.SandboxSize, Lifetime: cfg.SandboxLifetime, Retries: cfg.RPCRetries,
		})
	case "docker":
		if strings.Contains(strings.TrimPrefix(cfg.DockerHost, "unix://"), "://") {
			return nil, fmt.Errorf("DOCKER_HOST=%q: want unix:// and a socket's path; a daemon is spoken with on its socket alone", cfg.DockerHost)
		}
		return docker.New(docker.Options{Socket: cfg.DockerHost, Retries: cfg.RPCRetries}), nil
	case "local":
		return &local.Provider{}, nil
	}
	return nil, fmt.Errorf("AGENTRL_SANDBOX=%q: want one of e2b, docker, local", cfg.Sandbox)
}

// publicURL is where sandboxes reach the adapter; "" where none has to.
func publicURL(cfg Config, h harness.Harness) (string, error) {
	switch {
	case cfg.AdapterPublicURL != "":
		return checkPublicURL(cfg.AdapterPublicURL)
	case cfg.AdapterPublicHost != "":
		return publicHost(cfg.AdapterPublicHost)
	case h == nil || !h.DialsBack():
		return "", nil
	case cfg.Sandbox == "local":
		return "http://127.0.0.1:" + portMark, nil // a local sandbox shares this machine's loopback
	case cfg.Sandbox == "docker":
		return "http://" + docker.HostName + ":" + portMark, nil // every container knows its host by this name
	}
	return "", fmt.Errorf("ADAPTER_PUBLIC_HOST is not set: the agent %q runs in a %s sandbox and its model calls must reach this process; "+
		"export ADAPTER_PUBLIC_HOST to an address of this host that sandboxes can reach, or ADAPTER_PUBLIC_URL to a tunnel's", cfg.Agent, cfg.Sandbox)
}

// portMark stands for the port until the listener has one: no host can hold it.
const portMark = "{port}"

func checkPublicURL(s string) (string, error) {
	u, err := url.Parse(s)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return "", fmt.Errorf("ADAPTER_PUBLIC_URL=%q: want http://HOST[:PORT][/PATH] or https://…", s)
	}
	return strings.TrimRight(s, "/"), nil
}

func publicHost(host string) (string, error) {
	bare := strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.ContainsAny(host, "/ @") || strings.Contains(bare, ":") && net.ParseIP(bare) == nil {
		return "", fmt.Errorf("ADAPTER_PUBLIC_HOST=%q: want a name or an address alone: the port is ADAPTER_PORT, and scheme and path are for ADAPTER_PUBLIC_URL", host)
	}
	return "http://" + net.JoinHostPort(bare, portMark), nil
}

// abortPolicies are the values of Config.OnAbort.
var abortPolicies = map[string]adapter.AbortPolicy{"continue": adapter.Continue, "restart": adapter.Restart, "fail": adapter.Fail}

// adapterOptions loads what the trainer's args name.
func adapterOptions(cfg Config, args Args) (adapter.Options, error) {
	o := adapter.Options{
		Dialects:   dialects(),
		Trajectory: trajectory.Options{Policy: trajectory.Exact, ForkThreshold: int(cfg.ForkThreshold)},
		MaxContext: args.MaxContextLen,
		Model:      "agentrl",
		OnAbort:    abortPolicies[cfg.OnAbort],
		Extra:      cfg.EngineFields,
		Want:       cfg.EngineWants,
		DPRanks:    cfg.DPRanks,
		Render:     template.Options{Kwargs: json.RawMessage(cfg.TemplateKwargs)},
	}
	if cfg.Trajectory == "canonical" {
		o.Trajectory.Policy = trajectory.Canonical
	}
	mode := parse.Strict
	if cfg.Parse == "compat" {
		mode = parse.Compat
	}
	var errs []error
	tok, err := token.Load(args.HFCheckpoint)
	errs = append(errs, err)
	tmpl, err := template.Load(args.HFCheckpoint)
	errs = append(errs, err)
	parser, err := parse.New(args.ToolCallParser, args.ReasoningParser, mode)
	errs = append(errs, err)
	engine, err := sglang.New(args.SGLangURL, sglang.Options{})
	errs = append(errs, err)
	if err := template.CheckKwargs(o.Render.Kwargs); err != nil {
		errs = append(errs, fmt.Errorf("AGENTRL_CHAT_TEMPLATE_KWARGS=%q: %w", cfg.TemplateKwargs, err))
	}
	if err := errors.Join(errs...); err != nil {
		return o, err
	}
	o.Tokenizer, o.Template, o.Parser, o.Engine = tok, tmpl, parser, engine
	return o, nil
}

func dialects() []chat.Dialect {
	return []chat.Dialect{anthropic.Messages{}, openai.Chat{}, openai.Responses{}}
}
