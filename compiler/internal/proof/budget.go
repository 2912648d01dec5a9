package proof

import (
	"fmt"
	"strings"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/internal/fields"
)

// All proofs of one file together have MinSteps, and StepsEach for each
// node and edge, or for each entry of a catalog, at most MaxSteps; the checks of
// its expressions have as much again. A step is a microsecond or so. One proof has
// at most containment.DefaultSteps; what it has not used is left for the others.
// Where no two edges are alike, a plan uses about a quarter of it.
const (
	MinSteps  = 1_000_000
	StepsEach = 100
	MaxSteps  = 16_000_000
)

// A file with ManyErrors will not compile, and further findings help little: each
// further proof has at most FewSteps.
const (
	ManyErrors = 100
	FewSteps   = 1_000
)

// Budget is the work that one file may still ask for, in steps.
type Budget struct {
	// rep is where the findings of the file are counted.
	rep *fields.Reader
	// Limit is the steps that all proofs may take together, and Proofs what they
	// have taken.
	Limit, Proofs int
	// Checks is the steps that are left for the checks of expressions.
	Checks int
}

// Extend adds to the budget of a file for so many nodes and edges, or entries.
func (b *Budget) Extend(entries int) {
	more := min(MaxSteps-b.Limit, StepsEach*entries)
	b.Limit += more
	b.Checks += more
}

// spend runs one proof of at most so many steps, within what is left. When
// nothing is left, nothing is claimed.
func (b *Budget) spend(most int, run func(containment.Options) containment.Result) containment.Result {
	left := b.Limit - b.Proofs
	if left <= 0 {
		return containment.Result{Reason: fmt.Sprintf("all proofs of this file together take more than %d steps", b.Limit)}
	}
	res := run(containment.Options{Steps: min(most, left)})
	b.Proofs += max(res.Steps, 1)
	return res
}

// Run runs one proof of the usual length, or a short one where the file has many
// errors already.
func (b *Budget) Run(run func(containment.Options) containment.Result) containment.Result {
	if b.rep.Errors < ManyErrors {
		return b.spend(containment.DefaultSteps, run)
	}
	res := b.spend(FewSteps, run)
	if res.Verdict == containment.Unknown && res.Steps >= FewSteps {
		res.Reason += fmt.Sprintf(", which is all that a proof has after %d errors", ManyErrors)
	}
	return res
}

// Stopped says what made a proof end without an answer.
func Stopped(res containment.Result) string {
	reason := res.Reason
	if i := strings.Index(reason, "#/"); i >= 0 && strings.HasPrefix(reason, "chimera:") {
		return "the keyword " + fields.Quote(reason[i+1:])
	}
	if reason == "" {
		reason = "nothing that can be named"
	}
	return strings.TrimSuffix(fields.Clip(reason, 300), ".")
}
