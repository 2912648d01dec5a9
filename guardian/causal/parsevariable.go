package causal

import (
	"cmp"
	"math"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
)

// variable reads one variable.
func (r *reading) variable(name string, v *syntax.Value) Variable {
	out := Variable{Name: name}
	f := r.Read(v, VariableFields, name)
	if f == nil {
		return out
	}
	out.Description = text(f.Get("description"))
	out.Values = r.list(f.Get("values"), MaxCategories, "values")
	out.Parents = r.list(f.Get("parents"), MaxParents, "parents")
	if len(out.Parents) == 0 {
		out.Parents = nil
	}
	if x := f.Get("range"); x != nil {
		out.Range = r.interval(x)
	}
	if x := f.Get("value"); x != nil && x.Kind == syntax.Number {
		out.Value = &Value{Number: r.number(x, "value")}
	} else if x != nil {
		if out.Value = (&Value{Category: x.Text}); x.Text == "" {
			r.Report(diag.Diagnostic{Code: diag.PlanSchema, Summary: "`value` is empty", Detail: "It is a number or the name of a category.", Subject: x.Range()})
		}
	}
	if x := f.Get("linear"); x != nil {
		if l := r.Read(x, LinearFields, ""); l != nil {
			out.Linear = &Linear{r.number(l.Get("intercept"), "intercept"), r.numbers(l.Get("weights"), MaxParents, "weights")}
		}
	}
	if x := f.Get("table"); x != nil {
		out.Table = []Row{}
		for _, item := range r.AtMost(x.Items, MaxRows, "table") {
			out.Table = append(out.Table, r.row(item))
		}
	}
	if x := f.Get("expression"); x != nil {
		out.Expression = r.expression(x, "expression")
	}
	if x := f.Get("noise"); x != nil {
		out.Noise = r.noise(x)
	}
	out.Provenance = Provenance(cmp.Or(text(f.Get("provenance")), string(Assumed)))
	if x := f.Get("fit"); x != nil {
		out.Fit = r.fit(x)
	}
	return out
}

// interval reads `[min, max]`.
func (r *reading) interval(v *syntax.Value) *Range {
	if len(v.Items) != 2 {
		r.Report(diag.Diagnostic{Code: diag.PlanSchema, Summary: "`range` is not `[min, max]`", Detail: "It is a list of two numbers.", Subject: fields.OneLine(v)})
		return nil
	}
	return &Range{r.number(v.Items[0], "min"), r.number(v.Items[1], "max")}
}

// row reads a row of a table.
func (r *reading) row(v *syntax.Value) Row {
	f := r.Read(v, RowFields, "")
	if f == nil {
		return Row{}
	}
	out := Row{P: r.numbers(f.Get("p"), MaxCategories, "p"), Value: r.optional(f.Get("value"), "value"), When: map[string]string{}}
	for _, x := range r.entries(f.Get("when"), MaxParents, "when") {
		if r.form(x.Value, fields.FormText, fields.Quote(x.Key.Text)) {
			out.When[x.Key.Text] = x.Value.Text
		}
	}
	return out
}

// noise reads a distribution.
func (r *reading) noise(v *syntax.Value) *Noise {
	f := r.Read(v, NoiseFields, "")
	if f == nil {
		return nil
	}
	out := &Noise{Bernoulli: r.optional(f.Get("bernoulli"), "bernoulli"), Categorical: r.numbers(f.Get("categorical"), MaxCategories, "categorical")}
	if x := f.Get("normal"); x != nil {
		n := r.Read(x, NormalFields, "")
		out.Normal = &Normal{r.number(n.Get("mean"), "mean"), r.number(n.Get("sd"), "sd")}
	}
	if x := f.Get("uniform"); x != nil {
		u := r.Read(x, UniformFields, "")
		out.Uniform = &Range{r.number(u.Get("min"), "min"), r.number(u.Get("max"), "max")}
	}
	if x := f.Get("empirical"); x != nil {
		out.Empirical = []float64{}
		for _, item := range r.AtMost(x.Items, MaxEmpirical, "empirical") {
			out.Empirical = append(out.Empirical, r.number(item, "empirical"))
		}
	}
	return out
}

// fit reads how a mechanism was fitted.
func (r *reading) fit(v *syntax.Value) *Fit {
	f := r.Read(v, FitFields, "")
	if f == nil {
		return nil
	}
	out := &Fit{Source: text(f.Get("source")), Digest: text(f.Get("digest")), HeldOutError: r.optional(f.Get("held_out_error"), "held_out_error")}
	rows, _ := r.Whole(f.Get("rows"), "rows", 0, math.MaxInt32)
	heldOut, _ := r.Whole(f.Get("held_out"), "held_out", 0, math.MaxInt32)
	out.Rows, out.HeldOut = int(rows), int(heldOut)
	if list := r.list(f.Get("adjusted"), MaxVariables, "adjusted"); len(list) > 0 {
		out.Adjusted = list
	}
	if list := r.list(f.Get("marginalized"), MaxVariables, "marginalized"); len(list) > 0 {
		out.Marginalized = list
	}
	if m := r.numbers(f.Get("standard_errors"), MaxRows*MaxCategories, "standard_errors"); len(m) > 0 {
		out.Errors = m
	}
	return out
}

// kpi reads the bounds of a variable.
func (r *reading) kpi(name string, v *syntax.Value) KPI {
	out := KPI{Variable: name}
	f := r.Read(v, KPIFields, name)
	if f == nil {
		return out
	}
	out.Min, out.Max, out.Unit = r.optional(f.Get("min"), "min"), r.optional(f.Get("max"), "max"), text(f.Get("unit"))
	out.Allow = r.list(f.Get("allow"), MaxCategories, "allow")
	return out
}
