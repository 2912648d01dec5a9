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

// String gives the verdict's name in lower case.
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

// DefaultSteps bounds a proof unless [Options] say otherwise.
const DefaultSteps = 20_000

// Options bound a proof. The zero value is ready for use.
type Options struct {
	// Steps is the largest number of steps; 0 means [DefaultSteps].
	Steps int
}

// Result is what a proof found.
type Result struct {
	Verdict Verdict
	// Witness is a decoded value of the left that is none of the right, and
	// JSON its text, if the verdict is Refuted.
	Witness any
	JSON    []byte
	// Reason says what stopped the proof, if the verdict is Unknown.
	Reason string
	// Steps is the work done.
	Steps int
}

// Prove decides whether each value of lhs is a value of rhs. It is
// deterministic and does not panic.
func Prove(lhs, rhs *schemas.Schema, o Options) (res Result) {
	if o.Steps <= 0 {
		o.Steps = DefaultSteps
	}
	p := &prover{left: o.Steps}
	defer func() {
		if r := recover(); r != nil {
			reason := "the proof failed"
			if _, ok := r.(exhausted); ok {
				reason = fmt.Sprintf("more than %d steps", o.Steps)
			}
			res = Result{Reason: reason}
		}
		res.Steps = o.Steps - p.left
	}()
	if lhs == nil || rhs == nil {
		return Result{Reason: "a schema is missing"}
	}
	l, r := lhs.Compiled(), rhs.Compiled()
	if l == r {
		return Result{Verdict: Proved}
	}
	seen := map[*schema]bool{}
	for _, s := range []*schema{l, r} {
		if why := p.opaque(s, seen); why != "" {
			return Result{Reason: why}
		}
	}
	p.ids, p.memo, p.open = map[*schema]int{}, map[string]result{}, map[string]int{}
	goal := p.sat([]lit{{l, false}, {r, true}})
	switch goal.state {
	case empty:
		return Result{Verdict: Proved}
	case found:
		text, err := json.Marshal(goal.value)
		if err != nil {
			return Result{Reason: "a counterexample has no text"}
		}
		v, err := lhs.ValidateJSON(text)
		if err != nil || !rejected(rhs.Validate(v)) {
			return Result{Reason: "a counterexample was not confirmed"}
		}
		return Result{Verdict: Refuted, Witness: v, JSON: text}
	}
	if p.reason == "" {
		p.reason = "not decided"
	}
	return Result{Reason: p.reason}
}
