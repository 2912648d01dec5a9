// Package live holds what a catalog says of the tools and resources of MCP servers against what the
// servers offer now.
package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// State is how what a server offers and what the catalog says of it go together.
type State string

// The states. Plans that use the catalog's entry of Drift, Missing, Effect or Task do not run, or not as it says.
const (
	Pinned   State = "pinned"
	Unpinned State = "not pinned"
	Unknown  State = "not in the catalog"
	Drift    State = "drift"
	Missing  State = "missing"
	Effect   State = "effect"
	Task     State = "task"
)

// Contradicted is the problem of the state Effect.
const Contradicted = "the catalog says that it is pure, and the server that it changes something"

// Server is what an MCP server offers.
type Server struct {
	Introduction mcp.Introduction
	Tools        []mcp.Tool
	// Resources are listed only where the catalog pins one, or somebody else asks for them.
	Resources []mcp.Resource
	// Templates are those of resources, listed only where somebody asks for them.
	Templates []mcp.ResourceTemplate
	// Unlisted is why the server, whose tools are known, did not list its resources, or nil.
	Unlisted error
	// Looked reports that all resources and templates are among these.
	Looked bool
}

// Ask asks a server what it offers of what a catalog has. If it has tools, and its resources cannot be
// listed, that is no error, but [Server.Unlisted].
func Ask(ctx context.Context, pool *mcp.Pool, name string, templates []catalog.Template) (s Server, err error) {
	if s.Introduction, err = pool.Introduction(ctx, name); err != nil {
		return s, err
	}
	s.Tools, err = pool.Tools(ctx, name)
	if known := (*contract.Error)(nil); errors.As(err, &known) && known.Kind == contract.Contract {
		err = nil // it has resources alone
	}
	if err == nil && slices.ContainsFunc(templates, func(t catalog.Template) bool { return of(&t, name) && pinsResource(&t) }) {
		s.Resources, err = pool.Resources(ctx, name, mcp.Pin{})
		err = s.unlisted(ctx, err)
	}
	return s, err
}

// unlisted notes why resources could not be listed, and returns it if nothing else of the server is known, or
// nobody asks any more.
func (s *Server) unlisted(ctx context.Context, err error) error {
	if err == nil || len(s.Tools) == 0 || ctx.Err() != nil {
		return err
	}
	s.Unlisted = err
	return nil
}

// of reports whether a template is of a server.
func of(t *catalog.Template, server string) bool {
	return t.ProviderType == plan.MCP && t.Provider == server
}

// Has reports whether templates have something of a server.
func Has(templates []catalog.Template, server string) bool {
	return slices.ContainsFunc(templates, func(t catalog.Template) bool { return of(&t, server) })
}

func pinsResource(t *catalog.Template) bool { return t.Resource != nil && t.Fingerprint != "" }

// Offer is a tool as a server offers it, or an operation as the catalog has it, held against the
// other.
type Offer struct {
	Server string `json:"server"`
	// Tool is the name of a tool, or of the catalog's operation that reads resources; "" for a resource
	// that no operation reads.
	Tool string `json:"tool"`
	// Resource is the URI of a resource that the server lists, or that the operation pins, or "".
	Resource string `json:"resource,omitempty"`
	// Fingerprint is that of the tool or resource as it is, "" if it is missing or has none.
	Fingerprint string `json:"fingerprint,omitempty"`
	State       State  `json:"state"`
	// Problem is what is wrong, "" if nothing is.
	Problem string `json:"problem,omitempty"`
	// Template reports that Resource is a template of URIs.
	Template bool `json:"template,omitempty"`
}

// Stale reports whether plans that use the catalog's entry would not run, or not as it says.
func (o *Offer) Stale() bool {
	return o.State == Drift || o.State == Missing || o.State == Effect || o.State == Task
}

