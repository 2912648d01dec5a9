package fit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/guardian/causal"
)

// gaussian is a random linear model with normal noise, whose distributions follow exactly.
type gaussian struct {
	m *causal.Model
	// order is topological, and weights are by child and parent.
	order   []int
	weights [][]float64
	// constant and sd are the intercepts and the noise.
	constant, sd []float64
}

func randomGaussian(r *rand.Rand, n int) *gaussian {
	g := &gaussian{m: &causal.Model{}, order: r.Perm(n), weights: make([][]float64, n)}
	for i := range n {
		g.m.Variables = append(g.m.Variables, causal.Variable{Name: fmt.Sprintf("v%d", i)})
		g.weights[i] = make([]float64, n)
		g.constant, g.sd = append(g.constant, r.NormFloat64()), append(g.sd, 0.5+r.Float64())
	}
	for i, v := range g.order {
		for _, u := range g.order[:i] {
			if r.IntN(100) < 35 {
				g.weights[v][u] = 0.5 + r.Float64()
				g.m.Variables[v].Parents = append(g.m.Variables[v].Parents, g.m.Variables[u].Name)
			}
		}
		slices.Sort(g.m.Variables[v].Parents)
	}
	return g
}

// solve gives each variable as a constant and the weights of the noise, where some are set to 3.
func (g *gaussian) solve(do []bool) (constants []float64, noise [][]float64) {
	n := len(g.order)
	constants, noise = make([]float64, n), make([][]float64, n)
	for _, v := range g.order {
		noise[v] = make([]float64, n)
		if do[v] {
			constants[v] = 3
			continue
		}
		constants[v], noise[v][v] = g.constant[v], g.sd[v]
		for u, w := range g.weights[v] {
			constants[v] += w * constants[u]
			for i := range noise[v] {
				if w != 0 {
					noise[v][i] += w * noise[u][i]
				}
			}
		}
	}
	return constants, noise
}

func dot(a, b []float64) float64 {
	total := 0.0
	for i := range a {
		total += a[i] * b[i]
	}
	return total
}

// regress solves the normal equations of y on the columns by elimination.
func regress(columns [][]float64, y []float64) []float64 {
	k := len(columns)
	a := make([][]float64, k)
	for i := range a {
		for j := range columns {
			a[i] = append(a[i], dot(columns[i], columns[j]))
		}
		a[i] = append(a[i], dot(columns[i], y))
	}
	for i := range a {
		for j := range a {
			if j != i {
				f := a[j][i] / a[i][i]
				for l := range a[j] {
					a[j][l] -= f * a[i][l]
				}
			}
		}
	}
	beta := make([]float64, k)
	for i := range beta {
		beta[i] = a[i][k] / a[i][i]
	}
	return beta
}

// TestMarginalizedModelIsRight: a model without some parents, where it is not refused, gives the KPIs the same joint
// distribution under the action as the whole model.
func TestMarginalizedModelIsRight(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	right, adjusted, refused := 0, 0, 0
	for range 60_000 {
		n := 3 + r.IntN(4)
		g := randomGaussian(r, n)
		y := g.order[n-1-r.IntN(2)]
		v := &g.m.Variables[y]
		if len(v.Parents) == 0 {
			continue
		}
		d, do := &Data{}, make([]bool, n)
		var o Options
		for i := range n {
			name := g.m.Variables[i].Name
			switch {
			case i == y || r.IntN(3) > 0:
				d.Columns = append(d.Columns, name)
			case slices.Contains(v.Parents, name):
				o.Marginalize = append(o.Marginalize, name)
			}
			if i != y && r.IntN(3) == 0 {
				do[i] = true
				g.m.Bind = append(g.m.Bind, causal.Binding{Variable: name})
			}
			if i == y || r.IntN(4) == 0 {
				g.m.KPIs = append(g.m.KPIs, causal.KPI{Variable: name})
			}
		}
		if len(o.Marginalize) == 0 {
			continue
		}
		j := &job{model: g.m, v: v, data: d, options: o}
		if err := j.identify(); err != nil {
			refused++
			continue
		}
		right++
		// What a fit to endless data would give.
		constants, noise := g.solve(make([]bool, n))
		var columns [][]float64
		for _, x := range slices.Concat(j.parents, j.adjusted) {
			columns = append(columns, noise[x.Name[1]-'0'])
		}
		beta := regress(columns, noise[y])
		small := &gaussian{m: g.m, order: g.order, weights: slices.Clone(g.weights), constant: slices.Clone(g.constant), sd: slices.Clone(g.sd)}
		small.weights[y], small.constant[y] = make([]float64, n), constants[y]
		rest := slices.Clone(noise[y])
		for i, x := range j.parents {
			u := int(x.Name[1] - '0')
			small.weights[y][u] = beta[i]
			small.constant[y] -= beta[i] * constants[u]
			for l := range rest {
				rest[l] -= beta[i] * noise[u][l]
			}
		}
		small.sd[y] = norm(rest)
		if len(j.adjusted) > 0 {
			adjusted++
		}
		wantMean, want := g.solve(do)
		gotMean, got := small.solve(do)
		for _, a := range g.m.KPIs {
			a := int(a.Variable[1] - '0')
			require.InDelta(t, wantMean[a], gotMean[a], 1e-9)
			for _, b := range g.m.KPIs {
				b := int(b.Variable[1] - '0')
				require.InDelta(t, dot(want[a], want[b]), dot(got[a], got[b]), 1e-9, "%v", g.m)
			}
		}
	}
	require.Greater(t, right, 500)
	require.Greater(t, adjusted, 10)
	require.Greater(t, refused, 1000)
}

// TestBackDoorOfLargeModels: the largest models that there are take no time to speak of.
func TestBackDoorOfLargeModels(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	m := &causal.Model{}
	var measured []string
	for i := range causal.MaxVariables {
		v := causal.Variable{Name: fmt.Sprintf("v%03d", i)}
		for _, u := range r.Perm(i)[:min(i, causal.MaxParents)] {
			v.Parents = append(v.Parents, m.Variables[u].Name)
		}
		slices.Sort(v.Parents)
		m.Variables = append(m.Variables, v)
		measured = append(measured, v.Name)
	}
	last := m.Variables[len(m.Variables)-1]
	set, open := backDoor(m, last.Parents, last.Name, measured)
	require.Empty(t, open)
	require.Empty(t, set)
	set, open = backDoor(m, last.Parents[:1], last.Name, measured)
	require.Empty(t, open)
	require.NotEmpty(t, set)
}
