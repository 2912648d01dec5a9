package compiler

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// unit is one compilation: what the passes share.
type unit struct {
	src Source
	cat *catalogIndex
	pol *Policy

	docs []*document
	// listed counts what a catalog file lists.
	listed int
	pool   schemaPool
	// What was compiled, checked or proved once.
	predicates        map[sourceKey]predicateResult
	templates         map[sourceKey]templateResult
	checkedPredicates map[programAt]predicateCheck
	checkedTemplates  map[templateAt]templateCheck
	narrowed          map[narrowing]sight
	// readied are expressions as a run evaluates them.
	readied           map[*template]*expr.Template
	readiedPredicates map[programAt]*expr.Program
	// judgement is that of the condition that was judged last, under what it was
	// judged: who checks one usually narrows by it.
	judged    programAt
	judgement *expr.Judgement
	prices    map[priceOf]priceCheck
	adapters  map[adapterIn]*adapted
	inputs    map[assembled]bool
	questions map[proofKey]containment.Result
	// ahead are the answers of proveAhead.
	ahead  map[proofKey]foreseen
	prover *prover
	// proofSteps is the work that proofs have done.
	proofSteps int
	// brief: what is proved now is worth few steps.
	brief bool
	// checkSteps is what is left for the checks of expressions.
	checkSteps int
	// tries is what is left of the search for counterexamples.
	tries int
	// mends is what is left for proving that proposed edits would do.
	mends int
	// tainted is what is tainted of each plan whose input is not, set by the
	// effects pass.
	tainted []*taintResult
	// made is the compiled plan, once materialise has run.
	made *plan.Plan

	ds     diag.Diagnostics
	said   map[finding]bool
	errors int
	full   bool
	// blockEdges is how many edges are typed together.
	blockEdges int
	// scout: it only finds out whether there is something to report.
	scout bool
	// nearLeft bounds the work that goes into suggestions.
	nearLeft int
	// lookalikesLeft bounds the work of finding expressions in texts.
	lookalikesLeft int
}

func newUnit(src Source, cat *Catalog, pol *Policy) *unit {
	u := &unit{
		src: src, cat: indexCatalog(cat), pol: pol, nearLeft: 2_000_000, lookalikesLeft: maxLookalikes, blockEdges: blockEdges,
		said:       map[finding]bool{},
		predicates: map[sourceKey]predicateResult{}, templates: map[sourceKey]templateResult{},
		checkedPredicates: map[programAt]predicateCheck{}, checkedTemplates: map[templateAt]templateCheck{},
		readied: map[*template]*expr.Template{}, readiedPredicates: map[programAt]*expr.Program{},
		narrowed: map[narrowing]sight{}, inputs: map[assembled]bool{}, questions: map[proofKey]containment.Result{},
		prices: map[priceOf]priceCheck{}, adapters: map[adapterIn]*adapted{}, tries: maxTriesEver, mends: maxMends, checkSteps: MinProofSteps,
	}
	u.prover = newProver(u.proof)
	return u
}

// finding is what makes two findings the same: an anchor may put one text of
// the file into several places of the plan.
type finding struct {
	code            diag.Code
	at              diag.Range
	summary, detail string
}

// report keeps a finding, up to MaxFindings.
func (u *unit) report(d diag.Diagnostic) {
	if d.Severity == "" {
		d.Severity = diag.Error
	}
	if d.Severity == diag.Error {
		u.errors++
	}
	key := finding{d.Code, d.Subject, d.Summary, d.Detail}
	if u.full || u.said[key] {
		return
	}
	u.said[key] = true
	if len(u.ds) >= MaxFindings {
		// Warnings make room for the errors that come after them.
		if d.Severity == diag.Error {
			u.ds = slices.DeleteFunc(u.ds, func(x diag.Diagnostic) bool { return x.Severity == diag.Warning })
		}
		if len(u.ds) >= MaxFindings {
			u.full = true
			u.ds.Add(diag.Diagnostic{
				Code: diag.PlanLimits, Severity: d.Severity, Summary: "too many findings; the others are not shown",
				Detail:  fmt.Sprintf("At most %d findings are listed. Mend these and compile again.", MaxFindings),
				Subject: d.Subject,
			})
			return
		}
	}
	u.ds.Add(d)
}

// near is the candidate that name most probably means, or "".
func (u *unit) near(name string, candidates []string) string {
	if len(candidates) > u.nearLeft {
		return ""
	}
	u.nearLeft -= len(candidates)
	return syntax.Nearest(name, candidates)
}

// source is v as it stands in the file, on one line and bounded.
func (u *unit) source(v *syntax.Value) string {
	a, b := v.Range().Start.Byte, v.Range().End.Byte
	if a < 0 || b > len(u.src.Text) || a >= b || b-a > 80 {
		return v.Text
	}
	s := string(u.src.Text[a:b])
	if strings.ContainsAny(s, "\n\r") {
		return v.Text
	}
	return s
}

