package expr

import (
	"slices"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/schemas"
)

// Types says what is known of the values of names: a schema that each value of
// the name satisfies. A name that is not there can be anything.
type Types map[string]*schemas.Schema

// Typing is what is known where an expression stands.
type Typing struct {
	Types Types
	// Port says that "value" is that port of "output", so that what a guard says
	// of one holds of the other. "$" is output itself; "" is no relation.
	Port string
	// Decide asks of each ?: whether its condition is always true, or never, so that
	// the result is that of one branch. That takes more steps.
	Decide bool
	// Work, if it is not nil, holds the steps of the prover that are left for this
	// and other checks together. Checks take them away; when none is left, nothing
	// is proved.
	Work *int
}

// portWhole is the port that is the whole output.
const portWhole = "$"

// Kind says what kind of problem an expression has.
type Kind int

// The kinds of problems.
const (
	// Wrong: the expression fails for every value that gets there.
	Wrong Kind = iota
	// MayFail: it is not proved that the expression cannot fail.
	MayFail
	// Predicate: a condition that is not proved to be true or false.
	Predicate
)

// Problem is one reason why an expression must not run.
type Problem struct {
	Kind Kind
	// Offset counts bytes in the expression's text.
	Offset int
	// Message is one line: what may fail, and for which values.
	Message string
	// Hint is what to write instead, or "".
	Hint string
	// Name is the name of the scope for whose value Witness the expression fails;
	// it was evaluated to be sure. Name is "" where there is no such value.
	Name    string
	Witness any
	// Strict: it cannot be left to a run to find out. The expression fails for every
	// value that gets there, or what it gives would depend on types that are not
	// known: a quotient is another one for ints than for doubles.
	Strict bool
}

// TemplateProblem is a [Problem] of one string of a template.
type TemplateProblem struct {
	// Path holds the map keys (string) and list indexes (int) that lead to the string.
	Path []any
	// Problem's Offset counts bytes in that string.
	Problem
}

// Check proves that the predicate cannot fail and gives true or false, for all
// values that t allows. It gives the source with the conversions of numbers
// written out that its arithmetic needs, and what is not proved. The source is
// to be kept only if no problem is strict.
func (p *Program) Check(t Typing) (source string, problems []Problem) { return p.Judge(t).Check() }

// Narrow gives what is known where the predicate was true, or where it was
// false. It never says more than what then holds.
func (p *Program) Narrow(t Typing, holds bool) Typing { return p.Judge(t).Narrow(holds) }

// Judgement is what is found out about a predicate once, for those who both check
// it and narrow by it. It is not safe for concurrent use.
type Judgement struct {
	typing Typing
	judge  *judge
	value  known
}

// Judge judges the predicate for all values that t allows.
func (p *Program) Judge(t Typing) *Judgement {
	j := newJudge(p.code, t, newAllowance(t, maxCheck))
	return &Judgement{t, j, j.judge()}
}

// Check is [Program.Check]. It is to be called once, before Narrow.
func (x *Judgement) Check() (source string, problems []Problem) {
	if j, v := x.judge, x.value; !v.broken && !(v.form == formJSON && j.only(v.schema, isBool)) {
		j.predicate(v)
	}
	return x.judge.finish()
}

// Narrow is [Program.Narrow].
func (x *Judgement) Narrow(holds bool) Typing {
	j, t := x.judge, x.typing
	j.allowance = newAllowance(t, maxCheck)
	v := j.truth(x.value)
	learned := v.yes
	if !holds {
		learned = v.no
	}
	if len(learned) == 0 {
		return t
	}
	names := j.names.learn(j, learned)
	out := Typing{Types: Types{}, Port: t.Port, Work: t.Work}
	for name, s := range t.Types {
		out.Types[name] = s
	}
	for _, name := range j.code.scope.Names() {
		after, _ := names.of(name)
		if before, _ := j.names.of(name); after.schema != nil && after.schema != before.schema {
			out.Types[name] = after.schema
		}
	}
	return out
}

// predicate reports a condition that may be something else than a boolean.
func (j *judge) predicate(v known) {
	p := Problem{Kind: Predicate, Strict: true, Message: "a condition must be true or false; this is " + j.describe(v)}
	if v.form == formJSON && j.kinds(v.schema)&isBool != 0 {
		p.Message = "a condition must be true or false; this may be " + orKinds(j.refined(v.schema)&^isBool)
		p.Strict = false
		if v.at != nil {
			p.Hint = v.at.String() + " == true"
			v.at.within(j, notKinds(isBool), &p)
		}
	}
	j.report(p)
}

