package containment

import (
	"encoding/json"
	"fmt"

	"chimera.ai/engine/schemas"
)

// Verdict is the outcome of a proof.
type Verdict int

// The verdicts. The zero Verdict claims nothing.
const (
	Unknown Verdict = iota
	Proved
	Refuted
)

// String returns the name of the verdict in lower case.
func (v Verdict) String() string {
	switch v {
	case Proved:
		return "proved"
	case Refuted:
		return "refuted"
	case Unknown:
	}
	return "unknown"
}

// DefaultSteps bounds a proof unless [Options] say otherwise. A step is a
// microsecond or so, so no proof takes much longer than some tens of milliseconds.
const DefaultSteps = 20_000

// Options bound a proof. The zero value is ready for use.
type Options struct {
	// Steps is the largest number of steps; 0 means [DefaultSteps].
	Steps int
	// Spent, if it is not nil, is where [Property] and [Element] add the steps that they
	// took. The other functions report them in their results.
	Spent *int
}

func (o Options) steps() int {
	if o.Steps <= 0 {
		return DefaultSteps
	}
	return o.Steps
}

// Result is the result of a proof.
type Result struct {
	Verdict Verdict
	// Witness is a decoded value that contradicts what was to be proved, and
	// JSON its text, if the verdict is Refuted. The validator has confirmed it.
	Witness any
	JSON    []byte
	// Reason says what stopped the proof, if the verdict is Unknown: a keyword, such
	// as `rhs: #/properties/a/unevaluatedItems`, or the steps that ran out.
	Reason string
	// Steps is the work done.
	Steps int
}

// Prove decides whether every value of lhs is a value of rhs. A witness is a value of
// lhs that is not a value of rhs. Prove is deterministic and does not panic.
func Prove(lhs, rhs *schemas.Schema, o Options) Result {
	return decide(o, side{"lhs", lhs, false}, side{"rhs", rhs, true})
}

// Disjoint decides whether a and b have no value in common. A witness is a value
// of both. Disjoint is deterministic and does not panic.
func Disjoint(a, b *schemas.Schema, o Options) Result {
	return decide(o, side{"lhs", a, false}, side{"rhs", b, false})
}

// Empty decides whether s has no value. A witness is a value of s. Empty is
// deterministic and does not panic.
func Empty(s *schemas.Schema, o Options) Result {
	return decide(o, side{"schema", s, false})
}

// side is one of the schemas that a question is about, or its negation.
type side struct {
	name string
	s    *schemas.Schema
	neg  bool
}

// decide looks for a value of all sides. It proves that there is none.
func decide(o Options, sides ...side) (res Result) {
	p := newProver(o.steps())
	defer func() {
		if r := recover(); r != nil {
			res = Result{Reason: "the proof failed"}
			if _, ok := r.(exhausted); ok {
				p.left = 0
				res.Reason = fmt.Sprintf("more than %d steps", o.steps())
			}
		}
		res.Steps = o.steps() - p.left
	}()
	var lits []lit
	for _, s := range sides {
		if s.s == nil {
			return Result{Reason: "a schema is missing"}
		}
		lits = append(lits, lit{s.s.Compiled(), s.neg})
	}
	if len(lits) == 2 && lits[0].s == lits[1].s && lits[0].neg != lits[1].neg {
		return Result{Verdict: Proved}
	}
	for _, l := range lits {
		p.survey(l.s)
	}
	// A look at the keywords settles most questions. Its findings are cached, so sat
	// does not charge for them again.
	if len(lits) == 2 && !lits[0].neg && lits[1].neg && p.within(lits[0].s, lits[1].s) {
		p.step()
		return Result{Verdict: Proved}
	}
	goal := p.sat(lits)
	switch goal.state {
	case empty:
		return Result{Verdict: Proved}
	case found:
		if p.depends {
			if why := legacy(goal.value, sides); !why.none() {
				return Result{Reason: why.text(sides)}
			}
		}
		return confirm(goal.value, sides)
	case unknown:
	}
	return Result{Reason: goal.why.text(sides)}
}

// confirm checks a value with the validator that is used at run time.
func confirm(v any, sides []side) Result {
	text, err := json.Marshal(v)
	if err != nil {
		return Result{Reason: "a witness has no text"}
	}
	if v, err = schemas.Decode(text); err != nil {
		return Result{Reason: "a witness is beyond the bounds of values"}
	}
	for _, s := range sides {
		err := s.s.Validate(v)
		if s.neg && !rejected(err) || !s.neg && err != nil {
			return Result{Reason: s.name + ": a witness was not confirmed"}
		}
	}
	return Result{Verdict: Refuted, Witness: v, JSON: text}
}
