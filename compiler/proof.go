package compiler

import (
	"fmt"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
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
	// limit is the steps that all proofs may take together, and proofs what they
	// have taken.
	limit, proofs int
	// checks is the steps that are left for the checks of expressions.
	checks int
	// tries is what is left of the search for counterexamples, and mends of proving
	// that proposed edits would do.
	tries, mends int
}

// newBudget is the budget of a file that lists nothing.
func newBudget() *budget {
	return &budget{limit: MinProofSteps, checks: MinProofSteps, tries: maxTriesEver, mends: maxMends}
}

// grow makes it the budget of a file that lists so many nodes and edges, or
// entries.
func (b *budget) grow(entries int) {
	b.limit = min(MaxProofSteps, MinProofSteps+ProofSteps*entries)
	b.checks = b.limit
}

// proof runs one proof of at most so many steps, within what is left. When
// nothing is left, nothing is claimed.
func (b *budget) proof(most int, run func(containment.Options) containment.Result) containment.Result {
	left := b.limit - b.proofs
	if left <= 0 {
		return containment.Result{Reason: fmt.Sprintf("all proofs of this file together take more than %d steps", b.limit)}
	}
	res := run(containment.Options{Steps: min(most, left)})
	b.proofs += max(res.Steps, 1)
	return res
}

// proof runs one proof within the budget of the file.
func (u *unit) proof(run func(containment.Options) containment.Result) containment.Result {
	if u.Errors < manyErrors {
		return u.budget.proof(containment.DefaultSteps, run)
	}
	res := u.budget.proof(fewSteps, run)
	if res.Verdict == containment.Unknown && res.Steps >= fewSteps {
		res.Reason += fmt.Sprintf(", which is all that a proof has after %d errors", manyErrors)
	}
	return res
}

// proofKey is one question about two schemas of the pool.
type proofKey struct {
	question    string
	brief       bool
	left, right *schema
}

// prove asks whether each value of left is one of right. The schemas of a pool
// are told apart by their digests, so a question is asked once. The answer to a
// brief one is worth few steps.
func (u *unit) prove(left, right *schema, brief bool) containment.Result {
	if left == right {
		return containment.Result{Verdict: containment.Proved}
	}
	return u.ask("contained", left, right, brief, containment.Prove)
}

// disjoint asks briefly whether no value is one of both.
func (u *unit) disjoint(a, b *schema) containment.Result {
	return u.ask("disjoint", a, b, true, containment.Disjoint)
}

func (u *unit) ask(question string, left, right *schema, brief bool, decide func(left, right *schemas.Schema, o containment.Options) containment.Result) containment.Result {
	key := proofKey{question, brief, left, right}
	res, known := u.questions[key]
	if !known {
		res = u.answer(left, right, brief, decide)
		u.questions[key] = res
	}
	return res
}

func (u *unit) answer(left, right *schema, brief bool, decide func(left, right *schemas.Schema, o containment.Options) containment.Result) containment.Result {
	l, err := left.compile()
	if err != nil {
		return containment.Result{Reason: "a schema does not compile"}
	}
	r, err := right.compile()
	if err != nil {
		return containment.Result{Reason: "a schema does not compile"}
	}
	run := func(o containment.Options) containment.Result { return decide(l, r, o) }
	if brief {
		return u.budget.proof(fewSteps, run)
	}
	return u.proof(run)
}
