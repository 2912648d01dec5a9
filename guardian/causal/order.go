package causal

import (
	"cmp"
	"slices"
)

// arrange sorts the lists of a model, so that the order of a file means nothing but that of the categories.
func (m *Model) arrange() {
	slices.Sort(m.Operations)
	slices.SortStableFunc(m.Variables, func(a, b Variable) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortStableFunc(m.Bind, func(a, b Binding) int { return cmp.Compare(a.Variable, b.Variable) })
	slices.SortStableFunc(m.KPIs, func(a, b KPI) int { return cmp.Compare(a.Variable, b.Variable) })
	slices.SortStableFunc(m.Observe, func(a, b Binding) int { return cmp.Compare(a.Variable, b.Variable) })
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
			slices.Sort(v.Fit.Marginalized)
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
