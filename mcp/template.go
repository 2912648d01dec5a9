package mcp

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/plan"
)

// ResourceTemplate is a template of URIs (RFC 6570) of resources that a server has and need not list. Fields
// that it leaves out are "".
type ResourceTemplate struct {
	URITemplate, Name, MIMEType, Description string
}

// ResourceTemplates returns the templates of the resources of a server on all pages, in the server's order.
// Its error is as that of [Pool.Tools], of kind contract if the server does not know the method, and
// invalid_output, too, if two templates are the same.
func (p *Pool) ResourceTemplates(ctx context.Context, server string) ([]ResourceTemplate, error) {
	s, bad := p.server(server)
	if bad != nil {
		return nil, bad
	}
	var all []ResourceTemplate
	answer, _ := s.through(ctx, Pin{}, func(c *conn) reply {
		var err *contract.Error
		all, err = c.templates(ctx)
		return reply{err: err}
	})
	if answer.err != nil {
		return nil, answer.err
	}
	return all, nil
}

// templates lists the templates of a running server.
func (c *conn) templates(ctx context.Context) (all []ResourceTemplate, _ *contract.Error) {
	known := map[string]bool{}
	pages, bad := c.pages(ctx, mcp.MethodResourcesTemplatesList, "resourceTemplates", nil)
	if bad != nil {
		return nil, bad
	}
	for _, p := range pages {
		for _, raw := range p.items {
			var t ResourceTemplate
			if err := exact(raw, map[string]any{
				"uriTemplate": &t.URITemplate, "name": &t.Name, "mimeType": &t.MIMEType, "description": &t.Description,
			}); err != nil {
				return nil, c.errorf(contract.InvalidOutput, "list of resourceTemplates: template %d: %w", len(all), err)
			}
			if t.URITemplate == "" || t.Name == "" {
				return nil, c.errorf(contract.InvalidOutput, "list of resourceTemplates: template %d has no URI template or no name", len(all))
			}
			if known[t.URITemplate] {
				return nil, c.errorf(contract.InvalidOutput, "list of resourceTemplates: two are %s", excerpt.Quote(t.URITemplate, 200))
			}
			known[t.URITemplate] = true
			all = append(all, t)
		}
	}
	return all, nil
}

// variable matches the name of a variable of RFC 6570, section 2.3.
var variable = regexp.MustCompile(`^(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2})(?:\.?(?:[0-9A-Za-z_]|%[0-9A-Fa-f]{2}))*$`)

// Pattern is the template as a pattern of URIs: see [plan.Resource]. Each expression stands for any characters
// of one segment. The error says why there is none: an expression is beyond level 1 of RFC 6570, such as
// {+path}, or the URIs are not ones that can be read.
func (t ResourceTemplate) Pattern() (string, error) {
	var b strings.Builder
	for rest := t.URITemplate; rest != ""; {
		at := strings.IndexAny(rest, "{}*")
		if at < 0 {
			b.WriteString(rest)
			break
		}
		b.WriteString(rest[:at])
		if rest[at] == '*' {
			return "", errors.New("it has a `*`, which would be a pattern")
		}
		end := strings.IndexByte(rest[at:], '}')
		if rest[at] == '}' || end < 0 {
			return "", errors.New("its braces do not match")
		}
		if name := rest[at+1 : at+end]; !variable.MatchString(name) {
			return "", fmt.Errorf("the expression %s is beyond level 1 of RFC 6570, which is {name}", excerpt.Quote("{"+name+"}", 80))
		}
		if !strings.HasSuffix(b.String(), "*") { // two would be any number of segments
			b.WriteByte('*')
		}
		rest = rest[at+end+1:]
	}
	if err := plan.CheckPattern(b.String()); err != nil {
		return "", err
	}
	return b.String(), nil
}
