package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/redact"
	"chimera.ai/engine/skills"
)

// callers finds what a node calls: a Go skill, an executable or an MCP tool.
type callers struct {
	skills      *skills.Registry
	executables map[string]skills.Executable
	pool        *mcp.Pool
	// secrets are what the children were given in confidence.
	secrets *redact.Secrets
}

// Call implements activities.Caller. Whatever comes back, no secret that the
// configuration resolved is in it.
func (c *callers) Call(ctx context.Context, n *plan.Node, input json.RawMessage) ([]json.RawMessage, error) {
	forms, err := c.call(ctx, n, input)
	if err != nil {
		return nil, c.clean(err)
	}
	for i := range forms {
		forms[i] = c.secrets.JSON(forms[i])
	}
	return forms, nil
}

// clean takes secrets out of an error. Its cause keeps what it is, and tells no more.
func (c *callers) clean(err error) error {
	var e *contract.Error
	if !errors.As(err, &e) {
		return c.secrets.Error(err)
	}
	safe := *e
	safe.Message, safe.Details = c.secrets.Text(e.Message), c.secrets.Details(e.Details)
	safe.Cause = c.secrets.Error(e.Cause)
	return &safe
}

func (c *callers) call(ctx context.Context, n *plan.Node, input json.RawMessage) ([]json.RawMessage, error) {
	if n.ProviderType == plan.MCP {
		return c.tool(ctx, n, input)
	}
	if skill, ok := c.skills.Lookup(n.Provider, n.Operation); ok {
		return one(skill.Run(ctx, input))
	}
	if executable, ok := c.executables[n.Provider]; ok {
		return one(executable.Call(ctx, n.Operation, input))
	}
	return nil, contract.Errorf(contract.Contract, "this worker has no skill %s", n.Activity())
}

func one(output json.RawMessage, err error) ([]json.RawMessage, error) {
	if err != nil {
		return nil, err
	}
	return []json.RawMessage{output}, nil
}

// tool calls an MCP tool. Without structured content, the output is the
// protocol's object {content: […]} if the node's schema takes it, else the JSON
// of a single text block: which of the two is a matter of the contract, never
// of what the text happens to look like.
func (c *callers) tool(ctx context.Context, n *plan.Node, input json.RawMessage) ([]json.RawMessage, error) {
	result, err := c.pool.Call(ctx, n.Provider, n.Operation, input)
	if err != nil {
		return nil, err
	}
	if result.Structured != nil {
		return []json.RawMessage{result.Structured}, nil
	}
	outputs := []json.RawMessage{bytes.Join([][]byte{[]byte(`{"content":`), result.Content, []byte(`}`)}, nil)}
	if result.Text != nil && json.Valid([]byte(*result.Text)) {
		outputs = append(outputs, json.RawMessage(*result.Text))
	}
	return outputs, nil
}
