package host

import (
	"context"
	"encoding/json"
	"errors"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// resource reads a resource of an MCP server, or lists those that the plan allows. What the plan does
// not allow is not asked for.
func (c children) resource(ctx context.Context, n *plan.Node, input json.RawMessage) (json.RawMessage, error) {
	if n.Resource.As == "" {
		return c.resources(ctx, n)
	}
	v, err := schemas.Decode(input)
	if err != nil {
		return nil, contract.Errorf(contract.Contract, "the input of %s: %w", n.Activity(), err)
	}
	args, _ := v.(map[string]any)
	uri, ok := args["uri"].(string)
	if !ok || len(args) != 1 {
		return nil, contract.Errorf(contract.Contract, "the input of %s is not an object of a uri alone", n.Activity())
	}
	if err := n.Resource.Allows(uri); err != nil {
		return nil, contract.Errorf(contract.Contract, "%s: %w", n.Activity(), err)
	}
	content, err := c.pool.Read(ctx, n.Provider, uri, pinOf(n))
	if err != nil {
		return nil, err
	}
	if n.Resource.As == plan.AsText {
		return json.Marshal(struct {
			Text     string `json:"text"`
			MIMEType string `json:"mimeType,omitempty"`
		}{content.Text, content.MIMEType})
	}
	raw := json.RawMessage(content.Text)
	if _, err := schemas.Decode(raw); errors.Is(err, schemas.ErrTooLarge) {
		return nil, contract.Errorf(contract.TooLarge, "MCP server %s: the content of %q: %w", n.Provider, uri, err)
	} else if err != nil {
		return nil, contract.Errorf(contract.InvalidOutput, "MCP server %s: the content of %q is not JSON: %w", n.Provider, uri, err)
	}
	return json.Marshal(map[string]json.RawMessage{"value": raw})
}

// resources lists the resources that the plan allows.
func (c children) resources(ctx context.Context, n *plan.Node) (json.RawMessage, error) {
	all, err := c.pool.Resources(ctx, n.Provider, pinOf(n))
	if err != nil {
		return nil, err
	}
	type entry struct {
		URI         string `json:"uri"`
		Name        string `json:"name"`
		MIMEType    string `json:"mimeType,omitempty"`
		Description string `json:"description,omitempty"`
		Size        *int64 `json:"size,omitempty"`
	}
	list := []entry{}
	for _, r := range all {
		if n.Resource.Allows(r.URI) == nil {
			list = append(list, entry{r.URI, r.Name, r.MIMEType, r.Description, r.Size})
		}
	}
	return json.Marshal(map[string]any{"resources": list})
}
