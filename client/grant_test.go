package client

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// TestGrant: a start grant is for the run of its request and no other, and a request
// that can have none is left as it is.
func TestGrant(t *testing.T) {
	key, _, err := trust.NewKey()
	require.NoError(t, err)
	c := New(nil, Options{Namespace: "agents"})
	said := trust.Grant{Deployment: "example", Audience: trust.Prod, Plan: plan.DigestOf([]byte("p")), Agent: "bot", Requester: "rae"}
	r := Request{ID: "run-1", Start: contract.Start{Plan: "p@1", Input: json.RawMessage(`{"b": 1, "a": 2}`)}}
	before := time.Now()
	require.NoError(t, c.Grant(key, &r, said))
	g, err := trust.ReadGrant(r.Start.Grant)
	require.NoError(t, err)
	require.Equal(t, "agents", g.Namespace)
	require.Equal(t, "run-1", g.WorkflowID)
	require.Equal(t, plan.DigestOf([]byte(`{"a":2,"b":1}`)), g.Input)
	require.Equal(t, "bot", g.Agent)
	require.False(t, g.Expires.Time().Before(before.Add(GrantTime).Truncate(time.Second)))
	require.False(t, g.Expires.Time().After(time.Now().Add(GrantTime)))

	other := Request{ID: "run-1"}
	require.NoError(t, c.Grant(key, &other, said))
	again, err := trust.ReadGrant(other.Start.Grant)
	require.NoError(t, err)
	require.Equal(t, plan.DigestOf([]byte(`{}`)), again.Input)
	require.NotEqual(t, g.Nonce, again.Nonce)

	long := Request{ID: strings.Repeat("x", 10_000)}
	require.ErrorIs(t, c.Grant(key, &long, said), trust.ErrInvalid)
	require.Nil(t, long.Start.Grant)
	require.Error(t, c.Grant(key, &Request{ID: "r", Start: contract.Start{Input: json.RawMessage(`{`)}}, said))
}
