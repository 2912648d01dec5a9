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

// The states. Plans that use the catalog's entry of Drift, Missing or Effect do not run, or not as it says.
const (
	Pinned   State = "pinned"
	Unpinned State = "not pinned"
	Unknown  State = "not in the catalog"
	Drift    State = "drift"
	Missing  State = "missing"
	Effect   State = "effect"
)

// Contradicted is the problem of the state Effect.
const Contradicted = "the catalog says that it is pure, and the server that it changes something"

// Server is what an MCP server offers.
type Server struct {
	Introduction mcp.Introduction
	Tools        []mcp.Tool
	// Resources are listed only where the catalog pins one, or somebody else asks for them.
	Resources []mcp.Resource
}

// Ask asks a server what it offers of what a catalog has.
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
	}
	return s, err
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
	// Resource is the URI of a resource that the server lists, or "".
	Resource string `json:"resource,omitempty"`
	// Fingerprint is that of the tool or resource as it is, "" if it is missing or has none.
	Fingerprint string `json:"fingerprint,omitempty"`
	State       State  `json:"state"`
	// Problem is what is wrong, "" if nothing is.
	Problem string `json:"problem,omitempty"`
}

// Stale reports whether plans that use the catalog's entry would not run, or not as it says.
func (o *Offer) Stale() bool { return o.State == Drift || o.State == Missing || o.State == Effect }

// Compare holds templates against what servers offer, by the servers' names. The result is sorted by
// server, tool and resource.
func Compare(templates []catalog.Template, servers map[string]Server) (out []Offer) {
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		s := servers[name]
		known := map[string]*catalog.Template{}
		for i := range templates {
			switch t := &templates[i]; {
			case !of(t, name):
			case t.Resource == nil:
				known[t.Operation] = t
			default:
				out = append(out, s.resource(t))
			}
		}
		for _, r := range s.Resources {
			out = append(out, listed(name, r, templates))
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

// listed holds a resource of a server against the templates that read resources of it.
func listed(server string, r mcp.Resource, templates []catalog.Template) Offer {
	o := Offer{Server: server, Resource: r.URI, State: Unknown}
	var err error
	if o.Fingerprint, err = r.Fingerprint(); err != nil {
		o.Problem = err.Error()
	}
	for i := range templates {
		t := &templates[i]
		if !of(t, server) || t.Resource == nil || t.Resource.As == "" || t.Resource.Allows(r.URI) != nil {
			continue
		}
		if pinsResource(t) && o.Fingerprint == t.Fingerprint {
			o.Tool, o.State = t.Operation, Pinned
			break
		}
		if o.State == Unknown {
			o.Tool, o.State = t.Operation, Unpinned
		}
	}
	return o
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
	case t.Fingerprint != "" && (err != nil || t.Fingerprint != print.Digest):
		o.State, o.Problem = Drift, "the catalog pins "+t.Fingerprint
	case s.elsewhere(t) != "":
		o.State, o.Problem = Drift, s.elsewhere(t)
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
// patterns of what is read, and not what that is.
func (s *Server) resource(t *catalog.Template) Offer {
	o := Offer{Server: t.Provider, Tool: t.Operation, Fingerprint: t.Fingerprint, State: Pinned}
	if problem := s.elsewhere(t); problem != "" {
		o.State, o.Problem = Drift, problem
		return o
	}
	if !pinsResource(t) {
		o.State = Unpinned
		return o
	}
	for _, r := range s.Resources {
		if is, err := r.Fingerprint(); err == nil && is == t.Fingerprint {
			return o
		}
	}
	o.State, o.Fingerprint, o.Problem = Drift, "", "no resource of the server is the one that the catalog pins by "+t.Fingerprint
	return o
}

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