// Compare holds templates against what servers offer, by the servers' names. The result is sorted by
// server, tool and resource.
func Compare(templates []catalog.Template, servers map[string]Server) (out []Offer) {
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s := servers[name]
		known, offered := map[string]*catalog.Template{}, sync.OnceValue(func() []*plan.Matcher { return Offered(s.Templates) })
		var reading []reader
		for i := range templates {
			switch t := &templates[i]; {
			case !of(t, name):
			case t.Resource == nil:
				known[t.Operation] = t
			default:
				if t.Resource.As != "" {
					reading = append(reading, reader{t, t.Resource.Matcher()})
				}
				out = append(out, s.resource(t, offered))
			}
		}
		for _, r := range s.Resources {
			if o, own := listed(name, r, reading); !own {
				out = append(out, o)
			}
		}
		for _, one := range s.Templates {
			out = append(out, template(name, one, reading))
		}
		var names []string
		for _, tool := range s.Tools {
			names = append(names, tool.Name)
			out = append(out, s.tool(name, tool, known[tool.Name]))
			delete(known, tool.Name)
		}
		for _, missing := range slices.Sorted(maps.Keys(known)) {
			o := Offer{Server: name, Tool: missing, State: Missing, Problem: "the server has no such tool"}
			if near := syntax.Nearest(missing, names); near != "" {
				o.Problem += "; it has " + near
			}
			out = append(out, o)
		}
	}
	slices.SortStableFunc(out, func(a, b Offer) int {
		return cmp.Or(strings.Compare(a.Server+"/"+a.Tool, b.Server+"/"+b.Tool), strings.Compare(a.Resource, b.Resource))
	})
	return out
}

// reader is a template of the catalog that reads resources of a server, with its patterns.
type reader struct {
	*catalog.Template
	reads *plan.Matcher
}

// listed holds a resource of a server against the templates that read resources of it. own reports whether one
// pins it, which then is held against it by itself.
func listed(server string, r mcp.Resource, reading []reader) (o Offer, own bool) {
	o = Offer{Server: server, Resource: r.URI, State: Unknown}
	var err error
	if o.Fingerprint, err = r.Fingerprint(); err != nil {
		o.Problem = err.Error()
	}
	for _, t := range reading {
		if t.reads.Allows(r.URI) != nil {
			continue
		}
		own = own || pinsResource(t.Template)
		if o.State == Unknown {
			o.Tool, o.State = t.Operation, Unpinned
		}
	}
	return o, own
}

// tool holds a tool against its template, nil if there is none.
func (s *Server) tool(name string, tool mcp.Tool, t *catalog.Template) Offer {
	o := Offer{Server: name, Tool: tool.Name, State: Unknown}
	print, err := fingerprint.Tool(tool.Raw)
	o.Fingerprint = print.Digest
	switch {
	case err != nil && t == nil:
		o.Problem = err.Error()
	case t == nil:
		if catalog.TaskOnly(tool.Raw) {
			o.Problem = catalog.NoTasks
		}
	case t.Fingerprint != "" && (err != nil || t.Fingerprint != print.Digest):
		o.State, o.Problem = Drift, "the catalog pins "+t.Fingerprint
	case s.elsewhere(t) != "":
		o.State, o.Problem = Drift, s.elsewhere(t)
	case catalog.TaskOnly(tool.Raw):
		o.State, o.Problem = Task, catalog.NoTasks
	case t.Effect == plan.Pure && Acts(tool.Raw):
		o.State, o.Problem = Effect, Contradicted
	case t.Fingerprint == "":
		o.State = Unpinned
		if err != nil {
			o.Problem = err.Error() // why it cannot be pinned
		}
	default:
		o.State = Pinned
	}
	return o
}

// resource holds a template of resources against what there is. One without a fingerprint pins the
// patterns of what is read, and not what that is; the offer of one with a fingerprint is that resource.
func (s *Server) resource(t *catalog.Template, offered func() []*plan.Matcher) Offer {
	o := Offer{Server: t.Provider, Tool: t.Operation, Resource: t.Resource.Literal(), Fingerprint: t.Fingerprint, State: Pinned}
	if !pinsResource(t) {
		o.Resource = ""
	}
	if problem := s.elsewhere(t); problem != "" {
		o.State, o.Problem = Drift, problem
		return o
	}
	if !pinsResource(t) {
		o.State, o.Problem = Unpinned, s.nowhere(t, offered)
		return o
	}
	o.Fingerprint = ""
	if s.Unlisted != nil {
		o.State, o.Problem = Missing, "the server's resources could not be listed"
		return o
	}
	for _, r := range s.Resources {
		if r.URI != o.Resource {
			continue
		}
		var err error
		if o.Fingerprint, err = r.Fingerprint(); err != nil || o.Fingerprint != t.Fingerprint {
			o.State, o.Problem = Drift, "the catalog pins "+t.Fingerprint
		}
		return o
	}
	o.State, o.Problem = Missing, "the server lists no such resource"
	return o
}

