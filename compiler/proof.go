package compiler

import (
	"fmt"

	"chimera.ai/engine/containment"
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

// proofLimit is what the proofs of the file may take together.
func (u *unit) proofLimit() int {
	size := u.listed
	for _, doc := range u.docs {
		size += len(doc.nodes) + len(doc.edges)
	}
	return min(MaxProofSteps, MinProofSteps+ProofSteps*size)
}

// proof runs one proof within what is left for the file. When nothing is left,
// nothing is claimed.
func (u *unit) proof(run func(containment.Options) containment.Result) containment.Result {
	limit := u.proofLimit()
	left := limit - u.proofSteps
	if left <= 0 {
		return containment.Result{Reason: fmt.Sprintf("all proofs of this file together take more than %d steps", limit)}
	}
	most := containment.DefaultSteps
	if u.brief || u.errors >= manyErrors {
		most = fewSteps
	}
	res := run(containment.Options{Steps: min(most, left)})
	u.proofSteps += max(res.Steps, 1)
	if res.Verdict == containment.Unknown && !u.brief && most == fewSteps && res.Steps >= most {
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
// are told apart by their digests, so a question is asked once.
func (u *unit) prove(left, right *schema) containment.Result {
	if left == right {
		return containment.Result{Verdict: containment.Proved}
	}
	return u.asked(proofKey{"contained", u.brief, left, right}, func() containment.Result {
		l, err := left.compile()
		if err != nil {
			return containment.Result{Reason: "a schema does not compile"}
		}
		r, err := right.compile()
		if err != nil {
			return containment.Result{Reason: "a schema does not compile"}
		}
		return u.proof(func(o containment.Options) containment.Result { return containment.Prove(l, r, o) })
	})
}

// disjoint asks whether no value is one of both.
func (u *unit) disjoint(a, b *schema) containment.Result {
	return u.asked(proofKey{"disjoint", u.brief, a, b}, func() containment.Result {
		x, err := a.compile()
		if err != nil {
			return containment.Result{Reason: "a schema does not compile"}
		}
		y, err := b.compile()
		if err != nil {
			return containment.Result{Reason: "a schema does not compile"}
		}
		return u.proof(func(o containment.Options) containment.Result { return containment.Disjoint(x, y, o) })
	})
}

func (u *unit) asked(key proofKey, ask func() containment.Result) containment.Result {
	if res, known := u.questions[key]; known {
		return res
	}
	res := ask()
	u.questions[key] = res
	return res
}
