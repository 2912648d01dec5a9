package causal

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
)

// Problem is something for which a model cannot be evaluated.
type Problem struct {
	// Path leads to it in the JSON of a file: keys (string), such as the names of variables, and indexes (int).
	Path []any
	Code diag.Code
	// Summary and Detail say what is wrong, and Suggestion what was probably meant.
	Summary, Detail, Suggestion string

	// place says which part of what Path leads to is meant, and offset the byte of its text.
	place  place
	offset int
	// replaces reports that Suggestion can take the place of what stands there.
	replaces bool
}

// place is a part of a value in a file.
type place int

const (
	// atValue is the value itself, atKey its key.
	atValue place = iota
	atKey
	// atOffset is a part of the text, from an offset.
	atOffset
)

// Bounds of what is said of one model.
const (
	// maxProblems bounds the problems of a model; the last one then says that there are more.
	maxProblems = 1_000
	// maxNear bounds how many names are compared for suggestions.
	maxNear = 100_000
	// maxShown bounds the variables that are listed in one message.
	maxShown = 12
)

// tolerance is how far the sum of probabilities may be from 1.
const tolerance = 1e-9

// Check says what is wrong with a model, whose mechanisms may be missing.
func Check(m *Model) []Problem {
	c := newChecker(m)
	c.check()
	return c.found
}

// Incomplete says what a model that passes [Check] lacks before it can judge an action: mechanisms, a bound,
// what an action sets, and for which numbers the model is valid.
func Incomplete(m *Model) []Problem {
	c := newChecker(m)
	c.incomplete()
	return c.found
}

func (c *checker) incomplete() {
	for i := range c.m.Variables {
		if v := &c.m.Variables[i]; v.Drafted() && !c.isBroken("variables", v.Name) {
			c.say(diag.ModelInvalid, atKey, path("variables", v.Name), fmt.Sprintf("%s has no mechanism", fields.Quote(v.Name)),
				missing(v)+" `chimera simulate fit` estimates a mechanism from data.")
		}
	}
	for i := range c.m.Bind {
		if v := c.m.Variable(c.m.Bind[i].Variable); v != nil && !v.Categorical() && v.Range == nil && !c.isBroken("variables", v.Name) {
			c.say(diag.ModelInvalid, atKey, path("variables", v.Name), fmt.Sprintf("%s is bound, and has no `range`", fields.Quote(v.Name)), "Say for which numbers the model is valid: `range: [min, max]`. A call with another one escalates.")
		}
	}
	if len(c.m.Bind) == 0 && !c.isBroken("", "bind") {
		c.say(diag.ModelInvalid, atKey, path("bind"), "`bind` is empty", "Without it no call changes anything. Bind a variable to what a call sets it to.")
	}
	if !slices.ContainsFunc(c.m.KPIs, func(k KPI) bool { return k.Bounded() || c.isBroken("kpis", k.Variable) }) && !c.isBroken("", "kpis") {
		c.say(diag.ModelInvalid, atKey, path("kpis"), "no KPI has a bound", "The risk would be 0 whatever happens. Give a KPI `min`, `max` or `allow`.")
	}
}

// missing says what a variable without a mechanism needs.
func missing(v *Variable) string {
	switch {
	case len(v.Parents) == 0 && v.Categorical():
		return "A variable without parents has a `value`, or `noise` with `categorical`."
	case len(v.Parents) == 0:
		return "A variable without parents has a `value` or `noise`."
	case v.Categorical():
		return "A variable with parents and categories has a `table` or an `expression`."
	}
	return "A variable with parents has `linear`, `table` or `expression`."
}

// checker checks one model.
type checker struct {
	m      *Model
	byName map[string]*Variable
	// list are the names of the variables, sorted.
	list []string
	// broken are the parts of a file that could not be read, by map and name. Nothing is said of
	// them, and of what depends on them.
	broken map[[2]string]bool
	found  []Problem
	// near is the work left for suggestions.
	near int
	// expressions are the steps of those that compile, by variable.
	expressions map[string]int
}

func newChecker(m *Model) *checker {
	return &checker{m: m, byName: map[string]*Variable{}, near: maxNear, expressions: map[string]int{}}
}

func (c *checker) isBroken(section, name string) bool { return c.broken[[2]string{section, name}] }

func path(steps ...any) []any { return steps }

// under is a path that goes on. It shares nothing with the other.
func under(p []any, steps ...any) []any { return append(slices.Clone(p), steps...) }

// say adds a problem, up to [maxProblems].
func (c *checker) say(code diag.Code, at place, p []any, summary, detail string) *Problem {
	if len(c.found) >= maxProblems {
		return &Problem{}
	}
	if len(c.found) == maxProblems-1 {
		code, summary, detail = diag.PlanLimits, "too many problems; the others are not shown", ""
	}
	c.found = append(c.found, Problem{Path: p, Code: code, Summary: summary, Detail: detail, place: at})
	return &c.found[len(c.found)-1]
}

