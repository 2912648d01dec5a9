package fields

import (
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
)

// Word reads an enumeration. It returns "" if v is absent or not in the set.
func (rep *Reader) Word(v *syntax.Value, name string, set []string) string {
	if v == nil {
		return ""
	}
	if slices.Contains(set, v.Text) {
		return v.Text
	}
	d := diag.Diagnostic{
		Code: diag.PlanSchema, Summary: fmt.Sprintf("`%s` is %s, not %s", name, Either(set), Quote(v.Text)),
		Subject: v.Range(), Suggestion: rep.Near(v.Text, set),
	}
	if d.Suggestion != "" {
		d.Edits = rep.Replace(v.Range(), d.Suggestion)
		if onlySlip(v.Text, d.Suggestion, set) {
			d.Applicability = diag.Certain
		}
	}
	rep.Report(d)
	return ""
}

// Either formats a set for a sentence: "`a`, `b` or `c`".
func Either(set []string) string {
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

// Whole reads a whole number within [low, high]. ok is false if v is absent or
// was refused.
func (rep *Reader) Whole(v *syntax.Value, name string, low, high int64) (n int64, ok bool) {
	if v == nil {
		return 0, false
	}
	r := Number(v)
	if r == nil || !r.IsInt() {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("`%s` is a whole number, not %s", name, Quote(v.Text)),
			Subject: v.Range(),
		})
		return 0, false
	}
	if r.Cmp(big.NewRat(low, 1)) < 0 || r.Cmp(big.NewRat(high, 1)) > 0 {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("`%s` is out of range: %s", name, Quote(v.Text)),
			Detail: fmt.Sprintf("It lies between %d and %d.", low, high), Subject: v.Range(),
		})
		return 0, false
	}
	return r.Num().Int64(), true
}

// Number returns the exact value of a number: see [Rat].
func Number(v *syntax.Value) *big.Rat { return Rat(v.Text) }

// Rat returns the exact value of a JSON number, or nil if it is none, or if its
// literal or its exponent is larger than any number of the language needs.
func Rat(text string) *big.Rat {
	const longest = 64
	if len(text) > longest || strings.IndexFunc(text, func(c rune) bool { return !strings.ContainsRune("+-.0123456789eE", c) }) >= 0 {
		return nil
	}
	if i := strings.IndexAny(text, "eE"); i >= 0 && len(text)-i > 4 {
		return nil
	}
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil
	}
	return r
}

// Grammar is the rule for one sort of name.
type Grammar struct {
	// Re matches the whole of a name.
	Re *regexp.Regexp
	// Say completes "… is made of".
	Say string
}

