package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/process"
	"chimera.ai/engine/schemas"
)

// Bounds of what an error carries, in bytes: it travels through histories and
// on to error edges.
const (
	maxMessage = 1 << 10
	maxDetails = 16 << 10
)

// Decoded, an answer takes many times the memory of its text. Of those over heavy bytes, no more
// than maxHeavy are decoded at a time in a process.
const (
	heavy    = 1 << 20
	maxHeavy = 2
)

var heavyTurns = make(chan struct{}, maxHeavy)

// heavyTurn waits until the JSON body of a response, a page or a result may be decoded, or ctx ends: what
// has come is not lost if ctx has ended and nobody else decodes. The caller must call done, unless there is
// an error, when it needs its values no more.
func (c *conn) heavyTurn(ctx context.Context, text []byte) (done func(), _ *contract.Error) {
	if len(text) <= heavy {
		return func() {}, nil
	}
	done = func() { <-heavyTurns }
	select {
	case heavyTurns <- struct{}{}:
		return done, nil
	default:
	}
	select {
	case heavyTurns <- struct{}{}:
		return done, nil
	case <-ctx.Done():
		return nil, stopped(ctx, c.name, "before the answer was decoded", true)
	}
}

// tries bounds the clients that one call tries, if each dies before the call is sent.
const tries = 3

// Call calls one tool, which has no effect: for one that has, there is [Pin.Again]. args is a JSON object;
// empty means {}.
//
// Its error is a [contract.Error] of kind
//   - unsent: the server could not be started or reached, ctx ended or the server died
//     before the call was written to it, or it has ended the session several times;
//   - timeout, cancelled: ctx ended after that;
//   - transport: the server died or closed its output after that, or the connection broke;
//   - throttled: it refuses the call for now (HTTP status 429 or 503);
//   - auth: it refuses the credentials (401 or 403), or nobody gives any;
//   - tool_error: the result says isError;
//   - contract: no such server or tool, or bad arguments;
//   - needs_input: the server asked for input, by a request or by its result;
//   - server_error: any other JSON-RPC error or HTTP status, or the server broke the protocol;
//   - invalid_output: the answer is not the result of a tool call;
//   - too_large: arguments or result are over Options.MaxLine.
func (p *Pool) Call(ctx context.Context, server, tool string, args json.RawMessage) (Result, error) {
	return p.CallPinned(ctx, server, tool, args, Pin{})
}

// prepare finds the server of a call, and checks its arguments.
func (p *Pool) prepare(name, tool string, args json.RawMessage) (access, json.RawMessage, *contract.Error) {
	s, bad := p.server(name)
	if bad != nil {
		return s, nil, bad
	}
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage(`{}`)
	}
	if !json.Valid(args) || bytes.TrimSpace(args)[0] != '{' {
		return s, nil, contract.Errorf(contract.Contract, "MCP server %s: the arguments of %q are not a JSON object", name, tool)
	}
	return s, args, nil
}

// through does something in the principal's session. If that has died before anything was
// sent that matters, through tries the next one. It starts no server at another endpoint than one that
// is pinned. If the session is with another server than is pinned, nothing is done, and the next call has
// another session: the server may have been put right.
func (a access) through(ctx context.Context, pin Pin, do func(*conn) reply) (reply, *conn) {
	t, leave, bad := a.enter(ctx)
	if bad != nil {
		return reply{err: bad}, nil
	}
	defer func() { leave() }()
	for try := 1; ; try++ {
		if t.ended() { // others wait for its place, and the call was in a session before its last one
			leave()
			if t, leave, bad = a.enter(ctx); bad != nil {
				leave = func() {}
				return reply{err: bad}, nil
			}
		}
		if bad := t.expects(pin); bad != nil {
			return reply{err: bad}, nil
		}
		c, bad := t.client(ctx)
		if bad != nil {
			return reply{err: pin.drifted(bad)}, nil
		}
		answer := reply{err: c.isAt(pin)}
		if answer.err != nil {
			t.mistook(c, pin)
		} else {
			answer = do(c)
		}
		c.leave()
		if answer.err == nil {
			t.serves(c)
			return answer, c
		}
		if answer.err.Kind != contract.Unsent || c.usable() || ctx.Err() != nil || try == tries {
			answer.err = pin.drifted(answer.err)
			return answer, c
		}
	}
}

// serves notes that a session has served a call: the server does what it is started for.
func (t *tenant) serves(c *conn) {
	if !c.served.Swap(true) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.failures = 0
	}
}

