package main

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// endless has as many published plans as are asked for.
type endless struct {
	ledger.Plans
	left int
}

func (s *endless) ListPlans(_ context.Context, page ledger.Page) ([]ledger.Plan, error) {
	out := make([]ledger.Plan, min(page.Limit, s.left))
	s.left -= len(out)
	for i := range out {
		out[i].Name = fmt.Sprint("plan", i%7)
	}
	return out, nil
}

// TestLatestIsBounded: names that are left out are an error, and not an end.
func TestLatestIsBounded(t *testing.T) {
	names, err := latest(t.Context(), &endless{left: maxPlans})
	require.NoError(t, err)
	require.Len(t, names, 7)
	_, err = latest(t.Context(), &endless{left: maxPlans + 1})
	var f *failure
	require.ErrorAs(t, err, &f)
	require.Equal(t, exitNegative, f.code)
}
