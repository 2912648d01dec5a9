package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/policy"
)

// What one package lets through, another must not refuse: they may not import each other, so
// each has the bound.
func TestBoundsAgree(t *testing.T) {
	for name, bounds := range map[string][2]int64{
		"effects that undo one":    {lint.MaxUndo, ledger.MaxUndo},
		"times at a barrier":       {lint.MaxExpiresMS, policy.MaxFollowUpMS},
		"who gives an order":       {contract.MaxOrderBy, ledger.MaxOrderBy},
		"the reason of an order":   {contract.MaxOrderReason, ledger.MaxOrderReason},
		"an order that was signed": {contract.MaxOrderBytes, ledger.MaxOrderSigned},
	} {
		require.Equal(t, bounds[0], bounds[1], name)
	}
}
