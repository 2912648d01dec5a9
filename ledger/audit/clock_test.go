package audit_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/trust"
)

// TestStrayTimes: an entry with a time of its own, far from those around it, hides nothing that
// was made later than it says, makes nothing late that was not, and is named.
func TestStrayTimes(t *testing.T) {
	far := ledger.At(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
	long := ledger.At(time.Unix(0, 0))
	hours := func(of tale, n int) {
		for _, x := range of.all(ledger.RunChain("late", "r")) {
			x.At = ledger.At(x.At.Time().Add(time.Duration(n) * time.Hour))
		}
	}
	for name, c := range map[string]struct {
		do   func(t *testing.T, of tale) tale
		says string
		// named is the beginning of the time of the entry that is named.
		named string
	}{
		"before the revocation": {func(t *testing.T, of tale) tale {
			hours(of, 3)
			of = moved(t, of, ledger.PlanPublished, atTheEnd)
			return slices.Insert(of, 1, stray(t, of, far))
		}, "by ann, who was revoked at", "9999-"},
		"two of them before the revocation": {func(t *testing.T, of tale) tale {
			hours(of, 3)
			of = moved(t, of, ledger.PlanPublished, atTheEnd)
			return slices.Insert(of, 1, stray(t, of, far), stray(t, of, far))
		}, "by ann, who was revoked at", "9999-"},
		"the revocation itself": {func(t *testing.T, of tale) tale {
			hours(of, 3)
			of = moved(t, of, ledger.PlanPublished, atTheEnd)
			of[last(of, ledger.AuthorityStated)].At = far
			return of
		}, "by ann, who was revoked at", "9999-"},
		"the revocation long ago, after an honest plan": {func(t *testing.T, of tale) tale {
			of[last(of, ledger.AuthorityStated)].At = long
			return of
		}, "", "1970-"},
		"between the revocation and a plan that was on its way": {func(t *testing.T, of tale) tale {
			plan := of.first(t, ledger.PlanPublished)
			at := last(of, ledger.AuthorityStated)
			x := of[plan]
			of = slices.Insert(slices.Clone(of), at+1, stray(t, of, far), x)
			return slices.Delete(of, plan, plan+1)
		}, "", "9999-"},
		"long before those around it": {func(t *testing.T, of tale) tale {
			return slices.Insert(of, len(of)-1, stray(t, of, long))
		}, "", "1970-"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDeployment(t)
			d.publish(t, "a", d.author, nil)
			d.state(t, &trust.RevokePublisher{ID: "ann"})
			d.start(t, "late", nil, nil)
			d.drain(t)
			require.Empty(t, d.finds(t, "", "").Warnings)
			d.tell(t, c.do(t, d.tale(t)))
			r := d.finds(t, audit.BadAuthority, c.says)
			require.True(t, slices.ContainsFunc(r.Warnings, func(p audit.Problem) bool {
				return p.Kind == audit.BadTime && p.Index >= 0 && strings.Contains(p.Message, "an entry is of "+c.named)
			}), "%v", r.Warnings)
		})
	}
}

// stray is an entry of a time, about which nothing else is wrong.
func stray(t *testing.T, of tale, at ledger.Time) *scene {
	x := of.new(t, "snapshots/s", ledger.SnapshotTaken, "0", ledger.Snapshot{Server: "s"})
	x.Chain = ledger.SnapshotsChain(strings.Repeat("s", len(of)))
	x.At = at
	return x
}

// last finds the last entry of a kind.
func last(of tale, kind ledger.Kind) (at int) {
	for i, x := range of {
		if x.Kind == kind {
			at = i
		}
	}
	return at
}
