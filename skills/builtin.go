package skills

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Engine is the provider of the built-in skills.
const Engine = "engine"

// MaxSleep is the longest time that engine/sleep takes.
const MaxSleep = 24 * time.Hour

// Raisable lists the error kinds that engine/fail may raise: those that a
// provider can meet. The others are the engine's own statements about trust, approval,
// effects, the run or its infrastructure, which no plan may make.
func Raisable() []contract.Kind {
	return []contract.Kind{
		contract.Unsent, contract.Transport, contract.Timeout, contract.Throttled, contract.Auth,
		contract.ToolError, contract.ServerError, contract.Contract, contract.Expr,
		contract.TooLarge, contract.NeedsInput, contract.InvalidOutput,
	}
}

// Builtin lists the skills of the engine itself, sorted by operation:
//
//   - engine/fail always fails, with the given message, kind (default
//     tool_error) and details;
//   - engine/pass returns its input;
//   - engine/sleep waits for the given milliseconds, or until the call ends;
//   - engine/text returns the text of what an MCP tool without an output schema answers.
func Builtin() []Skill {
	object := json.RawMessage(`{"type":"object"}`)
	return []Skill{
		{
			Provider: Engine, Operation: "fail", Mode: plan.Deter, Run: fail,
			Description:  "Fails with the given message, kind and details.",
			InputSchema:  failInput(),
			OutputSchema: json.RawMessage(`{"not":{}}`),
		},
		{
			Provider: Engine, Operation: "pass", Mode: plan.Deter, Run: pass,
			Description:  "Returns its input.",
			InputSchema:  object,
			OutputSchema: object,
		},
		{
			Provider: Engine, Operation: "sleep", Mode: plan.Deter, Run: sleep,
			Description:  "Waits for the given number of milliseconds.",
			InputSchema:  json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"ms":{"type":"integer","minimum":0,"maximum":%d}},"required":["ms"],"additionalProperties":false}`, MaxSleep.Milliseconds())),
			OutputSchema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"slept_ms":{"type":"integer","minimum":0,"maximum":%d}},"required":["slept_ms"],"additionalProperties":false}`, MaxSleep.Milliseconds())),
		},
		{
			Provider: Engine, Operation: "text", Mode: plan.Deter, Run: text,
			Description:  "Returns the text of what an MCP tool answers: that of all blocks of the type text, with a line feed between them.",
			InputSchema:  json.RawMessage(`{"type":"object","properties":{"content":{"type":"array","items":{"type":"object"}}},"required":["content"]}`),
			OutputSchema: json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},"required":["text"],"additionalProperties":false}`),
		},
	}
}

func failInput() json.RawMessage {
	kinds := make([]string, 0, len(Raisable()))
	for _, k := range Raisable() {
		kinds = append(kinds, `"`+string(k)+`"`)
	}
	return json.RawMessage(`{"type":"object","properties":{"message":{"type":"string","minLength":1,"maxLength":4096},"kind":{"enum":[` +
		strings.Join(kinds, ",") + `]},"details":true},"required":["message"],"additionalProperties":false}`)
}

func pass(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
	return input, nil
}

func fail(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
	var in struct {
		Message string          `json:"message"`
		Kind    contract.Kind   `json:"kind"`
		Details json.RawMessage `json:"details"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, contract.Errorf(contract.Contract, "engine/fail: read the input: %w", err)
	}
	if in.Kind == "" {
		in.Kind = contract.ToolError
	}
	if !slices.Contains(Raisable(), in.Kind) {
		return nil, contract.Errorf(contract.Contract, "engine/fail: a plan cannot raise the kind %q", in.Kind)
	}
	return nil, &contract.Error{Kind: in.Kind, Message: in.Message, Details: in.Details}
}

func sleep(ctx context.Context, input json.RawMessage) (json.RawMessage, error) {
	var in struct {
		MS json.Number `json:"ms"`
	}
	if err := json.Unmarshal(input, &in); err != nil {
		return nil, contract.Errorf(contract.Contract, "engine/sleep: read the input: %w", err)
	}
	ms, err := milliseconds(in.MS)
	if err != nil {
		return nil, contract.Errorf(contract.Contract, "engine/sleep: %w", err)
	}
	timer := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer timer.Stop()
	select {
	case <-timer.C:
		return json.RawMessage(fmt.Sprintf(`{"slept_ms":%d}`, ms)), nil
	case <-ctx.Done():
		return nil, ended(ctx, "engine/sleep")
	}
}

func text(_ context.Context, input json.RawMessage) (json.RawMessage, error) {
	in, err := schemas.Decode(input)
	if err != nil {
		return nil, contract.Errorf(contract.Contract, "engine/text: read the input: %w", err)
	}
	fields, _ := in.(map[string]any)
	blocks, ok := fields["content"].([]any)
	if !ok {
		return nil, contract.Errorf(contract.Contract, "engine/text: the input has no array content")
	}
	var texts []string
	for i, b := range blocks {
		block, _ := b.(map[string]any)
		if block["type"] != "text" {
			continue
		}
		t, ok := block["text"].(string)
		if !ok {
			return nil, contract.Errorf(contract.Contract, "engine/text: the text block %d has no text", i)
		}
		texts = append(texts, t)
	}
	return plan.Canonical(map[string]any{"text": strings.Join(texts, "\n")})
}

// milliseconds reads an integer in the sense of JSON Schema, which includes 1e3 and 5.0.
func milliseconds(n json.Number) (int64, error) {
	// A number this long is out of range or not canonical; the bound keeps
	// 1e999999999 from being written out.
	const longest = 32
	if len(n) == 0 || len(n) > longest {
		return 0, fmt.Errorf("ms is not an integer from 0 to %d", MaxSleep.Milliseconds())
	}
	f, _, err := big.ParseFloat(string(n), 10, 128, big.ToNearestEven)
	if err != nil || !f.IsInt() || f.Sign() < 0 || f.Cmp(big.NewFloat(float64(MaxSleep.Milliseconds()))) > 0 {
		return 0, fmt.Errorf("ms is %s, not an integer from 0 to %d", n, MaxSleep.Milliseconds())
	}
	ms, _ := f.Int64()
	return ms, nil
}

// ended says why a call stopped before its end.
func ended(ctx context.Context, what string) *contract.Error {
	kind, word := contract.Timeout, "the deadline passed"
	if ctx.Err() != context.DeadlineExceeded {
		kind, word = contract.Cancelled, "the call was cancelled"
	}
	err := contract.Errorf(kind, "%s: %s", what, word)
	err.Cause = context.Cause(ctx)
	return err
}