// judge turns an answer to tools/call into a result or an error.
func (c *conn) judge(ctx context.Context, tool string, answer reply) (Result, *contract.Error) {
	if answer.fault != nil {
		return Result{}, c.protocolError(ctx, fmt.Sprintf("tool %q", tool), answer)
	}
	var raw struct {
		Type       string          `json:"resultType"`
		Content    json.RawMessage `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		IsError    bool            `json:"isError"`
	}
	invalid := func(format string, args ...any) (Result, *contract.Error) {
		return Result{}, c.errorf(contract.InvalidOutput, "the result of %q %w", tool, fmt.Errorf(format, args...))
	}
	done, bad := c.heavyTurn(ctx, answer.result)
	if bad != nil {
		return Result{}, bad
	}
	defer done()
	value, err := schemas.Decode(answer.result)
	if errors.Is(err, schemas.ErrTooLarge) {
		return Result{}, c.errorf(contract.TooLarge, "the result of %q: %w", tool, err)
	}
	if err != nil {
		return invalid("cannot be read: %w", err)
	}
	fields, ok := value.(map[string]any)
	if !ok {
		return invalid("is not an object")
	}
	if err := exact(answer.result, map[string]any{
		"resultType": &raw.Type, "content": &raw.Content, "structuredContent": &raw.Structured, "isError": &raw.IsError,
	}); err != nil {
		return invalid("is not that of a tool call: %w", err)
	}
	if raw.Type == string(mcp.ResultTypeInputRequired) {
		return Result{}, c.needsInput(string(mcp.ResultTypeInputRequired))
	}
	if raw.Type != "" && raw.Type != string(mcp.ResultTypeComplete) {
		return invalid("is of the unknown type %s", excerpt.Quote(raw.Type, 64))
	}
	if string(raw.Structured) == "null" {
		raw.Structured = nil
	}
	blocks, err := blocksOf(fields["content"])
	if err != nil {
		return invalid("%w", err)
	}
	if raw.Content == nil || string(raw.Content) == "null" {
		if raw.Structured == nil {
			return invalid("has no content")
		}
		raw.Content = json.RawMessage(`[]`)
	}
	if raw.IsError {
		return Result{}, c.toolError(tool, blocks, raw.Content, raw.Structured, answer.asked)
	}
	result := Result{Structured: raw.Structured, Content: raw.Content}
	if len(blocks) == 1 && blocks[0].text != nil {
		result.Text = blocks[0].text
	}
	return result, nil
}

// block is the part of a content block that matters here.
type block struct{ text *string }

// blocksOf checks that content is an array of blocks with a type.
func blocksOf(content any) ([]block, error) {
	if content == nil {
		return nil, nil
	}
	list, ok := content.([]any)
	if !ok {
		return nil, fmt.Errorf("has content that is not an array")
	}
	blocks := make([]block, len(list))
	for i, item := range list {
		fields, _ := item.(map[string]any)
		kind, ok := fields["type"].(string)
		if !ok {
			return nil, fmt.Errorf("has a content block %d without a type", i)
		}
		if kind != "text" {
			continue
		}
		text, ok := fields["text"].(string)
		if !ok {
			return nil, fmt.Errorf("has a text block %d without text", i)
		}
		blocks[i].text = &text
	}
	return blocks, nil
}

// toolError returns the error that the tool itself reports.
func (c *conn) toolError(tool string, blocks []block, content, structured json.RawMessage, asked string) *contract.Error {
	var texts []string
	for _, b := range blocks {
		if b.text != nil {
			texts = append(texts, *b.text)
		}
	}
	message := process.Clip(strings.TrimSpace(strings.Join(texts, "\n")), maxMessage)
	if message == "" {
		message = "it did not say why"
	}
	kind := contract.ToolError
	if asked != "" {
		kind = contract.NeedsInput
		message = "asked for input (" + asked + "), which this client does not give: " + message
	}
	err := c.errorf(kind, "tool %q: %s", tool, message)
	details := struct {
		Content    json.RawMessage `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
	}{content, structured}
	if raw, e := json.Marshal(details); e == nil && len(raw) <= maxDetails {
		err.Details = raw
	}
	return err
}

// protocolError reads a JSON-RPC error, which is about what.
func (c *conn) protocolError(ctx context.Context, what string, answer reply) *contract.Error {
	var code json.Number
	var message string
	var data json.RawMessage
	done, late := c.heavyTurn(ctx, answer.fault)
	if late != nil {
		return late
	}
	defer done()
	if _, err := schemas.Decode(answer.fault); err != nil {
		return c.errorf(contract.ServerError, "%s: an error that cannot be read: %w", what, err)
	}
	if err := exact(answer.fault, map[string]any{"code": &code, "message": &message, "data": &data}); err != nil {
		return c.errorf(contract.ServerError, "%s: an error that is not a JSON-RPC error: %w", what, err)
	}
	kind := contract.ServerError
	switch n, _ := code.Int64(); {
	case answer.asked != "", n == mcp.URL_ELICITATION_REQUIRED, n == mcp.MISSING_REQUIRED_CLIENT_CAPABILITY:
		kind = contract.NeedsInput
	case n == mcp.METHOD_NOT_FOUND, n == mcp.INVALID_PARAMS:
		kind = contract.Contract
	}
	err := c.errorf(kind, "%s: error %s: %s", what, excerpt.Clip(code.String(), 32), process.Clip(message, maxMessage))
	if answer.asked != "" {
		err.Message += " (it asked for input: " + answer.asked + ")"
	}
	details := struct {
		Code json.Number     `json:"code"`
		Data json.RawMessage `json:"data,omitempty"`
	}{code, data}
	if raw, e := json.Marshal(details); e == nil && len(raw) <= maxDetails {
		err.Details = raw
	}
	return err
}

// exact decodes the named fields of a JSON object that is known to be valid. Unlike
// encoding/json it distinguishes names that differ only in case.
func exact(raw json.RawMessage, fields map[string]any) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return fmt.Errorf("not an object: %w", err)
	}
	for name, into := range fields {
		value, ok := all[name]
		if !ok {
			continue
		}
		if err := json.Unmarshal(value, into); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}
