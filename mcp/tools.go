package mcp

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mark3labs/mcp-go/mcp"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/schemas"
)

// Tools returns the tools of a server on all pages, in the server's order, each as it was
// on the wire. Its error is a [contract.Error]: one of those of [Pool.Call], too_large
// beyond the bounds of pages, tools and bytes, or invalid_output if a page is malformed, a
// cursor repeats, or two tools have the same name.
func (p *Pool) Tools(ctx context.Context, server string) ([]Tool, error) {
	tools, err := p.tools(ctx, server)
	if err != nil {
		return nil, err
	}
	return tools, nil
}

func (p *Pool) tools(ctx context.Context, name string) ([]Tool, *contract.Error) {
	s, bad := p.server(name)
	if bad != nil {
		return nil, bad
	}
	fail := func(kind contract.Kind, format string, args ...any) ([]Tool, *contract.Error) {
		err := contract.Errorf(kind, format, args...)
		err.Message = "MCP server " + name + ": list of tools: " + err.Message
		return nil, err
	}
	var (
		tools   []Tool
		names   = map[string]bool{}
		cursors = map[string]bool{}
		size    int
		params  = map[string]any{}
	)
	for page := 1; ; page++ {
		if page > s.opts.MaxPages {
			return fail(contract.TooLarge, "more than %d pages", s.opts.MaxPages)
		}
		answer, c := s.request(ctx, string(mcp.MethodToolsList), params)
		if answer.err != nil {
			return nil, answer.err
		}
		if answer.fault != nil {
			return nil, c.protocolError("tools/list", answer)
		}
		if size += len(answer.result); size > s.opts.MaxList {
			return fail(contract.TooLarge, "more than %d bytes", s.opts.MaxList)
		}
		if _, err := schemas.Decode(answer.result); errors.Is(err, schemas.ErrTooLarge) {
			return fail(contract.TooLarge, "page %d: %w", page, err)
		} else if err != nil {
			return fail(contract.InvalidOutput, "page %d: %w", page, err)
		}
		var list []json.RawMessage
		var next string
		if err := exact(answer.result, map[string]any{"tools": &list, "nextCursor": &next}); err != nil {
			return fail(contract.InvalidOutput, "page %d: %w", page, err)
		}
		if list == nil {
			return fail(contract.InvalidOutput, "page %d has no tools", page)
		}
		for _, raw := range list {
			t := Tool{Raw: raw}
			if err := exact(raw, map[string]any{"name": &t.Name}); err != nil || t.Name == "" {
				return fail(contract.InvalidOutput, "tool %d has no name", len(tools))
			}
			if names[t.Name] {
				return fail(contract.InvalidOutput, "two tools are called %s", excerpt.Quote(t.Name, 200))
			}
			names[t.Name] = true
			if tools = append(tools, t); len(tools) > s.opts.MaxTools {
				return fail(contract.TooLarge, "more than %d tools", s.opts.MaxTools)
			}
		}
		if next == "" {
			return tools, nil
		}
		if cursors[next] {
			return fail(contract.InvalidOutput, "page %d has the cursor of an earlier one", page)
		}
		cursors[next] = true
		params = map[string]any{"cursor": next}
	}
}
