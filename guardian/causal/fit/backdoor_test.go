package fit

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/guardian/causal"
)

// dag builds a model from the parents of its variables.
func dag(parents map[string][]string) *causal.Model {
	m := &causal.Model{}
	for name, list := range parents {
		slices.Sort(list)
		m.Variables = append(m.Variables, causal.Variable{Name: name, Parents: list})
	}
	slices.SortFunc(m.Variables, func(a, b causal.Variable) int { return strings.Compare(a.Name, b.Name) })
	return m
}

func TestBackDoor(t *testing.T) {
	for _, c := range []struct {
		name     string
		parents  map[string][]string
		from     []string
		measured []string
		want     []string
		path     string
	}{
		{"nothing confounds", map[string][]string{"x": nil, "y": {"x"}}, []string{"x"}, nil, nil, ""},
		{"a fork", map[string][]string{"z": nil, "x": {"z"}, "y": {"x", "z"}}, []string{"x"}, []string{"z"}, []string{"z"}, ""},
		{"an unmeasured fork", map[string][]string{"z": nil, "x": {"z"}, "y": {"x", "z"}}, []string{"x"}, nil, nil, "x ← z → y"},
		{"a collider stays closed", map[string][]string{"a": nil, "b": nil, "m": {"a", "b"}, "x": {"a"}, "y": {"x", "b"}},
			[]string{"x"}, []string{"m"}, nil, ""},
		{"M bias behind a fork", map[string][]string{"a": nil, "b": nil, "m": {"a", "b"}, "x": {"a", "m"}, "y": {"x", "b", "m"}},
			[]string{"x"}, []string{"m"}, nil, "x ← a → m ← b → y"},
		{"M bias, one side measured", map[string][]string{"a": nil, "b": nil, "m": {"a", "b"}, "x": {"a", "m"}, "y": {"x", "b", "m"}},
			[]string{"x"}, []string{"b", "m"}, []string{"b", "m"}, ""},
		{"a mediator is not adjusted for", map[string][]string{"x": nil, "m": {"x"}, "y": {"m"}}, []string{"x"}, []string{"m"}, nil, ""},
		{"the smaller set", map[string][]string{"a": nil, "b": nil, "c": {"a", "b"}, "x": {"a", "b"}, "y": {"x", "c"}},
			[]string{"x"}, []string{"a", "b", "c"}, []string{"c"}, ""},
		{"the first by name", map[string][]string{"b": nil, "a": {"b"}, "x": {"b"}, "y": {"a", "x"}},
			[]string{"x"}, []string{"a", "b"}, []string{"a"}, ""},
		{"two causes, one set", map[string][]string{"z": nil, "w": nil, "x1": {"z"}, "x2": {"w", "x1"}, "y": {"x1", "x2", "z", "w"}},
			[]string{"x1", "x2"}, []string{"z", "w"}, []string{"w", "z"}, ""},
		{"two causes, one confounded in secret", map[string][]string{"z": nil, "w": nil, "x1": {"z"}, "x2": {"w", "x1"}, "y": {"x1", "x2", "z", "w"}},
			[]string{"x1", "x2"}, []string{"z"}, nil, "x2 ← w → y"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, path := backDoor(dag(c.parents), c.from, "y", c.measured)
			require.Equal(t, c.path, path)
			require.Equal(t, c.want, set)
		})
	}
}

// world is a random model of binary variables, small enough to be enumerated.
type world struct {
	m *causal.Model
	// p is the probability of 1, by variable and the values of its parents.
	p [][]float64
}

func randomWorld(r *rand.Rand, n int) *world {
	order := r.Perm(n)
	w := &world{m: &causal.Model{}, p: make([][]float64, n)}
	for i := range n {
		w.m.Variables = append(w.m.Variables, causal.Variable{Name: fmt.Sprintf("v%d", i)})
	}
	for i, v := range order {
		for _, u := range order[:i] {
			if r.IntN(100) < 45 {
				w.m.Variables[v].Parents = append(w.m.Variables[v].Parents, w.m.Variables[u].Name)
			}
		}
		slices.Sort(w.m.Variables[v].Parents)
	}
	w.draw(r)
	return w
}

