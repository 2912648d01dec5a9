package policy

import (
	"cmp"
	"fmt"
	"slices"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// Bounds of what follows while people have not approved, in milliseconds.
const (
	// MinRemindMS is the least time between two reminders. Less than usualRemindMS is
	// hardly meant.
	MinRemindMS   = 1000
	usualRemindMS = 60 * 1000
	// MaxFollowUpMS bounds both times: people are asked for 90 days at most.
	MaxFollowUpMS = 90 * 24 * 60 * 60 * 1000
)

// FollowUpFields are those of an approval, in a plan or a policy, that [ReadFollowUp] reads.
var FollowUpFields = []fields.Field{
	fields.Optional("remind_every_ms", fields.FormNumber, "the time between two reminders to those who have not signed, in milliseconds").Called("remind", "remind_every", "remind_after_ms"),
	fields.Optional("escalate_after_ms", fields.FormNumber, "the time after which the groups in `to` must sign, too, in milliseconds").Called("escalate", "escalate_after"),
	fields.Optional("to", fields.FormList, "the list of groups that must sign, too, after `escalate_after_ms`").Called("escalate_to"),
}

// ReadFollowUp reads what follows while people have not approved; groups are those that must
// sign from the beginning.
func ReadFollowUp(rep *fields.Reader, r *fields.Record, groups []plan.Group) (f plan.FollowUp) {
	every := r.Get("remind_every_ms")
	if n, ok := rep.Whole(every, "remind_every_ms", MinRemindMS, MaxFollowUpMS); ok {
		f.RemindEveryMS = n
		if n < usualRemindMS {
			rep.Report(diag.Diagnostic{
				Severity: diag.Warning, Code: diag.EffectPolicy, Summary: "people are reminded more often than once a minute", Detail: "The time is in milliseconds.", Subject: every.Range(),
			})
		}
	}
	after, to := r.Get("escalate_after_ms"), r.Get("to")
	given := func(name string) bool { return r.Has(name) || slices.Contains(r.Meant, name) }
	lacks := func(what, has string, at *syntax.Value) {
		rep.Report(diag.Diagnostic{
			Code: diag.EffectPolicy, Summary: fmt.Sprintf("`%s` is given without `%s`", has, what),
			Detail: "After `escalate_after_ms` the groups in `to` must sign, too: one is nothing without the other.", Subject: at.Range(),
		})
	}
	switch {
	case after != nil && !given("to"):
		lacks("to", "escalate_after_ms", after)
	case to != nil && !given("escalate_after_ms"):
		lacks("escalate_after_ms", "to", to)
	}
	n, ok := rep.Whole(after, "escalate_after_ms", 1, MaxFollowUpMS)
	for _, g := range readGroups(rep, to, "to") {
		f.To = append(f.To, plan.Group(g))
	}
	if !ok || len(f.To) == 0 {
		f.To = nil
		return f
	}
	f.EscalateAfterMS = n
	slices.SortFunc(f.To, func(a, b plan.Group) int { return cmp.Compare(a.Role, b.Role) })
	if slices.Equal(plan.Most(groups, nil), plan.Most(groups, f.To)) {
		rep.Report(diag.Diagnostic{
			Code: diag.EffectPolicy, Summary: "the escalation asks nobody who is not asked from the beginning",
			Detail: "`to` names other roles than `groups`, or more persons of a role.", Subject: to.Range(),
		})
	}
	return f
}
