package activities

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// TestFollows: a call that undoes an effect is the one that follows from what the ledger has
// of that, or it is not covered.
func TestFollows(t *testing.T) {
	edge := func(port string, reads bool) plan.Edge {
		return plan.Edge{From: 1, FromPort: plan.CompensatePort, To: 2, ToPort: port, Type: plan.Error, Transform: json.RawMessage(`1`), ReadsOutput: reads}
	}
	p := &plan.Plan{Nodes: make([]plan.Node, 4), Edges: []plan.Edge{edge("a", false), edge("b", true), edge("b", false), edge("a", false)}}
	p.Index()
	n := &node{plan: p, index: 2, spec: &p.Nodes[2]}
	const args, output = `{"to":"Zoe & co","n":1.50}`, `{"page":7}`
	same := contract.Value(`{ "n": 1.50, "to": "Zoe \u0026 co" }`)
	d := func(edge int, args, output contract.Value) contract.Delivery {
		return contract.Delivery{Edge: edge, Args: args, Output: output}
	}
	for name, c := range map[string]struct {
		known  bool
		brings []contract.Delivery
		want   bool
	}{
		"known":                      {true, []contract.Delivery{d(0, same, contract.Value(output)), d(1, same, contract.Value(output))}, true},
		"not known":                  {false, []contract.Delivery{d(0, same, nil), d(2, same, nil)}, true},
		"other arguments":            {true, []contract.Delivery{d(0, same, contract.Value(output)), d(1, contract.Value(`{"to":"Eve","n":1.50}`), contract.Value(output))}, false},
		"arguments in another form":  {true, []contract.Delivery{d(0, contract.Value(`{"to":"Zoe & co","n":1.5}`), contract.Value(output)), d(1, same, contract.Value(output))}, false},
		"another output":             {true, []contract.Delivery{d(0, same, contract.Value(output)), d(1, same, contract.Value(`{"page":8}`))}, false},
		"an output that is withheld": {true, []contract.Delivery{d(0, same, nil), d(2, same, nil)}, false},
		"an output that is made up":  {false, []contract.Delivery{d(0, same, contract.Value(output)), d(2, same, contract.Value(output))}, false},
		"an edge that is left out":   {true, []contract.Delivery{d(0, same, contract.Value(output))}, false},
		"another edge":               {true, []contract.Delivery{d(0, same, contract.Value(output)), d(2, same, contract.Value(output))}, false},
		"an edge too many":           {true, []contract.Delivery{d(0, same, contract.Value(output)), d(1, same, contract.Value(output)), d(3, same, contract.Value(output))}, false},
		"nothing":                    {true, nil, false},
	} {
		digest := ""
		if c.known {
			digest = plan.DigestOf([]byte(output))
		}
		got, err := follows(n, &contract.Call{Deliveries: c.brings}, []byte(args), digest)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
	_, err := follows(n, &contract.Call{Deliveries: []contract.Delivery{d(0, contract.Value(`{`), nil)}}, []byte(args), "")
	require.Error(t, err)
}
