package compiler

import (
	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

// proofKey is one question about two schemas of the pool.
type proofKey struct {
	question    string
	brief       bool
	left, right *pool.Schema
}

// prove asks whether each value of left is one of right. The schemas of a pool
// are told apart by their digests, so a question is asked once. The answer to a
// brief one is worth few steps.
func (p *prover) prove(left, right *pool.Schema, brief bool) containment.Result {
	if left == right {
		return containment.Result{Verdict: containment.Proved}
	}
	return p.ask("contained", left, right, brief, containment.Prove)
}

// apart asks briefly whether no value is one of both.
func (p *prover) apart(a, b *pool.Schema) containment.Result {
	return p.ask("disjoint", a, b, true, containment.Disjoint)
}

func (p *prover) ask(question string, left, right *pool.Schema, brief bool, decide func(left, right *schemas.Schema, o containment.Options) containment.Result) containment.Result {
	key := proofKey{question, brief, left, right}
	res, known := p.questions[key]
	if !known {
		res = p.answer(left, right, brief, decide)
		p.questions[key] = res
	}
	return res
}

func (p *prover) answer(left, right *pool.Schema, brief bool, decide func(left, right *schemas.Schema, o containment.Options) containment.Result) containment.Result {
	l, err := left.Compile()
	if err != nil {
		return containment.Result{Reason: "a schema does not compile"}
	}
	r, err := right.Compile()
	if err != nil {
		return containment.Result{Reason: "a schema does not compile"}
	}
	run := func(o containment.Options) containment.Result { return decide(l, r, o) }
	if brief {
		return p.spend(fewSteps, run)
	}
	return p.proof(run)
}