func (w *world) draw(r *rand.Rand) {
	for v := range w.p {
		w.p[v] = make([]float64, 1<<len(w.m.Variables[v].Parents))
		for i := range w.p[v] {
			w.p[v][i] = 0.1 + 0.8*r.Float64()
		}
	}
}

// joint returns the probability of each world, where the variables of do have the values of set.
func (w *world) joint(do, set int) []float64 {
	n := len(w.p)
	all := make([]float64, 1<<n)
	for x := range all {
		if x&do != set {
			continue
		}
		all[x] = 1
		for v := range n {
			if do>>v&1 == 1 {
				continue
			}
			at := 0
			for i, name := range w.m.Variables[v].Parents {
				at |= x >> int(name[1]-'0') & 1 << i
			}
			if p := w.p[v][at]; x>>v&1 == 1 {
				all[x] *= p
			} else {
				all[x] *= 1 - p
			}
		}
	}
	return all
}

func sum(all []float64, mask, value int) float64 {
	total := 0.0
	for x, p := range all {
		if x&mask == value {
			total += p
		}
	}
	return total
}

// error returns how far the formula of adjustment for z is from the truth.
func (w *world) wrong(from, to, z int) float64 {
	seen, most := w.joint(0, 0), 0.0
	for x := range 1 << len(w.p) {
		if x&^from != 0 {
			continue
		}
		truth := sum(w.joint(from, x), to, to)
		formula := 0.0
		for c := range 1 << len(w.p) {
			if c&^z == 0 {
				formula += sum(seen, z, c) * sum(seen, from|z|to, x|c|to) / sum(seen, from|z, x|c)
			}
		}
		most = max(most, math.Abs(truth-formula))
	}
	return most
}

func mask(names []string) int {
	m := 0
	for _, name := range names {
		m |= 1 << int(name[1]-'0')
	}
	return m
}

// TestBackDoorAgainstEnumeration: what is adjusted for a set is exactly the distribution under the
// intervention, no smaller set and no earlier one of its size is, and where there is no set, each one is wrong
// for some model of the graph.
func TestBackDoorAgainstEnumeration(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	found, refused := 0, 0
	for range 1500 {
		n := 3 + r.IntN(4)
		w := randomWorld(r, n)
		picks := r.Perm(n)
		to, from := picks[0], 1<<picks[1]
		if n > 3 && r.IntN(2) == 0 {
			from |= 1 << picks[2]
		}
		var causes, measured []string
		for v := range n {
			name := w.m.Variables[v].Name
			if from>>v&1 == 1 {
				causes = append(causes, name)
			}
			if from>>v&1 == 1 || v == to || r.IntN(3) > 0 {
				measured = append(measured, name)
			}
		}
		g := graphOf(w.m, nil)
		after := mask(g.list(g.descendants(g.set(causes...))))
		candidates := mask(measured) &^ after &^ from &^ (1 << to)
		set, open := backDoor(w.m, causes, w.m.Variables[to].Name, measured)
		ok := open == ""
		if ok {
			found++
			require.Less(t, w.wrong(from, 1<<to, mask(set)), 1e-9, "%v", w.m)
			require.Zero(t, mask(set)&^candidates)
		} else {
			refused++
			require.Empty(t, set)
		}
		for z := range 1 << n {
			size := bits.OnesCount(uint(z))
			if z&^candidates != 0 || ok && size > len(set) {
				continue
			}
			names := g.list(g.set(w.names(z)...))
			if ok && size == len(set) && slices.Compare(names, set) >= 0 {
				continue
			}
			worst := 0.0
			for range 6 {
				worst = max(worst, w.wrong(from, 1<<to, z))
				w.draw(r)
			}
			require.Greater(t, worst, 1e-7, "%v adjusts for %v too, not only %v: %v", names, causes, set, w.m.Variables)
		}
	}
	require.Greater(t, found, 300)
	require.Greater(t, refused, 150)
}

func (w *world) names(z int) []string {
	var names []string
	for v := range w.p {
		if z>>v&1 == 1 {
			names = append(names, w.m.Variables[v].Name)
		}
	}
	return names
}
