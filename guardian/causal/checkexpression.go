package causal

import (
	"errors"
	"fmt"
	"slices"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
)

// compileOver compiles an expression of a variable over its parents and noise.
func compileOver(v *Variable, src string, parent func(name string) *Variable) (*expr.Numeric, error) {
	numbers, categories := []string{nameNoise}, map[string][]string{}
	for _, name := range v.Parents {
		if p := parent(name); p.Categorical() {
			categories[name] = p.Values
		} else {
			numbers = append(numbers, name)
		}
	}
	return expr.CompileNumeric(src, numbers, categories, v.Values)
}

// expression checks that the expression of a variable compiles, and reads its parents and noise.
func (c *checker) expression(v *Variable, at []any) {
	of := func(name string) *Variable { return c.byName[name] }
	p := under(at, "expression")
	compiled, err := compileOver(v, v.Expression, of)
	if err != nil {
		at := len(c.found)
		c.refuse(p, v.Expression, err, append(slices.Clone(v.Parents), nameNoise), nil, func(src string) bool {
			_, err := compileOver(v, src, of)
			return err == nil
		})
		var bad *expr.Error
		switch {
		case !errors.As(err, &bad) || bad.Call || at >= len(c.found):
		case c.byName[bad.Unknown] != nil:
			c.found[at].Detail += fmt.Sprintf(" To read the variable %s, name it in `parents`.", fields.Quote(bad.Unknown))
		case c.ofCategory(v, bad.Unknown):
			c.found[at].Detail += fmt.Sprintf(" A category is text, in quotes: '%s'.", bad.Unknown)
		}
		return
	}
	c.expressions[v.Name] = compiled.Steps()
	for i, name := range v.Parents {
		if !compiled.Reads(name) {
			c.say(diag.ModelInvalid, atValue, under(at, "parents", i), fmt.Sprintf("the expression does not read the parent %s", fields.Quote(name)), "Remove it from `parents`, or use it.")
		}
	}
	switch reads := compiled.Reads(nameNoise); {
	case reads && v.Noise == nil:
		c.say(diag.ModelInvalid, atValue, p, "the expression reads `noise`, and there is none", "Give the variable `noise`.")
	case !reads && v.Noise != nil && !v.Categorical():
		c.say(diag.ModelInvalid, atValue, p, "the expression does not read `noise`", "Noise is not added to an expression by itself. Write it where it acts, such as `… + noise`.")
	}
}

// ofCategory reports whether a name is a category of v or of one of its parents.
func (c *checker) ofCategory(v *Variable, name string) bool {
	return slices.Contains(v.Values, name) || slices.ContainsFunc(v.Parents, func(parent string) bool {
		of := c.byName[parent]
		return of != nil && slices.Contains(of.Values, name)
	})
}

// refuse reports an expression that does not compile. fits reports whether another one does.
func (c *checker) refuse(p []any, src string, err error, names, functions []string, fits func(src string) bool) {
	bad := expr.Error{Message: err.Error()}
	var where *expr.Error
	if errors.As(err, &where) {
		bad = *where
	}
	x := c.say(diag.TypeExpr, atOffset, p, "the expression does not compile", fields.Sentence(bad.Message))
	x.offset = bad.Offset
	switch x.Suggestion = embedded.Fix(src, fits); {
	case x.Suggestion != "" || bad.Unknown == "":
	case bad.Call:
		c.suggest(x, bad.Unknown, functions)
	default:
		c.suggest(x, bad.Unknown, names)
	}
}

// binding checks an expression over the names of a scope, which gives a number or a text.
func (c *checker) binding(p []any, src string, scope expr.Scope) {
	compile := func(src string) error {
		if _, errs := expr.CompileTemplate("${"+src+"}", scope); len(errs) > 0 {
			return &expr.Error{Offset: max(errs[0].Offset-len("${"), 0), Message: errs[0].Message, Unknown: errs[0].Unknown, Call: errs[0].Call}
		}
		// The text may be no expression, but a template of several.
		_, err := expr.CompileAmount(src, scope)
		return err
	}
	err := compile(src)
	if err == nil {
		return
	}
	if _, errs := expr.CompileTemplate("${"+src+"}", scope); len(errs) == 0 {
		err = &expr.Error{Message: "it is one expression, which gives a number or the name of a category"}
	}
	c.refuse(p, src, err, scope.Names(), expr.Functions(), func(src string) bool { return compile(src) == nil })
}

// bindings checks what calls set.
func (c *checker) bindings() {
	seen := map[string]bool{}
	for i := range c.m.Bind {
		b := &c.m.Bind[i]
		p := path("bind", b.Variable)
		v := c.byName[b.Variable]
		switch {
		case v == nil:
			c.unknown(atKey, p, fmt.Sprintf("there is no variable %s", fields.Quote(b.Variable)), "", b.Variable, c.list)
		case seen[b.Variable]:
			c.say(diag.PlanDuplicateID, atKey, p, fmt.Sprintf("%s is bound already", fields.Quote(b.Variable)), "")
		}
		seen[b.Variable] = true
		if !c.isBroken("bind", b.Variable) {
			c.binding(p, b.Expression, expr.Price)
		}
	}
}

