package mcp

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/schemas"
)

// Resource is one resource of a server, as it lists it. Fields that it leaves out are "", and Size,
// in bytes, is nil.
type Resource struct {
	URI, Name, MIMEType, Description string
	Size                             *int64
}

// Fingerprint is what is pinned of a resource: "sha256:" and the hexadecimal digits of SHA-256 over
// "mcp-resource/1", a zero byte, and the JCS (RFC 8785) of its mimeType, name and uri.
func (r Resource) Fingerprint() (string, error) {
	raw, err := fingerprint.Canonical(map[string]any{"mimeType": r.MIMEType, "name": r.Name, "uri": r.URI})
	if err != nil {
		return "", fmt.Errorf("fingerprint of a resource: %w", err)
	}
	sum := sha256.Sum256(append([]byte("mcp-resource/1\x00"), raw...))
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Content is what a resource holds, as text.
type Content struct {
	Text string
	// MIMEType is "" if the server does not say it.
	MIMEType string
}

// Resources returns the resources of a server on all pages, in the server's order. Templates of
// resources are not among them. Its error is as that of [Pool.Tools]: invalid_output, too, if two
// resources have the same URI, and drift if the server is not the one that is pinned, of which only
// Endpoints and Instructions count.
func (p *Pool) Resources(ctx context.Context, server string, pin Pin) ([]Resource, error) {
	s, bad := p.server(server)
	if bad != nil {
		return nil, bad
	}
	var all []Resource
	answer, _ := s.through(ctx, pin, func(c *conn) reply {
		var err *contract.Error
		all, err = c.resources(ctx)
		return reply{err: err}
	})
	if answer.err != nil {
		return nil, answer.err
	}
	return all, nil
}

// Read reads a resource that is one text, if it is the one that is pinned: with a Fingerprint, which
// is that of [Resource.Fingerprint], it lists the resources of the server, compares, and reads, all in
// one session. What the URI may be is the caller's to check. Its error is a [contract.Error] of one
// of the kinds of [Pool.Call]:
//   - tool_error: the server has no such resource;
//   - contract: no such server, or one that has no resources;
//   - invalid_output: the answer is not the text of this resource alone: it is binary (a blob), has
//     no or several parts, or is of another URI;
//   - drift: the server or the resource is another one, or is not listed, and was not read;
//   - blocked: the resources could not be listed, and it was not read.
func (p *Pool) Read(ctx context.Context, server, uri string, pin Pin) (Content, error) {
	s, bad := p.server(server)
	if bad != nil {
		return Content{}, bad
	}
	answer, c := s.through(ctx, pin, func(c *conn) reply {
		if pin.Fingerprint != "" {
			if err := c.same(ctx, uri, pin.Fingerprint); err != nil {
				return reply{err: c.unasked(err, "resources", fmt.Sprintf("%s was not read", excerpt.Quote(uri, 200)))}
			}
		}
		params := map[string]any{"uri": uri}
		if c.meta != nil {
			params["_meta"] = c.meta
		}
		return c.roundTrip(ctx, string(mcp.MethodResourcesRead), params)
	})
	if answer.err != nil {
		return Content{}, answer.err
	}
	content, bad := c.content(ctx, uri, answer)
	if bad != nil {
		return Content{}, bad
	}
	return content, nil
}

// resources lists the resources of a running server.
func (c *conn) resources(ctx context.Context) ([]Resource, *contract.Error) {
	var all []Resource
	known := map[string]bool{}
	pages, bad := c.pages(ctx, mcp.MethodResourcesList, "resources", nil)
	if bad != nil {
		return nil, bad
	}
	for _, p := range pages {
		for _, raw := range p.items {
			var r Resource
			if err := exact(raw, map[string]any{
				"uri": &r.URI, "name": &r.Name, "mimeType": &r.MIMEType, "description": &r.Description, "size": &r.Size,
			}); err != nil {
				return nil, c.errorf(contract.InvalidOutput, "list of resources: resource %d: %w", len(all), err)
			}
			if r.URI == "" || r.Name == "" {
				return nil, c.errorf(contract.InvalidOutput, "list of resources: resource %d has no URI or no name", len(all))
			}
			if known[r.URI] {
				return nil, c.errorf(contract.InvalidOutput, "list of resources: two resources have the URI %s", excerpt.Quote(r.URI, 200))
			}
			known[r.URI] = true
			all = append(all, r)
		}
	}
	return all, nil
}

// same lists the resources, and returns an error unless one is as it is pinned.
func (c *conn) same(ctx context.Context, uri, pinned string) *contract.Error {
	all, err := c.resources(ctx)
	if err != nil {
		return err
	}
	for _, r := range all {
		if r.URI != uri {
			continue
		}
		is, err := r.Fingerprint()
		if err != nil {
			return c.errorf(contract.Drift, "%w", err)
		}
		if is != pinned {
			return c.errorf(contract.Drift, "%s is not the resource that was approved: its fingerprint is %s, and %s is pinned", excerpt.Quote(uri, 200), is, pinned)
		}
		return nil
	}
	return c.errorf(contract.Drift, "it lists no resource %s", excerpt.Quote(uri, 200))
}

// content turns an answer to resources/read into the text of a resource, or an error.
func (c *conn) content(ctx context.Context, uri string, answer reply) (Content, *contract.Error) {
	if answer.fault != nil {
		err := c.protocolError(ctx, "resource "+excerpt.Quote(uri, 200), answer)
		var code json.Number
		if exact(answer.fault, map[string]any{"code": &code}) == nil {
			// Some versions of the protocol say the one, and some the other. The URI is the only
			// parameter.
			if n, _ := code.Int64(); (n == mcp.RESOURCE_NOT_FOUND || n == mcp.INVALID_PARAMS) && (err.Kind == contract.Contract || err.Kind == contract.ServerError) {
				err.Kind = contract.ToolError
			}
		}
		return Content{}, err
	}
	invalid := func(format string, args ...any) (Content, *contract.Error) {
		return Content{}, c.errorf(contract.InvalidOutput, "the content of %s %w", excerpt.Quote(uri, 200), fmt.Errorf(format, args...))
	}
	done, bad := c.heavyTurn(ctx, answer.result)
	if bad != nil {
		return Content{}, bad
	}
	defer done()
	if _, err := schemas.Decode(answer.result); errors.Is(err, schemas.ErrTooLarge) {
		return Content{}, c.errorf(contract.TooLarge, "the content of %s: %w", excerpt.Quote(uri, 200), err)
	} else if err != nil {
		return invalid("cannot be read: %w", err)
	}
	var kind string
	var parts []json.RawMessage
	if err := exact(answer.result, map[string]any{"resultType": &kind, "contents": &parts}); err != nil {
		return invalid("is not that of a resource: %w", err)
	}
	if kind == string(mcp.ResultTypeInputRequired) {
		return Content{}, c.needsInput(kind)
	}
	if kind != "" && kind != string(mcp.ResultTypeComplete) {
		return invalid("is of the unknown type %s", excerpt.Quote(kind, 64))
	}
	if len(parts) != 1 {
		return invalid("has %d parts, not one", len(parts))
	}
	var of string
	var text, blob *string
	var content Content
	if err := exact(parts[0], map[string]any{"uri": &of, "text": &text, "blob": &blob, "mimeType": &content.MIMEType}); err != nil {
		return invalid("is not that of a resource: %w", err)
	}
	switch {
	case of != uri:
		return invalid("is that of another URI: %s", excerpt.Quote(of, 200))
	case blob != nil:
		return invalid("is binary, not text")
	case text == nil:
		return invalid("has no text")
	}
	content.Text = *text
	return content, nil
}