// full reports that no more problems are listed.
func (c *checker) full() bool { return len(c.found) >= maxProblems }

// unknown reports a name that is none of a set.
func (c *checker) unknown(at place, p []any, summary, detail, name string, set []string) {
	x := c.say(diag.ModelUnknown, at, p, summary, detail)
	c.suggest(x, name, set)
}

// suggest adds to a problem the name of a set that was probably meant.
func (c *checker) suggest(x *Problem, name string, set []string) {
	if c.near -= len(set) + 1; c.near >= 0 {
		x.Suggestion, x.replaces = syntax.Nearest(name, set), true
	}
}

// listed writes names for a message.
func listed(names []string) string {
	var b strings.Builder
	for i, name := range names {
		if i == maxShown {
			return b.String() + ", …"
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(excerpt.Clip(name, MaxCategory))
	}
	return b.String()
}

// check reports whether the model is small enough to be looked at.
func (c *checker) check() bool {
	if c.size(); len(c.found) > 0 {
		return false
	}
	c.index()
	c.head()
	seen := map[string]bool{}
	for i := range c.m.Variables {
		v := &c.m.Variables[i]
		if c.name(v.Name, seen) && !c.isBroken("variables", v.Name) {
			c.variable(v)
		}
	}
	c.cycles()
	c.bindings()
	c.kpis()
	c.observations()
	if len(c.found) == 0 && len(c.broken) == 0 {
		c.work()
	}
	return true
}

// index notes the variables by name.
func (c *checker) index() {
	for i := range c.m.Variables {
		if v := &c.m.Variables[i]; c.byName[v.Name] == nil {
			c.byName[v.Name] = v
		}
	}
	c.list = slices.Sorted(maps.Keys(c.byName))
}

// size refuses what is too large to be looked at.
func (c *checker) size() {
	m, total := c.m, 0
	most := func(n, limit int, what string, p ...any) {
		if total += n; n > limit {
			c.say(diag.PlanLimits, atValue, p, fmt.Sprintf("%s has %d entries", what, n), fmt.Sprintf("It has at most %d.", limit))
		}
	}
	most(len(m.Variables), MaxVariables, "`variables`", "variables")
	most(len(m.Operations), MaxOperations, "`operations`", "operations")
	most(len(m.Bind), MaxVariables, "`bind`", "bind")
	most(len(m.KPIs), MaxKPIs, "`kpis`", "kpis")
	most(len(m.Observe), MaxKPIs, "`observe`", "observe")
	if len(c.found) > 0 {
		return
	}
	for i := range m.Variables {
		v := &m.Variables[i]
		at := path("variables", v.Name)
		most(len(v.Parents), MaxParents, "`parents`", under(at, "parents")...)
		most(len(v.Values), MaxCategories, "`values`", under(at, "values")...)
		most(len(v.Table), MaxRows, "`table`", under(at, "table")...)
		if v.Linear != nil {
			most(len(v.Linear.Weights), MaxParents, "`weights`", under(at, "linear", "weights")...)
		}
		if v.Noise != nil {
			most(len(v.Noise.Empirical), MaxEmpirical, "`empirical`", under(at, "noise", "empirical")...)
			most(len(v.Noise.Categorical), MaxCategories, "`categorical`", under(at, "noise", "categorical")...)
		}
		if v.Fit != nil {
			most(len(v.Fit.Adjusted), MaxVariables, "`adjusted`", under(at, "fit", "adjusted")...)
			most(len(v.Fit.Marginalized), MaxVariables, "`marginalized`", under(at, "fit", "marginalized")...)
			most(len(v.Fit.Errors), MaxRows*MaxCategories, "`standard_errors`", under(at, "fit", "standard_errors")...)
		}
		if len(c.found) > 0 {
			return
		}
		for j := range v.Table {
			most(len(v.Table[j].When), MaxParents, "`when`", under(at, "table", j, "when")...)
			most(len(v.Table[j].P), MaxCategories, "`p`", under(at, "table", j, "p")...)
		}
		if total > MaxFile {
			c.say(diag.PlanLimits, atKey, path("variables"), "the model is too large", fmt.Sprintf("Its lists and maps have more than %d entries together.", MaxFile))
		}
		if len(c.found) > 0 {
			return
		}
	}
	text := 0
	for i := range m.Variables {
		text += len(m.Variables[i].Expression)
	}
	for _, b := range slices.Concat(m.Bind, m.Observe) {
		text += len(b.Expression)
	}
	if text > MaxExpressions {
		c.say(diag.PlanLimits, atKey, path("variables"), "the expressions are too long", fmt.Sprintf("They have %d bytes together; at most %d are compiled.", text, MaxExpressions))
	}
	for i := range m.KPIs {
		most(len(m.KPIs[i].Allow), MaxCategories, "`allow`", "kpis", m.KPIs[i].Variable, "allow")
	}
}

// head checks what stands beside the variables.
func (c *checker) head() {
	m := c.m
	if !c.isBroken("", "name") {
		c.grammar(atValue, path("name"), "name", m.Name, fields.PlanNames)
	}
	if m.Version != "" && !c.isBroken("", "version") {
		c.grammar(atValue, path("version"), "version", m.Version, fields.Versions)
	}
	c.text(path("description"), "description", m.Description)
	if len(m.Operations) == 0 && !c.isBroken("", "operations") {
		c.say(diag.PlanSchema, atValue, path("operations"), "`operations` is empty", "Name at least one.")
	}
	seen := map[string]bool{}
	for i, op := range m.Operations {
		switch at := path("operations", i); {
		case !c.grammar(atValue, at, "operations", op, fields.Operations):
		case strings.ContainsAny(op, "*?["):
			c.say(diag.PlanSchema, atValue, at, fmt.Sprintf("`operations` holds a pattern: %s", fields.Quote(op)), "A model names operations exactly. List each of them.")
		case seen[op]:
			c.say(diag.PlanDuplicateID, atValue, at, fmt.Sprintf("%s stands twice in `operations`", fields.Quote(op)), "")
		}
		seen[op] = true
	}
	if (m.Samples < MinSamples || m.Samples > MaxSamples) && !c.isBroken("", "samples") {
		c.say(diag.PlanLimits, atValue, path("samples"), fmt.Sprintf("`samples` is out of range: %d", m.Samples), fmt.Sprintf("It lies between %d and %d.", MinSamples, MaxSamples))
	}
	if len(m.Variables) == 0 && !c.isBroken("", "variables") {
		c.say(diag.PlanSchema, atValue, path("variables"), "`variables` is empty", "A model has at least one variable.")
	}
}

// grammar checks a name, and reports whether it fits.
func (c *checker) grammar(at place, p []any, field, text string, g fields.Grammar) bool {
	if g.Re.MatchString(text) {
		return true
	}
	x := c.say(diag.PlanSchema, at, p, fmt.Sprintf("`%s` is not a valid name: %s", field, fields.Quote(text)), "It is made of "+g.Say+".")
	if len(text) <= MaxCategory {
		x.Suggestion, x.replaces = g.Fix(text), true
	}
	return false
}

// name checks the name of a variable, and reports whether it can be looked at.
func (c *checker) name(name string, seen map[string]bool) bool {
	at := path("variables", name)
	switch {
	case !c.grammar(atKey, at, "variables", name, VariableNames):
		return false
	case slices.Contains(Reserved, name):
		c.say(diag.PlanSchema, atKey, at, fmt.Sprintf("a variable cannot be called %s", fields.Quote(name)), fmt.Sprintf("It is a type or a word of the expression language. Choose another name, such as `%s_value`.", name))
		return false
	case seen[name]:
		c.say(diag.PlanDuplicateID, atKey, at, fmt.Sprintf("there is a variable %s already", fields.Quote(name)), "")
		return false
	}
	seen[name] = true
	return true
}

// text checks free text.
func (c *checker) text(p []any, field, text string) {
	if len(text) > fields.MaxText {
		c.say(diag.PlanLimits, atValue, p, fmt.Sprintf("`%s` is too long", field), fmt.Sprintf("It has %d bytes; at most %d are kept.", len(text), fields.MaxText))
	}
}

// short checks text of one line, and reports whether it is one.
func (c *checker) short(p []any, what, text string, most int) bool {
	detail := ""
	switch {
	case text == "":
		detail = "It is empty."
	case len(text) > most:
		detail = fmt.Sprintf("It has %d bytes; at most %d are kept.", len(text), most)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }):
		detail = "It has a character that cannot be shown on one line."
	case strings.TrimSpace(text) != text:
		detail = "It begins or ends with a blank."
	default:
		return true
	}
	c.say(diag.PlanSchema, atValue, p, fmt.Sprintf("%s is not a valid text: %s", what, fields.Quote(text)), detail)
	return false
}

// inBounds reports whether a number may stand in a model.
func inBounds(x float64) bool { return math.Abs(x) <= MaxNumber }

// number checks that a number may stand in a model, and reports whether it does.
func (c *checker) number(p []any, field string, x float64) bool {
	if inBounds(x) {
		return true
	}
	c.say(diag.PlanLimits, atValue, p, fmt.Sprintf("`%s` is out of range: %s", field, number(x)), fmt.Sprintf("A number lies between %s and %s.", number(-MaxNumber), number(MaxNumber)))
	return false
}

// probability checks a probability, and reports whether it is one.
func (c *checker) probability(p []any, field string, x float64) bool {
	if x >= 0 && x <= 1 {
		return true
	}
	c.say(diag.PlanLimits, atValue, p, fmt.Sprintf("`%s` is not a probability: %s", field, number(x)), "It is a number from 0 to 1, such as 0.05 for 5 %.")
	return false
}
