// Package registry is the tools that were imported: the store has their definitions, one row for
// each fingerprint, and the admins have stated what is to be believed of them. Together they make
// templates of a catalog.
package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// Rows has the definitions. A [ledger.Store] is one.
type Rows interface {
	// Tools returns those of at most ledger.MaxTools ids that are there.
	Tools(ctx context.Context, ids ...string) ([]ledger.Tool, error)
}

// Act is the act that states what a template says of its operation.
func Act(t *catalog.Template) (*trust.TrustTool, error) {
	facts, err := t.Facts()
	return &trust.TrustTool{ToolID: t.ToolID(), Fingerprint: t.Fingerprint, Status: string(t.State()), Facts: facts}, err
}

// maxPart bounds what a statement says of tools, in bytes. Its envelope, in base64, is then below
// [trust.MaxEnvelope].
const maxPart = 64 << 10

// Parts divides acts about tools among as many statements as they need.
func Parts(acts []*trust.TrustTool) (parts []trust.Acts) {
	size := 0
	for _, a := range acts {
		length := len(a.ToolID) + len(a.Fingerprint) + len(a.Facts)
		last := len(parts) - 1
		if size += length; last < 0 || size > maxPart || len(parts[last]) == trust.MaxActs {
			parts, size, last = append(parts, nil), length, last+1
		}
		parts[last] = append(parts[last], a)
	}
	return parts
}

// Said reports whether the admins have stated just that of a tool.
func Said(s trust.State, a *trust.TrustTool) bool {
	was, ok := s.Tools[a.ToolID]
	return ok && was.Status == a.Status && (a.Status == string(plan.Block) || s.Stated(a.ToolID, a.Fingerprint, a.Facts, true) == nil)
}

// Register stores the definitions of imported tools under their fingerprints, with the status that the
// admins have stated; until they have, nobody calls them.
func Register(ctx context.Context, l ledger.Directory, s trust.State, tools ...*catalog.Template) error {
	for some := range slices.Chunk(tools, ledger.MaxTools) {
		rows := make([]ledger.Tool, len(some))
		for i, t := range some {
			rows[i] = ledger.Tool{ToolID: t.ToolID(), Name: t.Name(), Schema: t.Definition, Fingerprint: t.Fingerprint, Status: string(plan.Block)}
			if was, ok := s.Tools[t.ToolID()]; ok {
				rows[i].Status = was.Status
			}
		}
		if err := l.RegisterTool(ctx, rows...); err != nil {
			return err
		}
	}
	return nil
}

// Entries returns the tools of some servers, or of all if none is named, as the admins have stated
// them last, sorted by operation. A row whose definition is not the one that was stated is
// [trust.ErrInvalid]; a statement without a row is left out, since the catalog that it was made
// from has what it needs.
func Entries(ctx context.Context, rows Rows, s trust.State, servers ...string) ([]catalog.Entry, error) {
	last := map[string]string{} // ids by operation
	for _, id := range slices.Sorted(maps.Keys(s.Tools)) {
		t := s.Tools[id]
		operation, pinned := strings.CutSuffix(id, "@"+t.Fingerprint)
		server, _, _ := strings.Cut(operation, "/")
		if !pinned || t.Facts == nil || len(servers) > 0 && !slices.Contains(servers, server) {
			continue
		}
		if was, ok := last[operation]; !ok || s.ToolsAt[id] > s.ToolsAt[was] {
			last[operation] = id
		}
	}
	var entries []catalog.Entry
	size := 0
	for operations := range slices.Chunk(slices.Sorted(maps.Keys(last)), ledger.MaxTools) {
		ids := make([]string, len(operations))
		for i, operation := range operations {
			ids[i] = last[operation]
		}
		found, err := rows.Tools(ctx, ids...)
		if err != nil {
			return nil, err
		}
		definitions := map[string]json.RawMessage{}
		for _, row := range found {
			definitions[row.ToolID] = row.Schema
		}
		for _, operation := range operations {
			t := s.Tools[last[operation]]
			definition, ok := definitions[t.ToolID]
			if !ok {
				continue
			}
			if size += len(definition) + len(t.Facts); size > maxEntries {
				return nil, fmt.Errorf("%w: the registry has more than %d bytes of tools", trust.ErrInvalid, maxEntries)
			}
			if print, err := fingerprint.Tool(definition); err != nil || print.Digest != t.Fingerprint {
				return nil, fmt.Errorf("%w: the store's definition of %.200q is not the one that the admins have stated", trust.ErrInvalid, operation)
			}
			entries = append(entries, catalog.Entry{Operation: operation, Definition: definition, Status: plan.Trust(t.Status), Facts: t.Facts,
				Comment: fmt.Sprintf("Stated by the admins, in statement %d.", s.ToolsAt[t.ToolID])})
		}
	}
	return entries, nil
}

// maxEntries bounds the definitions and facts of the tools that are read, in bytes.
const maxEntries = 128 << 20

// Name is that of the registry in messages about its templates, where files have theirs.
const Name = "registry"

// Catalog returns the templates of all tools that are registered and stated.
func Catalog(ctx context.Context, rows Rows, s trust.State) (*catalog.Catalog, error) {
	entries, err := Entries(ctx, rows, s)
	if err != nil {
		return nil, err
	}
	text, err := catalog.Write(entries)
	if err != nil {
		return nil, err
	}
	all, ds := compiler.ParseCatalog(compiler.Source{Name: Name, Text: text})
	if ds.HasErrors() {
		return nil, fmt.Errorf("%w: the registry's catalog: %s", trust.ErrInvalid, ds[0].Summary)
	}
	return all, nil
}

// Under returns a catalog with what the registry has under another, which may be nil: what that
// says of an operation takes precedence.
func Under(over, registered *catalog.Catalog) *catalog.Catalog {
	if over == nil {
		return registered
	}
	known := map[string]bool{}
	for i := range over.Templates {
		known[over.Templates[i].Name()] = true
	}
	all := &catalog.Catalog{Templates: slices.Clone(over.Templates), Adapters: over.Adapters, Servers: over.Servers}
	for _, t := range registered.Templates {
		if !known[t.Name()] {
			all.Templates = append(all.Templates, t)
		}
	}
	return all
}
