package compiler

import (
	"fmt"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/internal/fields"
)

// All proofs of one file together have MinProofSteps and ProofSteps for each node
// and edge, or for each entry of a catalog, at most MaxProofSteps; the checks of
// its expressions have as much again. A step is a microsecond or so. One proof has
// at most containment.DefaultSteps; what it has not used is left for the others.
// Where no two edges are alike, a plan uses about a quarter of it.
const (
	MinProofSteps = 1_000_000
	ProofSteps    = 100
	MaxProofSteps = 16_000_000
)

// A file that has manyErrors will not compile, and what else is said of it helps
// little more: each further proof has fewSteps at most.
const (
	manyErrors = 100
	fewSteps   = 1_000
)

// budget is the work that one file may still ask for.
type budget struct {
	// rep is where the findings of the file are counted.
	rep *fields.Reader
	// limit is the steps that all proofs may take together, and proofs what they
	// have taken.
	limit, proofs int
	// checks is the steps that are left for the checks of expressions.
	checks int
}

// newBudget is the budget of a file that lists nothing.
func newBudget(rep *fields.Reader) *budget {
	return &budget{rep: rep, limit: MinProofSteps, checks: MinProofSteps}
}

// grow makes it the budget of a file that lists so many nodes and edges, or
// entries.
func (b *budget) grow(entries int) {
	b.limit = min(MaxProofSteps, MinProofSteps+ProofSteps*entries)
	b.checks = b.limit
}

// spend runs one proof of at most so many steps, within what is left. When
// nothing is left, nothing is claimed.
func (b *budget) spend(most int, run func(containment.Options) containment.Result) containment.Result {
	left := b.limit - b.proofs
	if left <= 0 {
		return containment.Result{Reason: fmt.Sprintf("all proofs of this file together take more than %d steps", b.limit)}
	}
	res := run(containment.Options{Steps: min(most, left)})
	b.proofs += max(res.Steps, 1)
	return res
}

// proof runs one proof of the usual length, or a short one where the file has many
// errors already.
func (b *budget) proof(run func(containment.Options) containment.Result) containment.Result {
	if b.rep.Errors < manyErrors {
		return b.spend(containment.DefaultSteps, run)
	}
	res := b.spend(fewSteps, run)
	if res.Verdict == containment.Unknown && res.Steps >= fewSteps {
		res.Reason += fmt.Sprintf(", which is all that a proof has after %d errors", manyErrors)
	}
	return res
}
