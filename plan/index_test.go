package plan_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"chimera.ai/engine/plan"
)

// TestIndex says what each derived fact means, over random plans.
func TestIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, err := plan.Decode(encode(t, plans().Draw(t, "plan")))
		require.NoError(t, err)
		in, out := make([][]int, len(p.Nodes)), make([][]int, len(p.Nodes))
		for i := range p.Edges {
			e := &p.Edges[i]
			before := 0
			for _, o := range out[e.From] {
				if (p.Edges[o].Type == plan.Error) == (e.Type == plan.Error) {
					before++
				}
			}
			require.Equal(t, before, p.HeldAt(i))
			in[e.To] = append(in[e.To], i)
			out[e.From] = append(out[e.From], i)

			ports := p.Nodes[e.From].OutPorts
			if at := p.ValueAt(i); at >= 0 {
				require.Equal(t, e.FromPort, ports[at])
			} else {
				require.NotContains(t, ports, e.FromPort)
				require.True(t, !e.Carries() || e.Type == plan.Error)
			}
			if e.ReadsOutput {
				require.Equal(t, plan.WholePort, ports[p.OutputAt(i)])
			} else {
				require.Equal(t, -1, p.OutputAt(i))
			}
		}
		for i := range p.Nodes {
			require.True(t, slices.Equal(in[i], p.In(i)))
			require.True(t, slices.Equal(out[i], p.Out(i)))
		}
	})
}

func TestIndexIsBuiltOnce(t *testing.T) {
	p := valid()
	p.Index()
	before := p.Out(0)
	p.Index()
	require.Same(t, &before[0], &p.Out(0)[0])
	require.Equal(t, []int{0, 1, 2}, before)
	require.Equal(t, []int{4, 5, 6}, p.In(3))
	require.Equal(t, "first.$error -> $output.x", p.EdgeString(5))
}

func TestCarries(t *testing.T) {
	for i, want := range []bool{true, true, false, false, true, true, true} {
		require.Equal(t, want, valid().Edges[i].Carries(), valid().EdgeString(i))
	}
	for _, c := range []struct {
		edge plan.Edge
		want bool
	}{
		{plan.Edge{Type: plan.Error, FromPort: plan.ErrorPort, ToPort: plan.StartPort}, false},
		{plan.Edge{Type: plan.Conditional, FromPort: "x", ToPort: plan.StartPort}, false},
		{plan.Edge{Type: plan.Conditional, FromPort: plan.DonePort, ToPort: "x"}, false},
		{plan.Edge{Type: plan.Control, FromPort: "x", ToPort: "x"}, false},
	} {
		require.Equal(t, c.want, c.edge.Carries(), "%+v", c.edge)
	}
}

func TestActivity(t *testing.T) {
	require.Equal(t, "files/read", valid().Nodes[2].Activity())
}
