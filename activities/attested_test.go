package activities_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
)

// oneHold is a store with one hold, and with how that has ended.
type oneHold struct {
	activities.GuardianStore
	hold ledger.Hold
	end  string
}

func (s *oneHold) Hold(context.Context, string) (ledger.Hold, error) { return s.hold, nil }

func (s *oneHold) PostHold(_ context.Context, _ string, spent ledger.Money) (ledger.Hold, error) {
	s.end = "posted " + spent.String()
	return s.hold, nil
}

func (s *oneHold) VoidHold(context.Context, string) (ledger.Hold, error) {
	s.end = "voided"
	return s.hold, nil
}

// TestPost: the word of the worker that made a call frees money only where the operator attests
// what the call says of its cost.
func TestPost(t *testing.T) {
	amount, err := ledger.ParseMoney("5.00", "USD")
	require.NoError(t, err)
	for _, c := range []struct {
		name     string
		attested bool
		post     contract.Post
		want     string
	}{
		{"nothing spent", true, contract.Post{Spent: "0.00"}, "posted 0.00 USD"},
		{"less spent", true, contract.Post{Spent: "1.25"}, "posted 1.25 USD"},
		{"more spent", true, contract.Post{Spent: "5.01"}, "posted 5.00 USD"},
		{"less than nothing spent", true, contract.Post{Spent: "-0.01"}, "posted 5.00 USD"},
		{"no amount", true, contract.Post{Spent: "NaN"}, "posted 5.00 USD"},
		{"no word", true, contract.Post{}, "posted 5.00 USD"},
		{"unsent", true, contract.Post{Unsent: true}, "voided"},
		{"unstarted", true, contract.Post{Unstarted: true}, "voided"},
		{"nothing spent, not attested", false, contract.Post{Spent: "0.00"}, "posted 5.00 USD"},
		{"less spent, not attested", false, contract.Post{Spent: "1.25"}, "posted 5.00 USD"},
		{"no word, not attested", false, contract.Post{}, "posted 5.00 USD"},
		{"unsent, not attested", false, contract.Post{Unsent: true}, "posted 5.00 USD"},
		{"unsent and nothing spent, not attested", false, contract.Post{Unsent: true, Spent: "0.00"}, "posted 5.00 USD"},
		{"unstarted, not attested", false, contract.Post{Unstarted: true}, "voided"},
	} {
		t.Run(c.name, func(t *testing.T) {
			run := contract.Identity{Workflow: "w", Root: "r", Origin: "r"}
			s := &oneHold{hold: ledger.Hold{ID: "h", Amount: amount, Call: &ledger.HeldCall{Workflow: "w", Root: "r", Origin: "r", Attested: c.attested}}}
			c.post.Hold = "h"
			g := &activities.Guardian{Store: s}
			out, err := g.Post(t.Context(), contract.PostRequest{Run: run, Request: "q", Posts: []contract.Post{c.post}})
			require.NoError(t, err)
			require.Equal(t, "q", out.Request)
			require.Equal(t, c.want, s.end)
		})
	}
}
