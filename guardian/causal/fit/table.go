package fit

import (
	"fmt"
	"math"
	"strings"

	"chimera.ai/engine/guardian/causal"
)

// grid counts the combinations of categories of some variables, in the order of their names and, of each, of the
// model's categories.
type grid struct {
	variables []*causal.Variable
	size      int
}

func newGrid(variables []*causal.Variable) *grid {
	g := &grid{variables, 1}
	for _, v := range variables {
		g.size *= len(v.Values)
		if g.size > causal.MaxRows {
			g.size = causal.MaxRows + 1
		}
	}
	return g
}

// at returns the index of a row's combination.
func (g *grid) at(s *sample, row int) int {
	i := 0
	for _, v := range g.variables {
		i = i*len(v.Values) + s.columns[v.Name].codes[row]
	}
	return i
}

// when gives a combination by its index.
func (g *grid) when(i int) map[string]string {
	when := map[string]string{}
	for k := len(g.variables) - 1; k >= 0; k-- {
		v := g.variables[k]
		when[v.Name] = v.Values[i%len(v.Values)]
		i /= len(v.Values)
	}
	return when
}

// name writes a combination, such as "size=large, treatment=a".
func (g *grid) name(i int) string {
	when := g.when(i)
	var parts []string
	for _, v := range g.variables {
		parts = append(parts, v.Name+"="+when[v.Name])
	}
	return strings.Join(parts, ", ")
}

// key names a combination in a file, whose keys cannot be long.
func (g *grid) key(i int) string {
	if name := g.name(i); len(name) <= 256 {
		return name
	}
	return fmt.Sprintf("row %d", i+1)
}

// grids returns those of the parents and of the back-door set.
func (j *job) grids() (parents, strata *grid, err error) {
	parents, strata = newGrid(j.parents), newGrid(j.adjusted)
	for _, z := range j.adjusted {
		if !z.Categorical() {
			return nil, nil, j.refuse("it has to be adjusted for %s, which is a number: a table is adjusted for categories only", z.Name)
		}
	}
	if parents.size*strata.size > causal.MaxRows {
		return nil, nil, j.refuse("its parents, and what they are adjusted for, have more than %d combinations", causal.MaxRows)
	}
	return parents, strata, nil
}

// unseen refuses combinations without data.
func (j *job) unseen(parents, strata *grid, cells []int, hint string) error {
	const most = 8
	var names []string
	count := 0
	for i, n := range cells {
		if n > 0 {
			continue
		}
		if count++; count <= most {
			name := parents.name(i / strata.size)
			if len(strata.variables) > 0 {
				name += ", " + strata.name(i%strata.size)
			}
			names = append(names, "("+name+")")
		}
	}
	if count > most {
		names = append(names, fmt.Sprintf("and %d others", count-most))
	}
	return j.refuse("the data have no row with %s%s", strings.Join(names, ", "), hint)
}

// table fits probabilities: those of each stratum of the back-door set, weighted by how frequent it is.
func (j *job) table() error {
	parents, strata, err := j.grids()
	if err != nil {
		return err
	}
	k := len(j.v.Values)
	if err := j.enough(parents.size * strata.size * (k - 1)); err != nil {
		return err
	}
	y, n := j.train.columns[j.v.Name].codes, len(j.train.rows)
	cells, counts, weights := make([]int, parents.size*strata.size), make([]int, parents.size*strata.size*k), make([]int, strata.size)
	for i := range n {
		z := strata.at(j.train, i)
		cell := parents.at(j.train, i)*strata.size + z
		cells[cell]++
		counts[cell*k+y[i]]++
		weights[z]++
	}
	empty := 0
	for cell, count := range cells {
		// A stratum that never occurs has no weight.
		if count == 0 && weights[cell%strata.size] > 0 {
			empty++
		} else if count == 0 {
			cells[cell] = 1
		}
	}
	if empty > 0 && !j.options.UniformUnseen {
		return j.unseen(parents, strata, cells, "; name the uniform prior to give such combinations equal probabilities")
	}
	rows, errs := make([]causal.Row, parents.size), map[string]float64{}
	for x := range rows {
		rows[x] = causal.Row{When: parents.when(x), P: map[string]float64{}}
		for c, category := range j.v.Values {
			p, square, variance := 0.0, 0.0, 0.0
			for z, weight := range weights {
				if weight == 0 {
					continue
				}
				share, cell := float64(weight)/float64(n), x*strata.size+z
				q := jeffreys(counts[cell*k+c], cells[cell], k)
				e := posterior(q, cells[cell], k)
				p += float64(share * q)
				square += float64(share * float64(q*q))
				variance += float64(float64(share*share) * float64(e*e))
			}
			// How frequent the strata are is itself estimated.
			variance += max(square-float64(p*p), 0) / float64(n)
			rows[x].P[category] = p
			errs[parents.key(x)+": "+category] = math.Sqrt(variance)
		}
	}
	note := ""
	if empty > 0 {
		note = fmt.Sprintf("combinations without data, whose categories are equally probable: %d", empty)
	}
	j.result.Table = rows
	j.done("table", errs, note)
	j.tested(j.brier(func(i int) map[string]float64 { return rows[parents.at(j.test, i)].P }))
	return nil
}

// means fits a number to parents with categories.
func (j *job) means() error {
	if len(j.adjusted) > 0 {
		return j.refuse("it has to be adjusted for %s, which is not supported for a number whose parents have categories", names(j.adjusted))
	}
	parents, none, err := j.grids()
	if err != nil {
		return err
	}
	if err := j.enough(parents.size); err != nil {
		return err
	}
	y := j.train.columns[j.v.Name].numbers
	cells, means := make([]int, parents.size), make([]float64, parents.size)
	for i := range y {
		cell := parents.at(j.train, i)
		cells[cell]++
		means[cell] += y[i]
	}
	for cell, count := range cells {
		if count == 0 {
			return j.unseen(parents, none, cells, "")
		}
		means[cell] /= float64(count)
	}
	r := make([]float64, len(y))
	for i := range r {
		r[i] = y[i] - means[parents.at(j.train, i)]
	}
	sd := norm(r) / math.Sqrt(float64(len(y)-parents.size))
	res, err := residuals(j.v.Noise, r, sd, largest(y))
	if err != nil {
		return j.refuse("%s", err)
	}
	rows, errs := make([]causal.Row, parents.size), map[string]float64{}
	for x := range rows {
		value := means[x] - res.mean
		rows[x] = causal.Row{When: parents.when(x), Value: &value}
		errs[parents.key(x)] = sd / math.Sqrt(float64(cells[x]))
	}
	j.result.Table, j.result.Noise = rows, res.noise
	j.done("means", errs, res.note)
	j.tested(j.rmse(func(i int) float64 { return means[parents.at(j.test, i)] }))
	return nil
}
