package causal

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"chimera.ai/engine/expr"
)

// compile compiles one variable.
func (p *program) compile(n *node) (err error) {
	if n.Drafted() {
		return errors.New("the mechanism is missing: it is to be fitted")
	}
	if len(n.Parents) > MaxParents || len(n.Values) > MaxCategories || len(n.Table) > MaxRows {
		return errors.New("it has too many parents, categories or rows")
	}
	names := slices.Sorted(slices.Values(n.Parents))
	for i, name := range names {
		at := p.index(name)
		if at < 0 || i > 0 && names[i-1] == name {
			return fmt.Errorf("the parent %s is no variable, or stands twice", name)
		}
		n.parents = append(n.parents, at)
	}
	n.noise, err = newDistribution(n.Noise, n.Values)
	if err != nil {
		return err
	}
	mechanisms := 0
	for _, there := range []bool{n.Value != nil, n.Linear != nil, n.Table != nil, n.Expression != ""} {
		if there {
			mechanisms++
		}
	}
	chosen := n.Noise != nil && n.Noise.Categorical != nil
	switch {
	case mechanisms > 1 || mechanisms == 0 && len(n.parents) > 0:
		return errors.New("it has no mechanism, or more than one")
	case chosen && mechanisms > 0, chosen && !n.Categorical():
		return errors.New("categorical noise is for categories without a mechanism")
	case n.Value != nil && (len(n.parents) > 0 || n.Noise != nil):
		return errors.New("a value has no parents and no noise")
	case chosen:
		n.mechanism, n.chances, n.noise = chances, []outcomes{n.noise.outcomes}, distribution{}
	case n.Value != nil && n.Categorical():
		at := slices.Index(n.Values, n.Value.Category)
		if at < 0 {
			return fmt.Errorf("%q is no category", n.Value.Category)
		}
		n.intercept = float64(at)
	case n.Value != nil:
		if n.Value.Category != "" || !finite(n.Value.Number) {
			return errors.New("the value is no number")
		}
		n.intercept = n.Value.Number + 0
	case n.Expression != "":
		return p.expression(n)
	case n.Table != nil:
		return p.table(n)
	case n.Categorical():
		return errors.New("a variable with categories has a table, an expression or categorical noise")
	case n.Linear != nil:
		return p.linear(n)
	}
	return nil
}

func (p *program) linear(n *node) error {
	n.intercept = n.Linear.Intercept
	bad := !finite(n.intercept) || len(n.Linear.Weights) != len(n.parents)
	for _, parent := range n.parents {
		w, ok := n.Linear.Weights[p.nodes[parent].Name]
		bad = bad || !ok || !finite(w) || p.nodes[parent].Categorical()
		n.weights = append(n.weights, w)
	}
	if bad {
		return errors.New("a linear mechanism has a finite weight for each parent, which is a number")
	}
	return nil
}

func (p *program) table(n *node) error {
	rows := 1
	n.strides = make([]int, len(n.parents))
	for i, parent := range n.parents {
		n.strides[i] = rows
		if rows *= len(p.nodes[parent].Values); rows == 0 || rows > MaxRows {
			return fmt.Errorf("the parents of a table have categories, and at most %d combinations", MaxRows)
		}
	}
	if rows != len(n.Table) {
		return fmt.Errorf("the table has %d rows for %d combinations", len(n.Table), rows)
	}
	if n.Categorical() && n.Noise != nil {
		return errors.New("a table of probabilities has no noise")
	}
	n.mechanism, n.levels, n.chances = levels, make([]float64, rows), make([]outcomes, rows)
	if n.Categorical() {
		n.mechanism = chances
	}
	seen := make([]bool, rows)
	for _, row := range n.Table {
		at := 0
		for i, parent := range n.parents {
			c := slices.Index(p.nodes[parent].Values, row.When[p.nodes[parent].Name])
			if c < 0 || len(row.When) != len(n.parents) {
				return errors.New("a row gives the category of each parent")
			}
			at += c * n.strides[i]
		}
		if seen[at] {
			return errors.New("two rows are about the same categories")
		}
		seen[at] = true
		if n.Categorical() != (row.P != nil) || n.Categorical() == (row.Value != nil) || row.Value != nil && !finite(*row.Value) {
			return errors.New("a row gives probabilities of categories, or a number")
		}
		if row.Value != nil {
			n.levels[at] = *row.Value
			continue
		}
		var err error
		if n.chances[at], err = newOutcomes(row.P, n.Values); err != nil {
			return err
		}
	}
	return nil
}

func (p *program) expression(n *node) error {
	n.mechanism = calculated
	var numbers []string
	at := map[string]int{nameNoise: -1}
	if n.Noise != nil {
		numbers = append(numbers, nameNoise)
	}
	choices := map[string][]string{}
	for _, parent := range n.parents {
		of := &p.nodes[parent]
		at[of.Name] = parent
		if of.Categorical() {
			choices[of.Name] = of.Values
		} else {
			numbers = append(numbers, of.Name)
		}
	}
	var err error
	if n.numeric, err = expr.CompileNumeric(n.Expression, numbers, choices, n.Values); err != nil {
		return err
	}
	for _, name := range slices.Sorted(slices.Values(numbers)) {
		n.numbers = append(n.numbers, at[name])
	}
	for _, name := range slices.Sorted(maps.Keys(choices)) {
		n.choices = append(n.choices, at[name])
	}
	return nil
}