// word reads an enumeration. It gives "" if v is absent or not in the set.
func (u *unit) word(v *syntax.Value, name string, set []string) string {
	if v == nil {
		return ""
	}
	if slices.Contains(set, v.Text) {
		return v.Text
	}
	u.report(diag.Diagnostic{
		Code:       diag.PlanSchema,
		Summary:    fmt.Sprintf("`%s` is %s, not %s", name, either(set), quote(v.Text)),
		Subject:    v.Range(),
		Suggestion: u.near(v.Text, set),
	})
	return ""
}

// either writes a set for a sentence: "`a`, `b` or `c`".
func either(set []string) string {
	quoted := make([]string, len(set))
	for i, s := range set {
		quoted[i] = "`" + s + "`"
	}
	if len(quoted) < 2 {
		return strings.Join(quoted, "")
	}
	last := len(quoted) - 1
	return strings.Join(quoted[:last], ", ") + " or " + quoted[last]
}

// whole reads a whole number within [low, high]. ok is false if v is absent or
// was refused.
func (u *unit) whole(v *syntax.Value, name string, low, high int64) (n int64, ok bool) {
	if v == nil {
		return 0, false
	}
	r := number(v)
	if r == nil || !r.IsInt() {
		u.report(diag.Diagnostic{
			Code:    diag.PlanSchema,
			Summary: fmt.Sprintf("`%s` is a whole number, not %s", name, quote(v.Text)),
			Subject: v.Range(),
		})
		return 0, false
	}
	if r.Cmp(big.NewRat(low, 1)) < 0 || r.Cmp(big.NewRat(high, 1)) > 0 {
		u.report(diag.Diagnostic{
			Code:    diag.PlanLimits,
			Summary: fmt.Sprintf("`%s` is out of range: %s", name, quote(v.Text)),
			Detail:  fmt.Sprintf("It lies between %d and %d.", low, high),
			Subject: v.Range(),
		})
		return 0, false
	}
	return r.Num().Int64(), true
}

// number is the exact value of a number, or nil if its literal is longer, or
// its exponent larger, than any number of the language needs.
func number(v *syntax.Value) *big.Rat {
	const longest = 64
	if len(v.Text) > longest {
		return nil
	}
	if i := strings.IndexAny(v.Text, "eE"); i >= 0 && len(v.Text)-i > 4 {
		return nil
	}
	r, ok := new(big.Rat).SetString(v.Text)
	if !ok {
		return nil
	}
	return r
}

// grammar is the rule for one sort of name.
type grammar struct {
	re *regexp.Regexp
	// say completes "… is made of".
	say string
}

var (
	planNames    = grammar{regexp.MustCompile(`^[a-z0-9-]{1,63}$`), "1 to 63 lower-case letters, digits and hyphens"}
	versions     = grammar{regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$`), "1 to 64 letters, digits, `.`, `+` and `-`, such as 1.2.0"}
	agents       = grammar{regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._:@/-]{0,127}$`), "1 to 128 letters, digits and `. _ : @ / -`"}
	nodeIDs      = grammar{regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z_-]{0,62}$`), "1 to 63 letters, digits, `_` and `-`, and does not start with `-`"}
	providers    = grammar{regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]{0,127}$`), "1 to 128 letters, digits, `.`, `_` and `-`"}
	operations   = grammar{regexp.MustCompile(`^[!-~]{1,128}$`), "1 to 128 visible ASCII characters"}
	adapterIDs   = grammar{regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z._/@-]{0,127}$`), "1 to 128 letters, digits and `. _ / @ -`, and does not start with one of `. / @ -`"}
	defNames     = grammar{regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}$`), "1 to 128 letters, digits, `_`, `.` and `-`"}
	roles        = grammar{regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._:@/-]{0,127}$`), "1 to 128 letters, digits and `. _ : @ / -`"}
	fingerprints = grammar{regexp.MustCompile(`^sha256:[0-9a-f]{64}$`), "`sha256:` and 64 hex digits"}
	currencies   = grammar{regexp.MustCompile(`^[A-Z]{3}$`), "three capital letters (ISO 4217)"}
)

// mend is the name with other letters, if that is all that is wrong with it.
func (g grammar) mend(name string) string {
	for _, other := range []string{strings.ToLower(name), strings.ToUpper(name), strings.Join(strings.Fields(name), "-")} {
		if other != name && g.re.MatchString(other) {
			return other
		}
	}
	return ""
}

// name checks v against a grammar and reports whether it fits. A nil v does not.
func (u *unit) name(v *syntax.Value, field string, g grammar) bool {
	if v == nil {
		return false
	}
	if g.re.MatchString(v.Text) {
		return true
	}
	u.report(diag.Diagnostic{
		Code:    diag.PlanSchema,
		Summary: fmt.Sprintf("`%s` is not a valid name: %s", field, quote(v.Text)),
		Detail:  "It is made of " + g.say + ".",
		Subject: v.Range(), Suggestion: g.mend(v.Text),
	})
	return false
}

// text bounds free text.
func (u *unit) text(v *syntax.Value, name string) {
	if v != nil && len(v.Text) > MaxText {
		u.report(diag.Diagnostic{
			Code:    diag.PlanLimits,
			Summary: fmt.Sprintf("`%s` is too long", name),
			Detail:  fmt.Sprintf("It has %d bytes; at most %d are kept.", len(v.Text), MaxText),
			Subject: head(v),
		})
	}
}