// Offered are the patterns of templates, one by one. Templates without a pattern do not count.
func Offered(templates []mcp.ResourceTemplate) (all []*plan.Matcher) {
	for _, x := range templates {
		if is, err := x.Pattern(); err == nil {
			all = append(all, (&plan.Resource{URIs: []string{is}}).Matcher())
		}
	}
	return all
}

// nowhere says which patterns match nothing that the server has, or "". offered are the patterns of its templates: see [Offered].
func (s *Server) nowhere(t *catalog.Template, offered func() []*plan.Matcher) string {
	if !s.Looked || t.Resource.As == "" {
		return ""
	}
	var gone []string
	for _, pattern := range t.Resource.URIs {
		if !Matches(pattern, s.Resources, offered()) {
			gone = append(gone, pattern)
		}
	}
	if len(gone) == 0 {
		return ""
	}
	return "the server has no resource and no template for " + strings.Join(gone, ", ")
}

// Matches reports whether a pattern matches one of some resources, or has URIs in common with one of the patterns
// that are [Offered], as far as one of the two holds the other.
func Matches(pattern string, resources []mcp.Resource, offered []*plan.Matcher) bool {
	one := (&plan.Resource{URIs: []string{pattern}}).Matcher()
	return slices.ContainsFunc(resources, func(r mcp.Resource) bool { return one.Allows(r.URI) == nil }) ||
		slices.ContainsFunc(offered, func(m *plan.Matcher) bool { return Covers(one, m.URIs[0]) || Covers(m, pattern) })
}

// template holds a template of resources against the catalog's that read resources of the server.
func template(server string, one mcp.ResourceTemplate, reading []reader) Offer {
	o := Offer{Server: server, Resource: one.URITemplate, State: Unknown, Template: true}
	pattern, err := one.Pattern()
	if err != nil {
		o.Problem = "it cannot be imported: " + err.Error()
		return o
	}
	for _, t := range reading {
		if Covers(t.reads, pattern) {
			o.Tool, o.State = t.Operation, Unpinned
			break
		}
	}
	return o
}

// Covers reports whether patterns match every URI of a pattern without "**": they match one that has, in the
// place of each "*", a character that stands in none of them. It is false if they have them all.
func Covers(m *plan.Matcher, pattern string) bool {
	own := strings.Join(m.URIs, "")
	i := strings.IndexFunc(segmentChars, func(c rune) bool { return !strings.ContainsRune(own, c) })
	return i >= 0 && !strings.Contains(pattern, "**") && m.Allows(strings.ReplaceAll(pattern, "*", segmentChars[i:i+1])) == nil
}

// segmentChars are characters of segments of URIs.
const segmentChars = "~_!$&'()+,=@ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789abcdefghijklmnopqrstuvwxyz"

// elsewhere is how a server differs from the one that a template pins, or "".
func (s *Server) elsewhere(t *catalog.Template) string {
	if len(t.Endpoints) > 0 && !slices.Contains(t.Endpoints, s.Introduction.Endpoint) {
		return fmt.Sprintf("the digest of the server's endpoint is %s, and the catalog pins %s", s.Introduction.Endpoint, strings.Join(t.Endpoints, " or "))
	}
	if t.Instructions == "" {
		return ""
	}
	if is, err := fingerprint.Instructions(s.Introduction.Instructions); err != nil || is != t.Instructions {
		return "the server's instructions are not those that the catalog pins"
	}
	return ""
}

// Acts reports whether a server says of its tool that it changes something. Without a hint it says
// nothing.
func Acts(definition json.RawMessage) bool {
	v, err := schemas.Decode(definition)
	if err != nil {
		return false // it is not one of the protocol's, and its fingerprint tells
	}
	tool, _ := v.(map[string]any)
	hints, _ := tool["annotations"].(map[string]any)
	readOnly, said := hints["readOnlyHint"].(bool)
	destructive, _ := hints["destructiveHint"].(bool)
	return !readOnly && (said || destructive)
}
