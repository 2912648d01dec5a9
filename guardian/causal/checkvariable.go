package causal

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
)

// variable checks one variable by itself, and against its parents.
func (c *checker) variable(v *Variable) {
	at := path("variables", v.Name)
	c.text(under(at, "description"), "description", v.Description)
	c.values(v, under(at, "values"))
	if r := v.Range; r != nil {
		c.interval(under(at, "range"), r, v, "range")
		if r.Min > r.Max {
			c.say(diag.ModelInvalid, atValue, under(at, "range"), fmt.Sprintf("`range` is empty: %s is more than %s", number(r.Min), number(r.Max)), "It is `[min, max]`.")
		}
	}
	if known := c.parents(v, under(at, "parents")); known {
		c.mechanism(v, at)
	}
	if v.Noise != nil {
		c.noise(v, under(at, "noise"))
	}
	c.provenance(v, at)
}

// values checks the categories of a variable.
func (c *checker) values(v *Variable, at []any) {
	if v.Values != nil && len(v.Values) == 0 {
		c.say(diag.PlanSchema, atValue, at, "`values` is empty", "Name the categories, or leave the field out: then the variable is a number.")
	}
	seen := map[string]bool{}
	for i, name := range v.Values {
		if c.short(under(at, i), "a category", name, MaxCategory) && seen[name] {
			c.say(diag.PlanDuplicateID, atValue, under(at, i), fmt.Sprintf("%s stands twice in `values`", fields.Quote(name)), "")
		}
		seen[name] = true
	}
}

// interval checks the ends of an interval, which only numbers have.
func (c *checker) interval(at []any, r *Range, v *Variable, field string) {
	if v.Categorical() {
		c.say(diag.ModelInvalid, atValue, at, fmt.Sprintf("%s has categories, and no `%s`", fields.Quote(v.Name), field), "Only numbers have one.")
	}
	c.number(at, field, r.Min)
	c.number(at, field, r.Max)
}

// parents checks the names of parents, and reports whether the mechanism can be checked against them.
func (c *checker) parents(v *Variable, at []any) bool {
	known, seen := true, map[string]bool{}
	for i, name := range v.Parents {
		switch {
		case c.byName[name] == nil:
			c.unknown(atValue, under(at, i), fmt.Sprintf("there is no variable %s", fields.Quote(name)), "", name, c.list)
			known = false
		case seen[name]:
			c.say(diag.PlanDuplicateID, atValue, under(at, i), fmt.Sprintf("%s stands twice in `parents`", fields.Quote(name)), "")
			known = false
		case c.isBroken("variables", name):
			known = false
		}
		seen[name] = true
	}
	return known
}

// mechanism checks that there is at most one mechanism, and that it reads each parent.
func (c *checker) mechanism(v *Variable, at []any) {
	var has []string
	for _, x := range []struct {
		name  string
		there bool
	}{{"value", v.Value != nil}, {"linear", v.Linear != nil}, {"table", v.Table != nil}, {"expression", v.Expression != ""}} {
		if x.there {
			has = append(has, x.name)
		}
	}
	root := len(v.Parents) == 0
	for _, name := range has {
		switch {
		case name != "value" && root:
			c.say(diag.ModelInvalid, atKey, under(at, name), fmt.Sprintf("%s has no parents, and no `%s`", fields.Quote(v.Name), name), missing(v))
			return
		case name == "value" && !root:
			c.say(diag.ModelInvalid, atKey, under(at, name), fmt.Sprintf("%s has parents, and no `value`", fields.Quote(v.Name)), "What has parents follows from them. "+missing(v))
			return
		}
	}
	if len(has) > 1 {
		c.say(diag.ModelInvalid, atKey, under(at, has[1]), fmt.Sprintf("%s has `%s` and `%s`", fields.Quote(v.Name), has[0], has[1]), "A variable has one mechanism.")
		return
	}
	switch {
	case v.Value != nil:
		c.constant(v, at)
	case v.Linear != nil:
		c.linear(v, under(at, "linear"))
	case v.Table != nil:
		c.table(v, under(at, "table"))
	case v.Expression != "":
		c.expression(v, at)
	}
}

