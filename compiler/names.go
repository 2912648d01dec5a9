package compiler

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
)

// word reads an enumeration. It gives "" if v is absent or not in the set.
func (rep *reporter) word(v *syntax.Value, name string, set []string) string {
	if v == nil {
		return ""
	}
	if slices.Contains(set, v.Text) {
		return v.Text
	}
	rep.report(diag.Diagnostic{
		Code:       diag.PlanSchema,
		Summary:    fmt.Sprintf("`%s` is %s, not %s", name, either(set), quote(v.Text)),
		Subject:    v.Range(),
		Suggestion: rep.near(v.Text, set),
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
func (rep *reporter) whole(v *syntax.Value, name string, low, high int64) (n int64, ok bool) {
	if v == nil {
		return 0, false
	}
	r := number(v)
	if r == nil || !r.IsInt() {
		rep.report(diag.Diagnostic{
			Code:    diag.PlanSchema,
			Summary: fmt.Sprintf("`%s` is a whole number, not %s", name, quote(v.Text)),
			Subject: v.Range(),
		})
		return 0, false
	}
	if r.Cmp(big.NewRat(low, 1)) < 0 || r.Cmp(big.NewRat(high, 1)) > 0 {
		rep.report(diag.Diagnostic{
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
func (rep *reporter) name(v *syntax.Value, field string, g grammar) bool {
	if v == nil {
		return false
	}
	if g.re.MatchString(v.Text) {
		return true
	}
	rep.report(diag.Diagnostic{
		Code:    diag.PlanSchema,
		Summary: fmt.Sprintf("`%s` is not a valid name: %s", field, quote(v.Text)),
		Detail:  "It is made of " + g.say + ".",
		Subject: v.Range(), Suggestion: g.mend(v.Text),
	})
	return false
}

// text bounds free text.
func (rep *reporter) text(v *syntax.Value, name string) {
	if v != nil && len(v.Text) > MaxText {
		rep.report(diag.Diagnostic{
			Code:    diag.PlanLimits,
			Summary: fmt.Sprintf("`%s` is too long", name),
			Detail:  fmt.Sprintf("It has %d bytes; at most %d are kept.", len(v.Text), MaxText),
			Subject: head(v),
		})
	}
}
