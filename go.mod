module github.com/agentrl-go/agentrl

go 1.26

require (
	github.com/caarlos0/env/v11 v11.4.2
	github.com/google/go-cmp v0.7.0
	github.com/sugarme/tokenizer v0.3.0
	golang.org/x/sync v0.25.0
)