// Names of the plan language, the catalog, the policy bundle and causal models.
var (
	PlanNames       = Grammar{regexp.MustCompile(`^[a-z0-9-]{1,63}$`), "1 to 63 lower-case letters, digits and hyphens"}
	Versions        = Grammar{regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+-]{0,63}$`), "1 to 64 letters, digits, `.`, `+` and `-`, such as 1.2.0"}
	AgentNames      = Grammar{regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._:@/-]{0,127}$`), "1 to 128 letters, digits and `. _ : @ / -`"}
	NodeIDs         = Grammar{regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z_-]{0,62}$`), "1 to 63 letters, digits, `_` and `-`, and does not start with `-`"}
	ProviderNames   = Grammar{regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]{0,127}$`), "1 to 128 letters, digits, `.`, `_` and `-`"}
	OperationNames  = Grammar{regexp.MustCompile(`^[!-~]{1,128}$`), "1 to 128 visible ASCII characters"}
	Operations      = Grammar{regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]{0,127}/[!-~]{1,128}$`), "a provider, `/` and an operation, such as mail/send"}
	AdapterIDs      = Grammar{regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z._/@-]{0,127}$`), "1 to 128 letters, digits and `. _ / @ -`, and does not start with one of `. / @ -`"}
	DefinitionNames = Grammar{regexp.MustCompile(`^[0-9A-Za-z_][0-9A-Za-z_.-]{0,127}$`), "1 to 128 letters, digits, `_`, `.` and `-`"}
	RoleNames       = Grammar{regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._:@/-]{0,127}$`), "1 to 128 letters, digits and `. _ : @ / -`"}
	PersonIDs       = Grammar{regexp.MustCompile(`^[0-9a-z._@-]{1,256}$`), "1 to 256 small letters, digits and `. _ @ -`"}
	Fingerprints    = Grammar{regexp.MustCompile(`^sha256:[0-9a-f]{64}$`), "`sha256:` and 64 hex digits"}
	Currencies      = Grammar{regexp.MustCompile(`^[A-Z]{3}$`), "three capital letters (ISO 4217)"}
)

// Fix returns a valid name that differs only in wrong characters, or "".
func (g Grammar) Fix(name string) string {
	for _, other := range []string{strings.ToLower(name), strings.ToUpper(name), strings.Join(strings.Fields(name), "-"), strings.ToLower(strings.Join(strings.Fields(name), "-")), strings.NewReplacer(".", "_", " ", "_").Replace(name)} {
		if other != name && g.Re.MatchString(other) {
			return other
		}
	}
	return ""
}

// Name checks v against a grammar and reports whether it fits. A nil v does not.
func (rep *Reader) Name(v *syntax.Value, field string, g Grammar) bool {
	if v == nil {
		return false
	}
	if g.Re.MatchString(v.Text) {
		return true
	}
	d := diag.Diagnostic{
		Code: diag.PlanSchema, Summary: fmt.Sprintf("`%s` is not a valid name: %s", field, Quote(v.Text)),
		Detail: "It is made of " + g.Say + ".", Subject: v.Range(), Suggestion: g.Fix(v.Text),
	}
	d.Edits = rep.Replace(v.Range(), d.Suggestion)
	rep.Report(d)
	return false
}

// Named returns the text of a name that fits a grammar, or "": see [Reader.Name].
func (rep *Reader) Named(v *syntax.Value, field string, g Grammar) string {
	if !rep.Name(v, field, g) {
		return ""
	}
	return v.Text
}

// Bounded returns free text, and reports text that is too long. It returns "" for nil.
func (rep *Reader) Bounded(v *syntax.Value, name string) string {
	if v == nil {
		return ""
	}
	if len(v.Text) > MaxText {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("`%s` is too long", name),
			Detail: fmt.Sprintf("It has %d bytes; at most %d are kept.", len(v.Text), MaxText), Subject: Head(v),
		})
	}
	return v.Text
}

// Fixed checks a field that has one possible value.
func (rep *Reader) Fixed(r *Record, name, want string) {
	if v := r.Get(name); v != nil && v.Text != want {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("`%s` is `%s`, not %s", name, want, Quote(v.Text)),
			Subject: v.Range(), Suggestion: want, Edits: rep.Replace(v.Range(), want), Applicability: diag.Certain,
		})
	}
}

// Texts returns the strings of a list and reports everything else in it.
func (rep *Reader) Texts(v *syntax.Value, name string) []*syntax.Value {
	if v == nil {
		return nil
	}
	var out []*syntax.Value
	seen := map[string]bool{}
	for _, item := range v.Items {
		switch {
		case item.Kind != syntax.String:
			rep.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("`%s` is a list of strings, and this is %s", name, KindOf(item)),
				Subject: item.Range(),
			})
		case seen[item.Text]:
			rep.Report(diag.Diagnostic{
				Code: diag.PlanDuplicateID, Summary: fmt.Sprintf("%s stands twice in `%s`", Quote(item.Text), name),
				Subject: item.Range(),
			})
		default:
			seen[item.Text] = true
			out = append(out, item)
		}
	}
	return out
}

// AtMost returns the first entries, and reports if there are more.
func (rep *Reader) AtMost(items []*syntax.Value, most int, name string) []*syntax.Value {
	if len(items) <= most {
		return items
	}
	rep.Report(diag.Diagnostic{
		Code: diag.PlanLimits, Summary: fmt.Sprintf("`%s` has %d entries", name, len(items)),
		Detail: fmt.Sprintf("It has at most %d.", most), Subject: Head(items[most]),
	})
	return items[:most]
}

// Single parses a file of one document, or returns nil.
func (rep *Reader) Single(what string, limits syntax.Limits) *syntax.Value {
	docs, ds := syntax.Parse(rep.Src.Name, rep.Src.Text, limits)
	for _, d := range ds {
		rep.Report(d)
	}
	if ds.HasErrors() {
		return nil
	}
	if len(docs) == 0 {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanSyntax, Summary: "the file holds no " + what,
			Subject: diag.Range{File: rep.Src.Name, Start: diag.Pos{Line: 1, Column: 1}, End: diag.Pos{Line: 1, Column: 1}},
		})
		return nil
	}
	if len(docs) > 1 {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanSyntax, Summary: fmt.Sprintf("the file holds %d documents", len(docs)),
			Detail: fmt.Sprintf("A %s is one document.", what), Subject: Head(docs[1].Root),
		})
	}
	return docs[0].Root
}

// APIVersion is what every document of the language says.
const APIVersion = "chimera/v1"

// Closed sets of words.
var (
	ProviderTypes = []string{"skill", "mcp"}
	Modes         = []string{"prob", "deter"}
	EffectClasses = []string{"pure", "staged", "committing", "irreversible"}
	TrustStates   = []string{"allow_auto", "manual_review", "block"}
)

// Limits bounds a file before it is interpreted: it leaves room for a plan of
// 100,000 nodes with templates, or of a tenth of that without.
var Limits = syntax.Limits{
	Bytes:      64 << 20,
	Depth:      128,
	Nodes:      4_000_000,
	AliasNodes: 1_000_000,
}

// IsTrue reports whether v is there and true.
func IsTrue(v *syntax.Value) bool { return v != nil && v.Text == "true" }
