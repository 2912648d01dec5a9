package approval_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// escalating returns a request of one person of finance, to which after half an hour one of
// legal is added, as its barrier stands. People sign at noon, half an hour after that.
func (w *world) escalating(escalated bool) (*approval.Request, string, ledger.Barrier) {
	w.t.Helper()
	r, _ := w.request(func(r *approval.Request) {
		r.Rule.Groups = []plan.Group{{Role: "finance", Min: 1}}
		r.Rule.FollowUp = plan.FollowUp{RemindEveryMS: 60_000, EscalateAfterMS: (30 * time.Minute).Milliseconds(), To: []plan.Group{{Role: "legal", Min: 1}}}
	})
	raw, err := r.Encode()
	require.NoError(w.t, err)
	at := minutes(-30)
	b := ledger.Barrier{ID: r.Barrier, Request: raw, EscalatesAt: &at}
	if escalated {
		b.EscalatedAt = &at
	}
	r, digest, err := approval.Of(&b)
	require.NoError(w.t, err)
	return r, digest, b
}

// TestEscalation: the groups of an escalation count, and must be met, once the ledger has it,
// and not before.
func TestEscalation(t *testing.T) {
	w := newWorld(t, trust.Dev)
	early := func(p *approval.Payload) { p.Issued, p.NotBefore = minutes(-31), minutes(-32) }
	signed := func(r *approval.Request, digest, signer, role string, d approval.Decision, edit func(*approval.Payload)) (approval.Vote, error) {
		p := payload(r, digest, signer, role)
		if p.Decision = d; d == approval.Reject {
			p.Reason = "no"
		}
		if edit != nil {
			edit(&p)
		}
		return approval.Verify(w.state, r, digest, w.seal(p, signer), noon)
	}

	r, digest, _ := w.escalating(false)
	first, err := signed(r, digest, "ada", "finance", approval.Approve, early)
	require.NoError(t, err)
	require.True(t, r.Count([]approval.Vote{first}).Met(), "the first groups are enough before")
	v, err := signed(r, digest, "cleo", "legal", approval.Approve, early)
	refused(t, approval.Ineligible, "the role legal is asked from "+minutes(-30).String()+" on", v, err)
	v, err = signed(r, digest, "cleo", "legal", approval.Reject, nil)
	refused(t, approval.Ineligible, "the role legal is asked from", v, err)
	v, err = signed(r, digest, "dan", "intern", approval.Approve, early)
	refused(t, approval.Ineligible, "nobody asks for the role", v, err)
	// Whoever keeps the escalation from the ledger does not get by without it.
	v, err = signed(r, digest, "ada", "finance", approval.Approve, nil)
	refused(t, approval.NotValid, "the barrier had to be escalated at "+minutes(-30).String(), v, err)
	_, err = signed(r, digest, "ada", "finance", approval.Approve, func(p *approval.Payload) { p.Issued, p.NotBefore = minutes(-28), minutes(-32) })
	require.NoError(t, err, "clocks differ")
	_, err = signed(r, digest, "ada", "finance", approval.Reject, nil)
	require.NoError(t, err, "a rejection ends it whenever it comes")

	r, digest, _ = w.escalating(true)
	first, err = signed(r, digest, "ada", "finance", approval.Approve, early)
	require.NoError(t, err, "who has signed stays counted")
	require.Equal(t, []plan.Group{{Role: "legal", Min: 1}}, r.Count([]approval.Vote{first}).Missing)
	later, err := signed(r, digest, "cleo", "legal", approval.Approve, nil)
	require.NoError(t, err)
	require.Equal(t, []plan.Group{{Role: "finance", Min: 1}}, r.Count([]approval.Vote{later}).Missing, "an escalation replaces nobody")
	require.True(t, r.Count([]approval.Vote{first, later}).Met())
	_, err = signed(r, digest, "cleo", "legal", approval.Reject, nil)
	require.NoError(t, err)
}

// TestOf: a barrier that is not the request's is refused.
func TestOf(t *testing.T) {
	w := newWorld(t, trust.Dev)
	other := minutes(-29)
	for name, edit := range map[string]func(*ledger.Barrier){
		"another barrier":      func(b *ledger.Barrier) { b.ID = "other" },
		"another time":         func(b *ledger.Barrier) { b.EscalatesAt = &other },
		"it never escalates":   func(b *ledger.Barrier) { b.EscalatesAt = nil },
		"a request of nothing": func(b *ledger.Barrier) { b.Request = []byte(`{}`) },
	} {
		t.Run(name, func(t *testing.T) {
			_, _, b := w.escalating(true)
			edit(&b)
			_, _, err := approval.Of(&b)
			require.ErrorIs(t, err, approval.ErrInvalid)
		})
	}
	plain, _ := w.request()
	raw, err := plain.Encode()
	require.NoError(t, err)
	_, _, err = approval.Of(&ledger.Barrier{ID: plain.Barrier, Request: raw, EscalatedAt: &other})
	require.ErrorIs(t, err, approval.ErrInvalid, "a rule that does not escalate was")
	r, digest, err := approval.Of(&ledger.Barrier{ID: plain.Barrier, Request: raw})
	require.NoError(t, err)
	require.Equal(t, plan.DigestOf(raw), digest)
	require.False(t, r.Escalated)
	require.Nil(t, r.EscalatesAt())
}

// TestEscalationIsShown: the text says who is asked later, and when.
func TestEscalationIsShown(t *testing.T) {
	w := newWorld(t, trust.Dev)
	r, _, _ := w.escalating(false)
	text, digest, err := approval.Text(r, shown)
	require.NoError(t, err)
	require.Equal(t, r.Text, digest)
	require.Contains(t, text, "must sign:        1 of \"finance\"\nescalates:        \"2026-11-24T11:30:00.000Z\"\nthen must sign:   1 of \"legal\"\n")
	r.Rule.FollowUp = plan.FollowUp{}
	text, _, err = approval.Text(r, shown)
	require.NoError(t, err)
	require.NotContains(t, text, "escalates")
}