// constant checks the value of a variable.
func (c *checker) constant(v *Variable, at []any) {
	if v.Noise != nil {
		c.say(diag.ModelInvalid, atKey, under(at, "noise"), fmt.Sprintf("%s has `value` and `noise`", fields.Quote(v.Name)), "A value is constant. What varies is `noise` alone.")
		return
	}
	p := under(at, "value")
	switch value := v.Value; {
	case v.Categorical() && value.Category == "":
		c.say(diag.ModelInvalid, atValue, p, fmt.Sprintf("`value` is a category of %s, not a number", fields.Quote(v.Name)), "The categories are: "+listed(v.Values)+".")
	case v.Categorical():
		c.category(atValue, p, v, value.Category)
	case value.Category != "":
		c.say(diag.ModelInvalid, atValue, p, fmt.Sprintf("%s is a number, and %s is none", fields.Quote(v.Name), fields.Quote(value.Category)), "A variable with categories lists them in `values`.")
	default:
		c.number(p, "value", value.Number)
	}
}

// category checks that a variable has a category, and reports whether it does.
func (c *checker) category(at place, p []any, v *Variable, name string) bool {
	if slices.Contains(v.Values, name) {
		return true
	}
	c.unknown(at, p, fmt.Sprintf("%s has no category %s", fields.Quote(v.Name), fields.Quote(name)), "The categories are: "+listed(v.Values)+".", name, v.Values)
	return false
}

// linear checks that all parents are numbers with a weight.
func (c *checker) linear(v *Variable, at []any) {
	if v.Categorical() {
		c.say(diag.ModelInvalid, atKey, at, fmt.Sprintf("%s has categories, and `linear` gives a number", fields.Quote(v.Name)), missing(v))
		return
	}
	c.number(under(at, "intercept"), "intercept", v.Linear.Intercept)
	for i, name := range v.Parents {
		p := path("variables", v.Name, "parents", i)
		if c.byName[name].Categorical() {
			c.say(diag.ModelInvalid, atValue, p, fmt.Sprintf("%s has categories, and `linear` needs numbers", fields.Quote(name)), "Use `expression`, or a `table` if all parents have categories.")
		} else if _, there := v.Linear.Weights[name]; !there {
			c.say(diag.ModelInvalid, atValue, p, fmt.Sprintf("the parent %s has no weight", fields.Quote(name)), "`weights` has a number for each parent.")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Linear.Weights)) {
		p := under(at, "weights", name)
		if !slices.Contains(v.Parents, name) {
			c.unknown(atKey, p, fmt.Sprintf("%s is no parent of %s", fields.Quote(name), fields.Quote(v.Name)), "The parents are: "+listed(v.Parents)+".", name, v.Parents)
		}
		c.number(p, name, v.Linear.Weights[name])
	}
}

// noise checks that a variable has one distribution, which fits it.
func (c *checker) noise(v *Variable, at []any) {
	n := v.Noise
	var has []string
	for _, x := range []struct {
		name  string
		there bool
	}{{"normal", n.Normal != nil}, {"uniform", n.Uniform != nil}, {"bernoulli", n.Bernoulli != nil}, {"categorical", n.Categorical != nil}, {"empirical", n.Empirical != nil}} {
		if x.there {
			has = append(has, x.name)
		}
	}
	if len(has) != 1 {
		c.say(diag.ModelInvalid, atKey, at, fmt.Sprintf("`noise` has %d distributions", len(has)), "It has exactly one of `normal`, `uniform`, `bernoulli`, `categorical` and `empirical`.")
		return
	}
	p := under(at, has[0])
	switch {
	case v.Categorical() && len(v.Parents) > 0:
		c.say(diag.ModelInvalid, atKey, at, fmt.Sprintf("%s has categories and parents, and no noise", fields.Quote(v.Name)), "Its `table` says how probable each category is.")
		return
	case v.Categorical() && n.Categorical == nil:
		c.say(diag.ModelInvalid, atKey, p, fmt.Sprintf("%s has categories, and `%s` gives numbers", fields.Quote(v.Name), has[0]), "Its noise is `categorical`.")
		return
	case !v.Categorical() && n.Categorical != nil:
		c.say(diag.ModelInvalid, atKey, p, fmt.Sprintf("%s is a number, and `categorical` gives categories", fields.Quote(v.Name)), "A variable with categories lists them in `values`.")
		return
	}
	switch {
	case n.Normal != nil:
		c.number(under(p, "mean"), "mean", n.Normal.Mean)
		if c.number(under(p, "sd"), "sd", n.Normal.SD) && n.Normal.SD <= 0 {
			c.say(diag.PlanLimits, atValue, under(p, "sd"), fmt.Sprintf("`sd` is not positive: %s", number(n.Normal.SD)), "What does not vary has no noise.")
		}
	case n.Uniform != nil:
		low, high := c.number(under(p, "min"), "min", n.Uniform.Min), c.number(under(p, "max"), "max", n.Uniform.Max)
		if low && high && n.Uniform.Min >= n.Uniform.Max {
			c.say(diag.ModelInvalid, atKey, p, fmt.Sprintf("`min` is not less than `max`: %s, %s", number(n.Uniform.Min), number(n.Uniform.Max)), "What does not vary has no noise.")
		}
	case n.Bernoulli != nil:
		c.probability(p, has[0], *n.Bernoulli)
	case n.Categorical != nil:
		c.shares(v, p, n.Categorical)
	default:
		if len(n.Empirical) == 0 {
			c.say(diag.PlanSchema, atValue, p, "`empirical` is empty", "List at least one number.")
		}
		for i, x := range n.Empirical {
			c.number(under(p, i), has[0], x)
		}
	}
}

