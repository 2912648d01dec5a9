package audit_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/trust"
)

// TestNamespaces: what people and keys have signed for the runs of another namespace counts for
// nothing.
func TestNamespaces(t *testing.T) {
	d := newDeployment(t)
	d.asks(t, "x")
	r := ledger.Run{Workflow: "y", Root: "r", Origin: "r", Agent: "bot", PlanDigest: ledger.BodyDigest([]byte("p")), InputDigest: ledger.BodyDigest([]byte("i"))}
	d.grant(t, &r, d.agent, nil)
	require.NoError(t, d.store.OpenRun(t.Context(), r))
	order := trust.Order{
		Deployment: "example", Audience: trust.Prod, Namespace: "default", WorkflowID: "y", Origin: "r", Order: trust.OrderPause, By: "ann",
		Nonce: strings.Repeat("1", 32), Issued: ledger.At(time.Now()), Expires: ledger.At(time.Now().Add(time.Minute)),
	}
	e, err := order.Unsigned()
	require.NoError(t, err)
	require.NoError(t, e.Sign(d.agent))
	raw, err := e.Encode()
	require.NoError(t, err)
	require.NoError(t, d.store.RecordOrder(t.Context(), "y", "r", ledger.Order{Kind: ledger.RunPaused, N: 1, By: "ann", Signed: raw}))
	d.drain(t)
	require.Empty(t, d.finds(t, "", "").Warnings)
	d.trust.Namespaces = []string{"elsewhere", "default"}
	d.finds(t, "", "")
	d.trust.Namespaces = nil
	warnings := d.finds(t, "", "").Warnings
	require.True(t, slices.ContainsFunc(warnings, func(p audit.Problem) bool { return strings.Contains(p.Message, "the trust file names no namespace") }))
	d.trust.Namespaces = []string{"elsewhere"}
	const says = `it is for the namespace "default", and the trust file has elsewhere`
	for _, what := range []string{"the start of x: ", "the start of y: ", "the order 1 to y: ", "the barrier b-x/1: "} {
		d.finds(t, audit.BadAuthority, what+says)
	}
}
