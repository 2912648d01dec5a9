package compiler

import (
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
	"chimera.ai/engine/schemas"
)

// unit is one compilation: what the passes share.
type unit struct {
	*embedded.Expressions
	cat *catalogIndex
	pol *policy.Bundle

	docs  []*document
	typed []*typedDocument
	graph []*judgedDocument
	pool  pool.Pool
	// What was compiled, checked or proved once.
	checkedPredicates map[programAt]predicateCheck
	checkedTemplates  map[templateAt]templateCheck
	narrowed          map[narrowing]sight
	// readied are expressions as a run evaluates them.
	readied           map[*embedded.Template]*expr.Template
	readiedPredicates map[programAt]*expr.Program
	// judgement is that of the condition that was judged last, under what it was
	// judged: who checks one usually narrows by it.
	judged    programAt
	judgement *expr.Judgement
	prices    map[priceOf]priceCheck
	adapters  map[adapterIn]*adapted
	inputs    map[assembled]bool
	prover    *proof.Prover
	// tries is what is left of the search for counterexamples, and fixes of proving
	// that proposed edits would do.
	tries, fixes int
	errorSchema  *schemas.Schema
	// made is the compiled plan, once materialise has run.
	made *plan.Plan
}

func newUnit(src Source, cat *catalog.Catalog, pol *policy.Bundle) *unit {
	u := &unit{
		cat: indexCatalog(cat), pol: pol,
		checkedPredicates: map[programAt]predicateCheck{}, checkedTemplates: map[templateAt]templateCheck{},
		readied: map[*embedded.Template]*expr.Template{}, readiedPredicates: map[programAt]*expr.Program{},
		narrowed: map[narrowing]sight{}, inputs: map[assembled]bool{},
		prices: map[priceOf]priceCheck{}, adapters: map[adapterIn]*adapted{}, tries: maxTriesEver, fixes: maxMends,
	}
	u.Expressions = embedded.NewExpressions(fields.NewReader(src), u.isNode)
	u.prover = proof.New(u.Reader)
	return u
}
