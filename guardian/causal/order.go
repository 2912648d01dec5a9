package causal

import (
	"cmp"
	"fmt"
	"slices"

	"chimera.ai/engine/diag"
)

func variablesByName(a, b Variable) int { return cmp.Compare(a.Name, b.Name) }
func bindingsByName(a, b Binding) int   { return cmp.Compare(a.Variable, b.Variable) }
func kpisByName(a, b KPI) int           { return cmp.Compare(a.Variable, b.Variable) }

// arrange sorts the lists of a model, so that the order of a file means nothing but that of the categories.
func (m *Model) arrange() {
	slices.Sort(m.Operations)
	slices.SortStableFunc(m.Variables, variablesByName)
	slices.SortStableFunc(m.Bind, bindingsByName)
	slices.SortStableFunc(m.KPIs, kpisByName)
	slices.SortStableFunc(m.Observe, bindingsByName)
	for i := range m.KPIs {
		slices.Sort(m.KPIs[i].Allow)
	}
	for i := range m.Variables {
		v := &m.Variables[i]
		slices.Sort(v.Parents)
		slices.SortStableFunc(v.Table, func(a, b Row) int { return v.compare(&a, &b) })
		if v.Noise != nil {
			slices.Sort(v.Noise.Empirical)
		}
		if v.Fit != nil {
			slices.Sort(v.Fit.Adjusted)
		}
	}
}

// compare compares rows by the categories of the sorted parents.
func (v *Variable) compare(a, b *Row) int {
	for _, name := range v.Parents {
		if d := cmp.Compare(a.When[name], b.When[name]); d != 0 {
			return d
		}
	}
	return 0
}

// order checks that lists are sorted as [Model] says, so that equal models have equal digests.
func (c *checker) order() {
	m := c.m
	sorted := func(is bool, name string, p ...any) {
		if !is {
			c.say(diag.PlanSchema, atValue, p, fmt.Sprintf("`%s` is not sorted", name), "The lists of a model are sorted by name.")
		}
	}
	sorted(slices.IsSortedFunc(m.Variables, variablesByName), "variables", "variables")
	sorted(slices.IsSortedFunc(m.Bind, bindingsByName), "bind", "bind")
	sorted(slices.IsSortedFunc(m.KPIs, kpisByName), "kpis", "kpis")
	sorted(slices.IsSortedFunc(m.Observe, bindingsByName), "observe", "observe")
	for i := range m.Variables {
		sorted(slices.IsSorted(m.Variables[i].Parents), "parents", "variables", m.Variables[i].Name, "parents")
	}
}
