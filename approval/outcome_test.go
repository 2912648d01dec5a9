package approval_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/trust"
)

// asksOutcome makes a request one about what its first action did.
func asksOutcome(r *approval.Request) {
	r.Kind, r.Actions = approval.Outcome, r.Actions[:1]
	r.Actions[0].Permitted = minutes(-90)
}

// stating makes an attempt one that states what a call did.
func stating(d approval.Decision, reason string) func(*attempt) {
	return func(a *attempt) {
		a.ask(asksOutcome)
		a.payload.Decision, a.payload.Reason = d, reason
	}
}

// TestOutcome: a statement about a call answers a request for one, and nothing else does.
func TestOutcome(t *testing.T) {
	pass(t, map[string]func(*attempt){
		"executed":     stating(approval.Executed, "the bank has it"),
		"not executed": stating(approval.NotExecuted, "the bank does not have it"),
	})
	fail(t, []attack{
		{"without a reason", approval.Malformed, "has no reason", stating(approval.Executed, "  ")},
		{"an approval", approval.Malformed, "does not answer", stating(approval.Approve, "")},
		{"a rejection", approval.Malformed, "does not answer", stating(approval.Reject, "no")},
		{"of what nobody asks", approval.Malformed, "does not answer", func(a *attempt) {
			a.payload.Decision, a.payload.Reason = approval.Executed, "it was"
		}},
		{"for an approval", approval.Foreign, "", func(a *attempt) {
			approve := a.honest()
			a.ask(asksOutcome)
			a.envelope = approve
		}},
		{"about another call", approval.Foreign, "another request", func(a *attempt) {
			stating(approval.NotExecuted, "it was not")(a)
			a.envelope = a.honest()
			a.ask(func(r *approval.Request) {
				asksOutcome(r)
				r.Actions[0].Decision = "dec-9"
			})
		}},
		{"by who has asked for the run", approval.Excluded, "", func(a *attempt) {
			stating(approval.Executed, "I saw it")(a)
			a.by, a.payload.Signer = "rae", "rae"
		}},
		{"in a role that nobody asks for", approval.Ineligible, "", func(a *attempt) {
			stating(approval.Executed, "I saw it")(a)
			a.by, a.payload.Signer, a.payload.Role = "dan", "dan", "intern"
		}},
	})
}

// TestOutcomeRequests: a request asks about one call that was permitted.
func TestOutcomeRequests(t *testing.T) {
	w := newWorld(t, trust.Dev)
	for name, edit := range map[string]func(*approval.Request){
		"several actions":             func(r *approval.Request) { asksOutcome(r); r.Actions = append(r.Actions, r.Actions[0]) },
		"a call that was not made":    func(r *approval.Request) { r.Kind, r.Actions = approval.Outcome, r.Actions[:1] },
		"an approval of what is past": func(r *approval.Request) { r.Actions[0].Permitted = minutes(-90) },
		"another kind":                func(r *approval.Request) { asksOutcome(r); r.Kind = "maybe" },
	} {
		r, _ := w.request()
		edit(r)
		_, err := r.Encode()
		require.ErrorIs(t, err, approval.ErrInvalid, name)
	}
}

// TestCountOutcome: enough people must say the same, and who contradicts them ends it.
func TestCountOutcome(t *testing.T) {
	w := newWorld(t, trust.Dev)
	r, _ := w.request(asksOutcome)
	vote := func(id, role string, d approval.Decision) approval.Vote {
		return approval.Vote{ID: id, Decision: d, Role: role, Persons: []string{id}}
	}
	ada, ben, cleo := vote("ada", "finance", approval.NotExecuted), vote("ben", "finance", approval.NotExecuted), vote("cleo", "legal", approval.NotExecuted)
	require.False(t, r.Count(nil).Met())
	require.False(t, r.Count([]approval.Vote{ada, cleo}).Met())
	tally := r.Count([]approval.Vote{ada, ben, cleo})
	require.True(t, tally.Met())
	require.Equal(t, approval.NotExecuted, tally.Decision)
	require.Equal(t, []string{"ada", "ben", "cleo"}, tally.Counted)
	_, ends := r.Objection([]approval.Vote{ada, ben, cleo})
	require.False(t, ends)
	ben.Decision = approval.Executed
	require.False(t, r.Count([]approval.Vote{ada, ben, cleo}).Met())
	against, ends := r.Objection([]approval.Vote{ada, ben, cleo})
	require.True(t, ends)
	require.Equal(t, "ben", against.ID)
	// Approvals answer nothing, and statements approve nothing.
	ada.Decision, ben.Decision, cleo.Decision = approval.Approve, approval.Approve, approval.Approve
	require.False(t, r.Count([]approval.Vote{ada, ben, cleo}).Met())
	r.Kind = approval.Approval
	require.True(t, r.Count([]approval.Vote{ada, ben, cleo}).Met())
	ada.Decision, ben.Decision, cleo.Decision = approval.Executed, approval.Executed, approval.Executed
	require.False(t, r.Count([]approval.Vote{ada, ben, cleo}).Met())
}