// allowance bounds the work of checking one expression, in steps of the prover.
type allowance struct {
	steps int
	// shared is what is left for this and other expressions, nil for no bound.
	shared *int
}

// Bounds of checking: steps for an expression, for a template, for one question
// and for one part of a schema; and the problems of an expression.
const (
	maxCheck    = 100_000
	maxTemplate = 20 * maxCheck
	maxQuestion = 10_000
	maxPart     = 1_000
	maxProblems = 16
)

// newAllowance gives most steps, or what is left.
func newAllowance(t Typing, most int) *allowance {
	if t.Work != nil {
		most = min(most, *t.Work)
	}
	return &allowance{steps: most, shared: t.Work}
}

// options bound one question.
func (a *allowance) options() (containment.Options, bool) {
	return containment.Options{Steps: min(a.steps, maxQuestion)}, a.steps > 0
}

func (a *allowance) charge(steps int) {
	steps = max(steps, 1)
	a.steps -= steps
	if a.shared != nil {
		*a.shared -= steps
	}
}

// judge finds out what is known of an expression.
type judge struct {
	*allowance
	code     *code
	port     string
	decides  bool
	names    names
	problems []Problem
	// here are the names as they are known at the place that is judged, and where
	// those at each problem.
	here  names
	where []names
	edits []edit
	lines *tokens
	// accepts says whether a result is one that is wanted, where that is not every
	// one.
	accepts func(v any) bool
	// doubles are the nodes that calculate with doubles or convert to them.
	doubles map[int64]bool
	// settled are the divisions of which it is known whether they are of ints.
	settled map[int64]bool
	// parts remembers the parts of schemas.
	parts map[part]*schemas.Schema
}

func newJudge(c *code, t Typing, a *allowance) *judge {
	j := &judge{allowance: a, code: c, port: t.Port, decides: t.Decide}
	of := scopes[c.scope]
	if c.path != nil && t.Port == "" {
		of = c.reads
	}
	j.names = make(names, 0, len(of))
	for _, name := range of {
		s := t.Types[name]
		if s == nil {
			s = anything
		}
		j.names = append(j.names, named{name, known{schema: s, at: &location{name: name}}})
	}
	j.here = j.names
	return j
}

// judge judges the whole expression.
func (j *judge) judge() known {
	if j.code.path != nil {
		return j.follow(j.code.path)
	}
	return j.expr(j.code.ast.Expr(), j.names)
}

// follow judges an expression that only selects.
func (j *judge) follow(path []step) known {
	v, _ := j.names.of(path[0].key)
	for _, s := range path[1:] {
		if s.isKey {
			v = j.selectKey(v, s.key, s.offset)
		} else {
			v = j.selectIndex(v, int(s.index), s.offset)
		}
	}
	return v
}

// report notes a problem, once, and not more than a few.
func (j *judge) report(p Problem) {
	p.Strict = p.Strict || p.Kind == Wrong
	if len(j.problems) >= maxProblems && !p.Strict {
		return
	}
	if j.steps <= 0 {
		p.Message += " (the expression takes too much work to decide)"
	}
	p.Message, p.Hint = excerpt.Clip(p.Message, maxMessage), excerpt.Clip(p.Hint, maxMessage)
	if slices.ContainsFunc(j.problems, func(o Problem) bool { return o.Offset == p.Offset && o.Message == p.Message }) {
		return
	}
	if last := len(j.problems) - 1; last >= maxProblems-1 {
		// A strict one takes the place of another.
		j.problems, j.where = j.problems[:last], j.where[:last]
	}
	j.problems = append(j.problems, p)
	j.where = append(j.where, j.here)
}

// finish gives the source with conversions and the problems, by place, each
// witness confirmed.
func (j *judge) finish() (string, []Problem) {
	source := j.code.src
	if len(j.edits) > 0 {
		source = j.converted()
	}
	if len(j.problems) > 0 && j.unsettled() {
		for i := range j.problems {
			j.problems[i].Strict = true
		}
	}
	j.confirm(source)
	slices.SortStableFunc(j.problems, func(a, b Problem) int { return a.Offset - b.Offset })
	return source, j.problems
}

// unsettled reports whether the expression has a division that may be one of ints
// or of doubles. What stands behind a problem may not have been judged.
func (j *judge) unsettled() bool {
	if j.code.ast == nil {
		return false
	}
	found := false
	ast.PreOrderVisit(j.code.ast.Expr(), ast.NewExprVisitor(func(e ast.Expr) {
		found = found || e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.Divide && !j.settled[e.ID()]
	}))
	return found
}
