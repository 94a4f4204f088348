package template

import (
	"sync"

	"github.com/agentrl-go/agentrl/adapter/chat"
)

// verdicts keeps the verdict for each set of kwargs that was asked for.
type verdicts struct{ byKwargs sync.Map }

// A Verdict says how far a template's deltas can be trusted.
type Verdict struct{}

func (t *Template) verdict(o RenderOptions) *Verdict { return &Verdict{} }

func (v *Verdict) allows(gen chat.Message, next []chat.Message) bool { return true }
