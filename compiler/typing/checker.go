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

// checker types the plans of a file, or the entries of a catalog file. It caches
// what it compiles, checks and proves.
type checker struct {
	*embedded.Expressions
	pool   *pool.Pool
	prover *proof.Prover
	*Graph

	checkedPredicates map[programAt]predicateCheck
	checkedTemplates  map[templateAt]templateCheck
	narrowed          map[narrowing]scope
	// readied holds expressions as a run evaluates them.
	readied           map[*embedded.Template]*expr.Template
	readiedPredicates map[programAt]*expr.Program
	// judgement is the last one, of the condition and scope in judged: a
	// condition that has just been checked is usually narrowed by next.
	judged    programAt
	judgement *expr.Judgement
	prices    map[priceOf]priceCheck
	adapters  map[adapterIn]*boundAdapter
	inputs    map[assembled]bool
	// errorSchema caches failures.
	errorSchema *schemas.Schema
	// tries is what remains of the search for counterexamples, and fixes what
	// remains for proving proposed edits.
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
