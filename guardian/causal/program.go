package causal

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"chimera.ai/engine/expr"
)

// program is a model, compiled: its variables in the order of their names, which refer to each other by
// index. It does not change.
type program struct {
	nodes []node
	// order lists the variables, each behind its parents.
	order []int
	kpis  []indicator
}

// mechanism is how a variable comes about.
type mechanism int

const (
	// linear is intercept + Σ weight · parent, and noise: constants and noise alone are too.
	linear mechanism = iota
	// levels has a number for each combination of categories, and noise.
	levels
	// chances has probabilities of categories for each combination of those of the parents.
	chances
	// calculated is an expression.
	calculated
)

// node is a variable. All values are doubles: a category is its index.
type node struct {
	*Variable
	parents   []int
	mechanism mechanism
	intercept float64
	weights   []float64
	// strides give the row of a table: Σ stride · category.
	strides []int
	levels  []float64
	chances []outcomes
	numeric *expr.Numeric
	// numbers and choices are the arguments of numeric: parents, or -1 for the noise.
	numbers, choices []int
	noise            distribution
}

// indicator is a KPI of a variable. A number breaks it below low and above high, and a category unless it is fine.
type indicator struct {
	*KPI
	node      int
	low, high float64
	fine      []bool
}

// breaks reports whether a value breaks the bound.
func (k *indicator) breaks(x float64) bool {
	if k.fine != nil {
		return !k.fine[int(x)]
	}
	return x < k.low || x > k.high
}

// compile compiles a model. It relies on nothing: what it cannot take is an error.
func compile(m *Model) (*program, error) {
	if len(m.Variables) > MaxVariables || len(m.KPIs) > MaxKPIs {
		return nil, fmt.Errorf("a model has at most %d variables and %d KPIs", MaxVariables, MaxKPIs)
	}
	p := &program{nodes: make([]node, len(m.Variables))}
	for i := range m.Variables {
		p.nodes[i] = node{Variable: &m.Variables[i]}
	}
	slices.SortStableFunc(p.nodes, func(a, b node) int {
		if a.Name < b.Name {
			return -1
		} else if a.Name > b.Name {
			return 1
		}
		return 0
	})
	for i := range p.nodes {
		if i > 0 && p.nodes[i-1].Name == p.nodes[i].Name {
			return nil, fmt.Errorf("%s stands twice", p.nodes[i].Name)
		}
	}
	for i := range p.nodes {
		if err := p.compile(&p.nodes[i]); err != nil {
			return nil, fmt.Errorf("%s: %w", p.nodes[i].Name, err)
		}
	}
	if err := p.sort(); err != nil {
		return nil, err
	}
	for i := range m.KPIs {
		k := indicator{KPI: &m.KPIs[i], node: p.index(m.KPIs[i].Variable), low: math.Inf(-1), high: math.Inf(1)}
		if k.node < 0 {
			return nil, fmt.Errorf("the KPI %s is no variable", k.Variable)
		}
		of := &p.nodes[k.node]
		if of.Categorical() != (len(k.Allow) > 0) && k.Bounded() || of.Categorical() && (k.Min != nil || k.Max != nil) {
			return nil, fmt.Errorf("the KPI %s has bounds of another kind than its variable", k.Variable)
		}
		if k.Min != nil && !finite(*k.Min) || k.Max != nil && !finite(*k.Max) {
			return nil, fmt.Errorf("the KPI %s has a bound that is no number", k.Variable)
		}
		if k.Min != nil {
			k.low = *k.Min
		}
		if k.Max != nil {
			k.high = *k.Max
		}
		if len(k.Allow) > 0 {
			k.fine = make([]bool, len(of.Values))
			for c, name := range of.Values {
				k.fine[c] = slices.Contains(k.Allow, name)
			}
		}
		p.kpis = append(p.kpis, k)
	}
	return p, nil
}

// index returns the index of a variable, or -1.
func (p *program) index(name string) int {
	i, ok := slices.BinarySearchFunc(p.nodes, name, func(n node, name string) int {
		if n.Name < name {
			return -1
		} else if n.Name > name {
			return 1
		}
		return 0
	})
	if !ok {
		return -1
	}
	return i
}

// sort sets the order: the first by name whose parents are there is next.
func (p *program) sort() error {
	done := make([]bool, len(p.nodes))
	for len(p.order) < len(p.nodes) {
		before := len(p.order)
		for i := range p.nodes {
			if !done[i] && !slices.ContainsFunc(p.nodes[i].parents, func(parent int) bool { return !done[parent] }) {
				done[i] = true
				p.order = append(p.order, i)
			}
		}
		if len(p.order) == before {
			return errors.New("the variables depend on each other in a cycle")
		}
	}
	return nil
}

func finite(x float64) bool { return x-x == 0 }

// evaluator evaluates variables one at a time.
type evaluator struct {
	numbers []float64
	choices []int
}

func newEvaluator() *evaluator {
	return &evaluator{numbers: make([]float64, MaxParents+1), choices: make([]int, MaxParents)}
}

// value evaluates the mechanism of a variable, which is not chances, by the values of its parents.
func (e *evaluator) value(n *node, values []float64, noise float64) (float64, error) {
	x := n.intercept
	switch n.mechanism {
	case linear:
		for i, parent := range n.parents {
			x += float64(n.weights[i] * values[parent])
		}
		x += noise
	case levels:
		x = n.levels[n.row(values)] + noise
	case calculated:
		for i, at := range n.numbers {
			e.numbers[i] = noise
			if at >= 0 {
				e.numbers[i] = values[at]
			}
		}
		for i, at := range n.choices {
			e.choices[i] = int(values[at])
		}
		var err error
		if x, err = n.numeric.Eval(e.numbers[:len(n.numbers)], e.choices[:len(n.choices)]); err != nil {
			return 0, fmt.Errorf("%s: %w", n.Name, err)
		}
	case chances:
		return 0, fmt.Errorf("%s is drawn, not calculated", n.Name)
	}
	if !finite(x) {
		return 0, overflow(n)
	}
	return x, nil
}

func overflow(n *node) error { return fmt.Errorf("%s is not a finite number", n.Name) }

// row returns the row of a table.
func (n *node) row(values []float64) int {
	at := 0
	for i, parent := range n.parents {
		at += n.strides[i] * int(values[parent])
	}
	return at
}
