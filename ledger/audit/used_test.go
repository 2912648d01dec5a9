package audit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
)

// TestApprovalsAreUsedOnce: the audit finds an approval that was used for a second invocation,
// with a decision of its own or without one.
func TestApprovalsAreUsedOnce(t *testing.T) {
	base := newWorld(t)
	// again repeats the first entry of a kind, under another key.
	again := func(t *testing.T, of tale, kind ledger.Kind, key string) *scene {
		x := *of[of.first(t, kind)]
		e := *x.Entry
		e.Key = string(kind) + "/" + key
		x.Entry = &e
		return &x
	}
	used := func(t *testing.T, of tale, decision, invocation string) *scene {
		x := again(t, of, ledger.ApprovalConsumed, decision)
		changed(t, x, func(c *ledger.ConsumedData) { c.Decision, c.Invocation = decision, invocation })
		return x
	}
	for name, c := range map[string]struct {
		more  func(t *testing.T, of tale) tale
		twice bool
	}{
		"by the same invocation": {func(t *testing.T, of tale) tale {
			var first ledger.ConsumedData
			changed(t, of[of.first(t, ledger.ApprovalConsumed)], func(c *ledger.ConsumedData) { first = *c })
			return tale{used(t, of, "again", first.Invocation)}
		}, false},
		"by another invocation": {func(t *testing.T, of tale) tale { return tale{used(t, of, "j/1", "j")} }, true},
		"by another invocation, by a decision about that": {func(t *testing.T, of tale) tale {
			d := again(t, of, ledger.DecisionMade, "j/1")
			changed(t, d, func(d *ledger.Decision) { d.ID, d.Invocation = "j/1", "j" })
			return tale{d, used(t, of, "j/1", "j")}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := *base
			w.export(t)
			of := w.tale(t)
			w.tell(t, slices.Insert(of, of.first(t, ledger.ApprovalConsumed)+1, c.more(t, of)...))
			r := w.verify(t, nil)
			found := slices.ContainsFunc(r.Problems, func(p audit.Problem) bool {
				return p.Kind == audit.BadStory && strings.Contains(p.Message, "(approval.consumed)") && strings.Contains(p.Message, "is used up")
			})
			require.Equal(t, c.twice, found, "%v", r.Problems)
		})
	}
}
