package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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
		var list []Tool
		list, err = c.list(ctx)
		tools = slices.Clone(list)
		return reply{err: err}
	})
	if answer.err != nil {
		return nil, answer.err
	}
	return tools, nil
}

// listed is what a server listed last.
type listed struct {
	pages []*page
	tools []Tool
}

// list lists the tools of a running server. The result is shared, and must not be changed.
func (c *conn) list(ctx context.Context) ([]Tool, *contract.Error) {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	pages, bad := c.pages(ctx, mcp.MethodToolsList, "tools", last.pages)
	if bad != nil {
		return nil, bad
	}
	if len(pages) > 0 && slices.Equal(pages, last.pages) {
		return last.tools, nil
	}
	var tools []Tool
	names := map[string]bool{}
	for _, p := range pages {
		for _, raw := range p.items {
			t := Tool{Raw: raw}
			if err := exact(raw, map[string]any{"name": &t.Name}); err != nil || t.Name == "" {
				return nil, c.errorf(contract.InvalidOutput, "list of tools: tool %d has no name", len(tools))
			}
			if names[t.Name] {
				return nil, c.errorf(contract.InvalidOutput, "list of tools: two tools are called %s", excerpt.Quote(t.Name, 200))
			}
			names[t.Name] = true
			tools = append(tools, t)
		}
	}
	c.mu.Lock()
	c.last = listed{pages, tools}
	c.mu.Unlock()
	return tools, nil
}

// page is one of a list.
type page struct {
	// digest is that of its bytes: with them, and not only the items, a listing would be kept twice.
	digest [sha256.Size]byte
	items  []json.RawMessage
	// next is the cursor of the one that follows, or "".
	next string
}

// pages asks for a list of what, on all pages. A page whose bytes are those of the one at its place in
// last is that one, and is not read again.
func (c *conn) pages(ctx context.Context, method mcp.MCPMethod, what string, last []*page) ([]*page, *contract.Error) {
	fail := func(kind contract.Kind, format string, args ...any) ([]*page, *contract.Error) {
		return nil, c.errorf(kind, "list of "+what+": "+format, args...)
	}
	var (
		all         []*page
		cursors     = map[string]bool{}
		size, count int
		params      = map[string]any{}
	)
	for {
		if len(all) == c.opts.MaxPages {
			return fail(contract.TooLarge, "more than %d pages", c.opts.MaxPages)
		}
		if c.meta != nil {
			params["_meta"] = c.meta
		}
		answer := c.roundTrip(ctx, string(method), params)
		if answer.err != nil {
			return nil, answer.err
		}
		if answer.fault != nil {
			return nil, c.protocolError(ctx, "list of "+what, answer)
		}
		if size += len(answer.result); size > c.opts.MaxList {
			return fail(contract.TooLarge, "more than %d bytes", c.opts.MaxList)
		}
		var p *page
		digest := sha256.Sum256(answer.result)
		if n := len(all); n < len(last) && last[n].digest == digest {
			p = last[n]
		} else {
			done, bad := c.heavyTurn(ctx, answer.result)
			if bad != nil {
				return nil, bad
			}
			var err error
			p, err = pageOf(answer.result, what, digest)
			done()
			if errors.Is(err, schemas.ErrTooLarge) {
				return fail(contract.TooLarge, "page %d: %w", n+1, err)
			} else if err != nil {
				return fail(contract.InvalidOutput, "page %d: %w", n+1, err)
			}
		}
		if count += len(p.items); count > c.opts.MaxTools {
			return fail(contract.TooLarge, "more than %d %s", c.opts.MaxTools, what)
		}
		all = append(all, p)
		if p.next == "" {
			return all, nil
		}
		if cursors[p.next] {
			return fail(contract.InvalidOutput, "page %d has the cursor of an earlier one", len(all))
		}
		cursors[p.next] = true
		params = map[string]any{"cursor": p.next}
	}
}

// pageOf reads a page of a list of what.
func pageOf(raw json.RawMessage, what string, digest [sha256.Size]byte) (*page, error) {
	if _, err := schemas.Decode(raw); err != nil {
		return nil, err
	}
	p := &page{digest: digest}
	if err := exact(raw, map[string]any{what: &p.items, "nextCursor": &p.next}); err != nil {
		return nil, err
	}
	if p.items == nil {
		return nil, fmt.Errorf("it has no %s", what)
	}
	return p, nil
}
