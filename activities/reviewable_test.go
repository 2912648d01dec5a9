package activities

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/plan"
)

type onePlan struct {
	Plans
	plan *plan.Plan
}

func (p onePlan) Prepared(_ context.Context, _ string, prepare func(*plan.Plan, func(int)) any) (any, error) {
	return prepare(p.plan, func(int) {}), nil
}

type keeping struct{ Values }

func (keeping) Keep(context.Context, string, []contract.Value, bool) error { return nil }

// TestWhatPeopleAreAskedToRead: a definition that the guardian would reject for its length is not
// offered to it, so that the failure stays needs_review.
func TestWhatPeopleAreAskedToRead(t *testing.T) {
	require.Equal(t, guardian.MaxDefinition, maxDefinition)
	require.Equal(t, guardian.MaxWords, maxWords)
	const quotes = len(`""`)
	tool := func(schema, words int) json.RawMessage {
		return json.RawMessage(`{"name":"pay","description":"` + strings.Repeat("x", words) + `","inputSchema":{"description":"` + strings.Repeat("y", schema) + `"}}`)
	}
	room := maxDefinition - len(tool(0, 1))
	p := &plan.Plan{Nodes: []plan.Node{{ID: "pay", Kind: plan.KindCall, ProviderType: plan.MCP, Provider: "bank", Operation: "pay", Fingerprint: "sha256:1"}}}
	p.Index()
	for name, c := range map[string]struct {
		pinned, listed json.RawMessage
		want           bool
	}{
		"short":                {tool(0, 1), tool(0, 2), true},
		"as many words":        {tool(0, 1), tool(0, maxWords-1-2*quotes), true},
		"a word too many":      {tool(0, 1), tool(0, maxWords-2*quotes), false},
		"as long":              {tool(room-1, 1), tool(room-1, 2), true},
		"too long":             {tool(room, 1), tool(room, 2), false},
		"too long, pinned":     {tool(room, 2), tool(room, 1), false},
		"not in the catalog":   {nil, tool(0, 2), false},
		"listed is no tool":    {tool(0, 1), json.RawMessage(`[]`), false},
		"listed is not a JSON": {tool(0, 1), json.RawMessage(`{`), false},
	} {
		t.Run(name, func(t *testing.T) {
			f := &Effects{Acting: &Acting{Plans: onePlan{plan: p}, Values: keeping{}, Bench: func() Workbench {
				return Workbench{Definition: func(operation, fingerprint string) json.RawMessage {
					require.Equal(t, []string{"bank/pay", "sha256:1"}, []string{operation, fingerprint})
					return c.pinned
				}}
			}}}
			failure := contract.Errorf(contract.NeedsReview, "other words")
			failure.Listed = c.listed
			got, err := f.listed(t.Context(), &contract.Call{Permit: &contract.Permit{}}, failure)
			require.Same(t, failure, err)
			if c.want {
				require.JSONEq(t, string(c.listed), string(got))
			} else {
				require.Nil(t, got)
			}
		})
	}
}
