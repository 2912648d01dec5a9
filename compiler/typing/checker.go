package typing

import (
	"chimera.ai/engine/compiler/internal/pool"
	"chimera.ai/engine/compiler/internal/proof"
	"chimera.ai/engine/compiler/lint"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/schemas"
)

// checker types the plans of a file, or what a catalog file says. What it compiled,
// checked or proved once, it keeps.
type checker struct {
	*embedded.Expressions
	pool   *pool.Pool
	prover *proof.Prover
	*Graph

	checkedPredicates map[programAt]predicateCheck
	checkedTemplates  map[templateAt]templateCheck
	narrowed          map[narrowing]scope
	// readied are expressions as a run evaluates them.
	readied           map[*embedded.Template]*expr.Template
	readiedPredicates map[programAt]*expr.Program
	// judgement is that of the condition that was judged last, under what it was
	// judged: who checks one usually narrows by it.
	judged    programAt
	judgement *expr.Judgement
	prices    map[priceOf]priceCheck
	adapters  map[adapterIn]*boundAdapter
	inputs    map[assembled]bool
	// errorSchema is that of what error edges bring, once asked for.
	errorSchema *schemas.Schema
	// tries is what is left of the search for counterexamples, and fixes of proving
	// that proposed edits would do.
	tries, fixes int
}

func newChecker(rep *fields.Reader, schemas *pool.Pool, prover *proof.Prover, linted *lint.Graph) *checker {
	check := &checker{
		Graph: &Graph{Graph: linted}, pool: schemas, prover: prover,
		checkedPredicates: map[programAt]predicateCheck{}, checkedTemplates: map[templateAt]templateCheck{},
		readied: map[*embedded.Template]*expr.Template{}, readiedPredicates: map[programAt]*expr.Program{},
		narrowed: map[narrowing]scope{}, inputs: map[assembled]bool{},
		prices: map[priceOf]priceCheck{}, adapters: map[adapterIn]*boundAdapter{}, tries: maxTriesEver, fixes: maxFixes,
	}
	check.Expressions = embedded.NewExpressions(rep, check.isNode)
	return check
}
