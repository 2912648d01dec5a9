package proof

import (
	"fmt"
	"strings"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/fields"
)

// All proofs of one file together may take MinSteps plus StepsEach for each node
// and edge, or entry of a catalog, at most MaxSteps. The checks of its expressions
// may take as much again. A step takes about a microsecond. One proof may take
// containment.DefaultSteps; what it does not use is left for the others. A plan in
// which no two edges are alike uses about a quarter.
const (
	MinSteps  = 1_000_000
	StepsEach = 100
	MaxSteps  = 16_000_000
)

// A file with ManyErrors does not compile, and further findings help little, so
// each further proof may take only FewSteps.
const (
	ManyErrors = 100
	FewSteps   = 1_000
)

// Budget is the work that one file may still ask for, in steps.
type Budget struct {
	// rep is where the findings of the file are counted.
	rep *fields.Reader
	// Limit is the number of steps that all proofs may take together, and
	// Proofs the number they have taken.
	Limit, Proofs int
	// Checks is the number of steps left for checking expressions.
	Checks int
}

// Extend adds steps for so many nodes and edges, or entries.
func (b *Budget) Extend(entries int) {
	more := min(MaxSteps-b.Limit, StepsEach*entries)
	b.Limit += more
	b.Checks += more
}

// spend runs one proof of at most so many steps. If the budget is spent, the result
// is unknown.
func (b *Budget) spend(most int, run func(containment.Options) containment.Result) containment.Result {
	left := b.Limit - b.Proofs
	if left <= 0 {
		return containment.Result{Reason: fmt.Sprintf("all proofs of this file together take more than %d steps", b.Limit)}
	}
	res := run(containment.Options{Steps: min(most, left)})
	b.Proofs += max(res.Steps, 1)
	return res
}

// Run runs one proof, or a brief one if the file has many errors already.
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
	return strings.TrimSuffix(excerpt.Bytes(reason, 300), ".")
}
