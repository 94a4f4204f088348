package mini

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/agentrl-go/agentrl/harness"
)

// A toolCall is one call as the chat completions protocol has it.
type toolCall struct {
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// A reply is one assistant message; raw is sent back as history, byte for byte.
type reply struct {
	Content   string     `json:"content"`
	ToolCalls []toolCall `json:"tool_calls"`
	raw       json.RawMessage
	finish    string
}

// A statusError is an answer that is none.
type statusError struct {
	status  int
	message string
	noRetry bool
}

func (e *statusError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.status, e.message) }

// attempts of one request; the waits between them grow from a second.
const attempts = 4

// ask requests the next assistant message. A request that did not reach the
// adapter, or that it wants repeated, is repeated a few times.
func (a *agent) ask(ctx context.Context) (reply, error) {
	body, err := json.Marshal(map[string]any{
		"model": a.job.Model, "messages": a.messages, "tools": []json.RawMessage{json.RawMessage(bashTool)},
	})
	if err != nil {
		return reply{}, err
	}
	for attempt := 1; ; attempt++ {
		r, err := a.post(ctx, body)
		var status *statusError
		final := errors.As(err, &status) && (status.noRetry || status.status < 500 && status.status != http.StatusTooManyRequests)
		if err == nil || ctx.Err() != nil || final || attempt == attempts {
			return r, err
		}
		select {
		case <-time.After(time.Duration(attempt) * time.Second):
		case <-ctx.Done():
			return reply{}, context.Cause(ctx)
		}
	}
}

func (a *agent) post(ctx context.Context, body []byte) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.job.BaseURL+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+a.job.Token)
	res, err := a.opts.Client.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return reply{}, fmt.Errorf("read answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		return reply{}, &statusError{res.StatusCode, errorText(data), res.Header.Get("x-should-retry") == "false"}
	}
	return decode(data)
}

func decode(data []byte) (reply, error) {
	var answer struct {
		Choices []struct {
			Message json.RawMessage `json:"message"`
			Finish  string          `json:"finish_reason"`
		} `json:"choices"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return reply{}, fmt.Errorf("answer: %w", err)
	}
	if len(answer.Choices) == 0 {
		return reply{}, fmt.Errorf("answer has no choices: %s", errorText(data))
	}
	r := reply{raw: answer.Choices[0].Message, finish: answer.Choices[0].Finish}
	return r, json.Unmarshal(r.raw, &r)
}

func errorText(data []byte) string {
	var e struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	if json.Unmarshal(data, &e) == nil && e.Error.Message != "" {
		return e.Error.Message
	}
	return shorten(string(data), 300)
}

// outcomeOf says what an unanswered request means for the run.
func outcomeOf(err error) harness.Outcome {
	var status *statusError
	if !errors.As(err, &status) {
		return harness.Unreachable
	}
	if o := harness.OutcomeOf(status.Error()); o != harness.GaveUp {
		return o
	}
	return harness.Refused
}

func message(role, content string) json.RawMessage {
	raw, _ := json.Marshal(map[string]string{"role": role, "content": content}) // strings always marshal
	return raw
}

func toolResult(id, content string) json.RawMessage {
	raw, _ := json.Marshal(map[string]string{"role": "tool", "tool_call_id": id, "content": content}) // strings always marshal
	return raw
}