// kpis checks the bounds of variables.
func (c *checker) kpis() {
	seen := map[string]bool{}
	for i := range c.m.KPIs {
		k := &c.m.KPIs[i]
		p := path("kpis", k.Variable)
		v := c.byName[k.Variable]
		switch {
		case v == nil:
			c.unknown(atKey, p, fmt.Sprintf("there is no variable %s", fields.Quote(k.Variable)), "", k.Variable, c.list)
			continue
		case seen[k.Variable]:
			c.say(diag.PlanDuplicateID, atKey, p, fmt.Sprintf("there is a KPI %s already", fields.Quote(k.Variable)), "")
			continue
		}
		seen[k.Variable] = true
		if !c.isBroken("kpis", k.Variable) && !c.isBroken("variables", k.Variable) {
			c.kpi(k, v, p)
		}
	}
}

func (c *checker) kpi(k *KPI, v *Variable, p []any) {
	if k.Unit != "" {
		c.short(under(p, "unit"), "`unit`", k.Unit, MaxUnit)
	}
	if v.Categorical() {
		for _, x := range []struct {
			name  string
			bound *float64
		}{{"min", k.Min}, {"max", k.Max}} {
			if x.bound != nil {
				c.say(diag.ModelInvalid, atKey, under(p, x.name), fmt.Sprintf("%s has categories, and no `%s`", fields.Quote(v.Name), x.name), "Its bound is `allow`.")
			}
		}
		if k.Allow != nil && len(k.Allow) == 0 {
			c.say(diag.PlanSchema, atValue, under(p, "allow"), "`allow` is empty", "Name the categories that do not break the KPI, or leave the field out.")
		}
		seen := map[string]bool{}
		for i, name := range k.Allow {
			if c.category(atValue, under(p, "allow", i), v, name) && seen[name] {
				c.say(diag.PlanDuplicateID, atValue, under(p, "allow", i), fmt.Sprintf("%s stands twice in `allow`", fields.Quote(name)), "")
			}
			seen[name] = true
		}
		return
	}
	if k.Allow != nil {
		c.say(diag.ModelInvalid, atKey, under(p, "allow"), fmt.Sprintf("%s is a number, and has no `allow`", fields.Quote(v.Name)), "Its bounds are `min` and `max`.")
	}
	sound := k.Min == nil || c.number(under(p, "min"), "min", *k.Min)
	sound = (k.Max == nil || c.number(under(p, "max"), "max", *k.Max)) && sound
	if sound && k.Min != nil && k.Max != nil && *k.Min > *k.Max {
		c.say(diag.ModelInvalid, atKey, p, fmt.Sprintf("every value breaks the bounds of %s", fields.Quote(v.Name)), fmt.Sprintf("`min` is %s, more than `max`: %s.", number(*k.Min), number(*k.Max)))
	}
}

// observations checks what is measured of KPIs.
func (c *checker) observations() {
	var names []string
	for i := range c.m.KPIs {
		names = append(names, c.m.KPIs[i].Variable)
	}
	seen := map[string]bool{}
	for i := range c.m.Observe {
		o := &c.m.Observe[i]
		p := path("observe", o.Variable)
		switch {
		case !slices.Contains(names, o.Variable) && !c.isBroken("", "kpis"):
			c.unknown(atKey, p, fmt.Sprintf("there is no KPI %s", fields.Quote(o.Variable)), "Only what is a KPI is measured. `kpis` may list it without a bound.", o.Variable, names)
		case seen[o.Variable]:
			c.say(diag.PlanDuplicateID, atKey, p, fmt.Sprintf("%s is observed already", fields.Quote(o.Variable)), "")
		}
		seen[o.Variable] = true
		if !c.isBroken("observe", o.Variable) {
			c.binding(p, o.Expression, expr.Charge)
		}
	}
}

// work refuses a model that takes too long.
func (c *checker) work() {
	each := steps(c.m, c.expressions)
	if int64(c.m.Samples)*each <= MaxWork {
		return
	}
	x := c.say(diag.PlanLimits, atValue, path("samples"), "the model takes too long to sample",
		fmt.Sprintf("Each of %d samples takes %d steps; all together take at most %d.", c.m.Samples, each, MaxWork))
	if fit := MaxWork / each / 1000 * 1000; fit >= MinSamples {
		x.Suggestion = fmt.Sprintf("samples: %d", fit)
	} else {
		x.Detail += " Give the model fewer variables and parents, or shorter expressions."
	}
}

// steps bounds the work of one sample of a model: for each variable one step, one for each parent, two for
// each draw at random, and those of its expression, which are given by variable.
func steps(m *Model, expressions map[string]int) int64 {
	total := 0
	for i := range m.Variables {
		v := &m.Variables[i]
		total += 1 + len(v.Parents) + expressions[v.Name]
		if v.Noise != nil || v.Table != nil && v.Categorical() {
			total += 2
		}
	}
	return int64(total)
}