// shares checks the probabilities of a variable's categories.
func (c *checker) shares(v *Variable, at []any, of map[string]float64) {
	sum, sound := 0.0, true
	for _, name := range slices.Sorted(maps.Keys(of)) {
		sound = c.category(atKey, under(at, name), v, name) && sound
		sound = c.probability(under(at, name), name, of[name]) && sound
		sum += of[name]
	}
	if sound && !(math.Abs(sum-1) <= tolerance) {
		c.say(diag.ModelInvalid, atKey, at, fmt.Sprintf("the probabilities add up to %s, not to 1", number(sum)), "Those of categories that are left out are 0.")
	}
}

// provenance checks where a mechanism is said to come from.
func (c *checker) provenance(v *Variable, at []any) {
	switch v.Provenance {
	case Fitted:
		if v.Fit == nil {
			c.say(diag.ModelInvalid, atValue, under(at, "provenance"), fmt.Sprintf("%s is fitted, and has no `fit`", fields.Quote(v.Name)), "`fit` says to which data. What nobody has fitted is `assumed`.")
		}
	case Assumed, "":
		if v.Fit != nil {
			c.say(diag.ModelInvalid, atKey, under(at, "fit"), fmt.Sprintf("%s has `fit`, and is not fitted", fields.Quote(v.Name)), "Its `provenance` is `fitted`.")
		}
	default:
		x := c.say(diag.PlanSchema, atValue, under(at, "provenance"), fmt.Sprintf("`provenance` is %s, not %s", fields.Either(Provenances), fields.Quote(string(v.Provenance))), "")
		c.suggest(x, string(v.Provenance), Provenances)
	}
	f, p := v.Fit, under(at, "fit")
	if f == nil {
		return
	}
	c.short(under(p, "source"), "`source`", f.Source, fields.MaxText)
	c.grammar(atValue, under(p, "digest"), "digest", f.Digest, fields.Fingerprints)
	for _, x := range []struct {
		name     string
		n, least int
	}{{"rows", f.Rows, 1}, {"held_out", f.HeldOut, 0}} {
		if x.n < x.least {
			c.say(diag.PlanLimits, atValue, under(p, x.name), fmt.Sprintf("`%s` is out of range: %d", x.name, x.n), fmt.Sprintf("It counts rows, at least %d.", x.least))
		}
	}
	c.variables(under(p, "adjusted"), "adjusted", f.Adjusted)
	c.variables(under(p, "marginalized"), "marginalized", f.Marginalized)
	for _, name := range slices.Sorted(maps.Keys(f.Errors)) {
		if c.full() {
			return
		}
		c.short(under(p, "standard_errors", name), "a coefficient", name, fields.MaxText)
		c.spread(under(p, "standard_errors", name), name, f.Errors[name])
	}
	if f.HeldOutError != nil {
		c.spread(under(p, "held_out_error"), "held_out_error", *f.HeldOutError)
	}
}

// spread checks the size of an error.
func (c *checker) spread(p []any, field string, x float64) {
	if c.number(p, field, x) && x < 0 {
		c.say(diag.PlanLimits, atValue, p, fmt.Sprintf("%s is negative: %s", fields.Quote(field), number(x)), "It is the size of an error.")
	}
}

// variables checks a list of variables of a fit.
func (c *checker) variables(p []any, field string, list []string) {
	seen := map[string]bool{}
	for i, name := range list {
		switch {
		case c.byName[name] == nil:
			c.unknown(atValue, under(p, i), fmt.Sprintf("there is no variable %s", fields.Quote(name)), "", name, c.list)
		case seen[name]:
			c.say(diag.PlanDuplicateID, atValue, under(p, i), fmt.Sprintf("%s stands twice in `%s`", fields.Quote(name), field), "")
		}
		seen[name] = true
	}
}
