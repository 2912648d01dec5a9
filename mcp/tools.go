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
	s, bad := p.server(server)
	if bad != nil {
		return nil, bad
	}
	var tools []Tool
	answer, _ := s.through(ctx, Pin{}, func(c *conn) reply {
		var err *contract.Error
		tools, err = c.list(ctx)
		return reply{err: err}
	})
	if answer.err != nil {
		return nil, answer.err
	}
	return tools, nil
}

// list lists the tools of a running server.
func (c *conn) list(ctx context.Context) ([]Tool, *contract.Error) {
	var tools []Tool
	names := map[string]bool{}
	err := c.pages(ctx, mcp.MethodToolsList, "tools", func(raw json.RawMessage) *contract.Error {
		t := Tool{Raw: raw}
		if err := exact(raw, map[string]any{"name": &t.Name}); err != nil || t.Name == "" {
			return c.errorf(contract.InvalidOutput, "list of tools: tool %d has no name", len(tools))
		}
		if names[t.Name] {
			return c.errorf(contract.InvalidOutput, "list of tools: two tools are called %s", excerpt.Quote(t.Name, 200))
		}
		names[t.Name] = true
		tools = append(tools, t)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return tools, nil
}

// pages asks for a list of what, on all pages, and hands on each of its elements.
func (c *conn) pages(ctx context.Context, method mcp.MCPMethod, what string, take func(json.RawMessage) *contract.Error) *contract.Error {
	fail := func(kind contract.Kind, format string, args ...any) *contract.Error {
		return c.errorf(kind, "list of "+what+": "+format, args...)
	}
	var (
		cursors     = map[string]bool{}
		size, count int
		params      = map[string]any{}
	)
	for page := 1; ; page++ {
		if page > c.opts.MaxPages {
			return fail(contract.TooLarge, "more than %d pages", c.opts.MaxPages)
		}
		if c.meta != nil {
			params["_meta"] = c.meta
		}
		answer := c.roundTrip(ctx, string(method), params)
		if answer.err != nil {
			return answer.err
		}
		if answer.fault != nil {
			return c.protocolError("list of "+what, answer)
		}
		if size += len(answer.result); size > c.opts.MaxList {
			return fail(contract.TooLarge, "more than %d bytes", c.opts.MaxList)
		}
		if _, err := schemas.Decode(answer.result); errors.Is(err, schemas.ErrTooLarge) {
			return fail(contract.TooLarge, "page %d: %w", page, err)
		} else if err != nil {
			return fail(contract.InvalidOutput, "page %d: %w", page, err)
		}
		var list []json.RawMessage
		var next string
		if err := exact(answer.result, map[string]any{what: &list, "nextCursor": &next}); err != nil {
			return fail(contract.InvalidOutput, "page %d: %w", page, err)
		}
		if list == nil {
			return fail(contract.InvalidOutput, "page %d has no %s", page, what)
		}
		for _, raw := range list {
			if count++; count > c.opts.MaxTools {
				return fail(contract.TooLarge, "more than %d %s", c.opts.MaxTools, what)
			}
			if err := take(raw); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		if cursors[next] {
			return fail(contract.InvalidOutput, "page %d has the cursor of an earlier one", page)
		}
		cursors[next] = true
		params = map[string]any{"cursor": next}
	}
}
