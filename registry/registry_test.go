package registry_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

// rows are those of a store, by id.
type rows map[string]ledger.Tool

func (r rows) Tools(_ context.Context, ids ...string) (found []ledger.Tool, err error) {
	for _, id := range ids {
		if row, ok := r[id]; ok {
			found = append(found, row)
		}
	}
	return found, nil
}

// imported is a template of a tool with a description.
func imported(t *testing.T, operation, description string, effect plan.EffectClass) *catalog.Template {
	definition := fmt.Appendf(nil, `{"name":%q,"description":%q,"inputSchema":{"type":"object"}}`, operation, description)
	print, err := fingerprint.Tool(definition)
	require.NoError(t, err)
	return &catalog.Template{ProviderType: plan.MCP, Provider: "notes", Operation: operation, Mode: plan.Deter, Effect: effect, Status: plan.AllowAuto,
		InputSchema: json.RawMessage(`{"type":"object"}`), Definition: definition, Fingerprint: print.Digest}
}

func TestCatalog(t *testing.T) {
	s := trust.State{Tools: map[string]trust.TrustTool{}, ToolsAt: map[string]int{}}
	have := rows{}
	state := func(n int, x *catalog.Template) *trust.TrustTool {
		a, err := registry.Act(x)
		require.NoError(t, err)
		require.False(t, registry.Said(s, a))
		s.Tools[a.ToolID], s.ToolsAt[a.ToolID] = *a, n
		require.True(t, registry.Said(s, a))
		have[a.ToolID] = ledger.Tool{ToolID: a.ToolID, Name: x.Name(), Schema: x.Definition, Fingerprint: x.Fingerprint}
		return a
	}
	operations := func() (out []string) {
		all, err := registry.Catalog(t.Context(), have, s)
		require.NoError(t, err)
		for _, x := range all.Templates {
			out = append(out, fmt.Sprintf("%s %s %s %s", x.Name(), x.Effect, x.Status, x.Description))
		}
		return out
	}
	require.Empty(t, operations())
	first := state(1, imported(t, "read", "old", plan.Pure))
	state(2, imported(t, "write", "w", plan.Committing))
	require.Equal(t, []string{"notes/read pure allow_auto old", "notes/write committing allow_auto w"}, operations())

	// What is stated last counts, whichever fingerprint it has.
	state(3, imported(t, "read", "new", plan.Irreversible))
	require.Equal(t, "notes/read irreversible allow_auto new", operations()[0])
	s.ToolsAt[first.ToolID] = 4
	require.Equal(t, "notes/read pure allow_auto old", operations()[0])
	blocked := s.Tools[first.ToolID]
	blocked.Status = string(plan.Block)
	s.Tools[first.ToolID] = blocked
	require.Equal(t, "notes/read pure block old", operations()[0])
	require.False(t, registry.Said(s, first))
	require.True(t, registry.Said(s, &blocked))

	// Statements without a row, without facts, or about what is not pinned, make no template.
	delete(have, first.ToolID)
	s.Tools["words/count"] = trust.TrustTool{ToolID: "words/count", Status: "allow_auto", Facts: json.RawMessage(`{}`)}
	require.Equal(t, []string{"notes/write committing allow_auto w"}, operations())

	entries, err := registry.Entries(t.Context(), have, s, "other")
	require.NoError(t, err)
	require.Empty(t, entries)

	// A row with another definition than the one that was stated is nobody's.
	second := imported(t, "write", "w", plan.Committing)
	forged := have[second.ToolID()]
	forged.Schema = imported(t, "write", "forged", plan.Pure).Definition
	have[second.ToolID()] = forged
	_, err = registry.Catalog(t.Context(), have, s)
	require.ErrorIs(t, err, trust.ErrInvalid)
	forged.Schema = json.RawMessage(`{`)
	have[second.ToolID()] = forged
	_, err = registry.Catalog(t.Context(), have, s)
	require.ErrorIs(t, err, trust.ErrInvalid)
}

func TestUnder(t *testing.T) {
	file, row, other := imported(t, "read", "file", plan.Pure), imported(t, "read", "row", plan.Pure), imported(t, "write", "row", plan.Pure)
	over := &catalog.Catalog{Templates: []catalog.Template{*file}, Adapters: []catalog.Adapter{{ID: "a"}}}
	all := registry.Under(over, &catalog.Catalog{Templates: []catalog.Template{*row, *other}})
	require.Equal(t, []catalog.Template{*file, *other}, all.Templates)
	require.Len(t, all.Adapters, 1)
	require.Len(t, over.Templates, 1, "the other does not change")
	require.Equal(t, []catalog.Template{*row}, registry.Under(nil, &catalog.Catalog{Templates: []catalog.Template{*row}}).Templates)
}

// paged are rows that count how they are read.
type paged struct {
	rows
	calls, most int
}

func (p *paged) Tools(ctx context.Context, ids ...string) ([]ledger.Tool, error) {
	p.calls, p.most = p.calls+1, max(p.most, len(ids))
	return p.rows.Tools(ctx, ids...)
}

// TestCatalogByPages: tools are read many at a time, and never too many.
func TestCatalogByPages(t *testing.T) {
	s := trust.State{Tools: map[string]trust.TrustTool{}, ToolsAt: map[string]int{}}
	have := &paged{rows: rows{}}
	const n = 2*ledger.MaxTools + 1
	for i := range n {
		x := imported(t, fmt.Sprintf("tool%04d", i), "x", plan.Pure)
		a, err := registry.Act(x)
		require.NoError(t, err)
		s.Tools[a.ToolID], s.ToolsAt[a.ToolID] = *a, 1
		have.rows[a.ToolID] = ledger.Tool{ToolID: a.ToolID, Name: x.Name(), Schema: x.Definition, Fingerprint: x.Fingerprint}
	}
	all, err := registry.Catalog(t.Context(), have, s)
	require.NoError(t, err)
	require.Len(t, all.Templates, n)
	require.Equal(t, 3, have.calls)
	require.Equal(t, ledger.MaxTools, have.most)
}

// TestParts: a statement has room for its part, by its acts and by their size, and the order stays.
func TestParts(t *testing.T) {
	require.Empty(t, registry.Parts(nil))
	for facts, want := range map[int]int{2: 3, 1000: 10, 16 << 10: 200} {
		var acts []*trust.TrustTool
		for i := range 600 {
			acts = append(acts, &trust.TrustTool{ToolID: fmt.Sprint("x/", i), Facts: fmt.Appendf(nil, `{"x":%q}`, strings.Repeat("x", facts))})
		}
		parts := registry.Parts(acts)
		require.InDelta(t, want, len(parts), float64(want)/10, facts)
		n := 0
		for _, part := range parts {
			require.LessOrEqual(t, len(part), trust.MaxActs)
			for _, a := range part {
				require.Same(t, acts[n], a)
				n++
			}
		}
		require.Len(t, acts, n)
	}
}
