package catalog

import (
	"fmt"
	"math/big"
	"slices"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// Retryable are the kinds that `on` may hold.
func Retryable() []string {
	out := make([]string, 0, len(RetriedKinds)+2)
	for _, k := range RetriedKinds {
		out = append(out, string(k))
	}
	return append(out, string(contract.ToolError), string(contract.InvalidOutput))
}

// ReadRetry reads a retry policy. On stays nil where it was left out: the
// default depends on the node's mode, which a template may give.
func ReadRetry(rep *fields.Reader, v *syntax.Value) plan.Retry {
	retry := plan.Retry{InitialMS: DefaultInitialMS, MultiplierMilli: DefaultMultiplierMilli, MaxMS: DefaultMaxMS}
	r := rep.Read(v, RetryFields, "")
	n, counted := rep.Whole(r.Get("max_retries"), "max_retries", 0, MaxRetries)
	initial, hasInitial := rep.Whole(r.Get("initial_ms"), "initial_ms", 1, MaxBackoffMS)
	longest, hasLongest := rep.Whole(r.Get("max_ms"), "max_ms", 1, MaxBackoffMS)
	if hasInitial {
		retry.InitialMS = initial
		retry.MaxMS = max(retry.MaxMS, initial)
	}
	if hasLongest {
		retry.MaxMS = longest
		if longest < retry.InitialMS {
			if hasInitial {
				rep.Report(diag.Diagnostic{
					Code: diag.PlanLimits, Summary: "`max_ms` is smaller than `initial_ms`",
					Detail:  fmt.Sprintf("The first wait is %d ms, so the longest is at least that.", initial),
					Subject: r.Get("max_ms").Range(), Context: r.Get("initial_ms").Range(),
				})
			}
			retry.InitialMS = longest
		}
	}
	if m := r.Get("multiplier"); m != nil {
		if milli, ok := Milli(rep, m, "multiplier", MaxMultiplier); ok {
			retry.MultiplierMilli = milli
		}
	}
	if on := r.Get("on"); on != nil {
		retry.On = []contract.Kind{}
		for _, item := range rep.Texts(on, "on") {
			if retryKind(rep, item) {
				retry.On = append(retry.On, contract.Kind(item.Text))
			}
		}
		slices.Sort(retry.On)
	}
	if counted {
		retry.MaxAttempts = int(n) + 1
	}
	return retry
}

func retryKind(rep *fields.Reader, v *syntax.Value) bool {
	set := Retryable()
	if slices.Contains(set, v.Text) {
		return true
	}
	d := diag.Diagnostic{
		Code: diag.PlanSchema, Summary: fmt.Sprintf("%s is not a kind of error", fields.Quote(v.Text)),
		Detail: "`on` may hold " + fields.Either(set) + ".", Subject: v.Range(), Suggestion: rep.Near(v.Text, set),
	}
	if contract.Kind(v.Text).Valid() {
		d.Summary = fmt.Sprintf("errors of kind %s are never retried", fields.Quote(v.Text))
		d.Suggestion = ""
	}
	d.Edits = rep.Replace(v.Range(), d.Suggestion)
	rep.Report(d)
	return false
}

// Milli reads a factor of at least 1 with at most three decimals, in thousandths.
func Milli(rep *fields.Reader, v *syntax.Value, name string, high int64) (int64, bool) {
	r := fields.Number(v)
	switch {
	case r == nil || r.Cmp(big.NewRat(1, 1)) < 0 || r.Cmp(big.NewRat(high, 1)) > 0:
		rep.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("`%s` is out of range: %s", name, fields.Quote(v.Text)),
			Detail: fmt.Sprintf("It lies between 1 and %d.", high), Subject: v.Range(),
		})
		return 0, false
	}
	if r.Mul(r, big.NewRat(1000, 1)); !r.IsInt() {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("`%s` has more than three decimals: %s", name, fields.Quote(v.Text)), Subject: v.Range(),
		})
		return 0, false
	}
	return r.Num().Int64(), true
}

// RetryFields is the table of a retry policy.
var RetryFields = &fields.Table{What: "a `retry_policy`", Fields: []fields.Field{
	fields.Required("max_retries", fields.FormNumber, "the number of calls after the first"),
	fields.Optional("on", fields.FormList, "the list of error kinds that are retried"),
	fields.Optional("initial_ms", fields.FormNumber, "the wait before the first retry, in milliseconds"),
	fields.Optional("multiplier", fields.FormNumber, "the factor by which the wait grows"),
	fields.Optional("max_ms", fields.FormNumber, "the longest wait, in milliseconds"),
}}

// Bounds of a retry policy and of a time limit.
const (
	// MaxTimeoutMS bounds a node's timeout_ms: one day.
	MaxTimeoutMS = 24 * 60 * 60 * 1000
	// MaxRetries bounds retry_policy.max_retries.
	MaxRetries = 100
	// MaxBackoffMS bounds retry_policy.initial_ms and max_ms: one day.
	MaxBackoffMS = 24 * 60 * 60 * 1000
	// MaxMultiplier bounds retry_policy.multiplier, which has at most three decimals.
	MaxMultiplier = 100
)

// Defaults of a retry policy.
const (
	// DefaultInitialMS is retry_policy.initial_ms, the wait before the first retry.
	DefaultInitialMS = 500
	// DefaultMultiplierMilli is retry_policy.multiplier in thousandths.
	DefaultMultiplierMilli = 2000
	// DefaultMaxMS is retry_policy.max_ms, the longest wait between two calls.
	DefaultMaxMS = 60_000
)

// RetriedKinds are the kinds that a retry policy may name, and that a pure node
// retries where it names none: those that page "Error kinds" of the documents
// marks as retried for pure operations. invalid_output is retried for prob
// nodes only: asking again may give another answer.
var RetriedKinds = []contract.Kind{
	contract.Unsent, contract.Transport, contract.Timeout, contract.Throttled, contract.Auth, contract.ServerError,
}
