package ledgertest

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
)

// subjects: what a run about a person states is sealed, whole, and once the
// person is erased neither the log nor the tables beside it say it; nor does what
// the run states after that.
func subjects(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	key := Key(t)
	about := run()
	about.Subject, about.Requester = "erika@example.com", "Erika"
	told := json.RawMessage(`{"kind":"tool_error","message":"Erika is not in"}`)
	for range 2 {
		require.NoError(t, s.OpenRun(ctx, about))
		require.NoError(t, s.RecordOutcomes(ctx, "w", "r1", []ledger.Outcome{
			{Node: "a", Kind: ledger.NodeFailed, Activity: "crm/find", Attempts: 2, InputDigest: digest("Erika"), OutputDigest: digest("found"), Error: told},
		}))
		a := Ask("i-1", "action")
		a.Task.Description = "write to Erika"
		_, err := s.Authorize(ctx, about, a, Rule(ledger.Approve))
		require.NoError(t, err)
		require.NoError(t, s.RecordApproval(ctx, about, ledger.Approval{ID: "a-1", Barrier: "b", Accepted: true, Envelope: json.RawMessage(`{"to":"Erika"}`)}))
	}
	other := run()
	other.Root, other.Origin = "other", "other"
	require.NoError(t, s.OpenRun(ctx, other))
	// A run that goes on with another is about the same person.
	next := run()
	next.Root = "r2"
	require.NoError(t, s.OpenRun(ctx, next))

	Drain(t, s, key)
	m := Replay(t, s)
	Same(t, s, m)
	require.Equal(t, "Erika", m.Runs[about.Chain()].Requester, "who has the key reads it")
	quiet := func(chain string, sealed bool) {
		t.Helper()
		records, err := s.Chain(ctx, chain, 0, 1000)
		require.NoError(t, err)
		require.NotEmpty(t, records)
		for _, r := range records {
			e, err := ledger.DecodeEntry(r.Bytes)
			require.NoError(t, err)
			stored, err := s.Stored(ctx, e.Body)
			require.NoError(t, err)
			_, is := ledger.Sealed(stored)
			require.Equal(t, sealed, is, e.Key)
			if !sealed {
				continue
			}
			for _, name := range []string{"input", "output", "action"} {
				require.Empty(t, e.Ref(name), "digests of what can be guessed stay in the body: %s", e.Key)
			}
			require.NotContains(t, string(r.Bytes), "rika")
		}
	}
	quiet(about.Chain(), true)
	quiet(next.Chain(), true)
	quiet(other.Chain(), false)

	require.NoError(t, s.PlaceLegalHold(ctx, next.Chain(), "case"))
	require.ErrorIs(t, s.EraseSubject(ctx, about.Subject, "asked"), ledger.ErrConflict)
	require.NoError(t, s.LiftLegalHold(ctx, next.Chain(), "closed"))
	require.NoError(t, s.EraseSubject(ctx, about.Subject, "asked"))

	nothing := func() {
		t.Helper()
		for _, root := range []string{"r1", "r2"} {
			r, err := s.Run(ctx, "w", root)
			require.NoError(t, err)
			require.Empty(t, r.Requester)
			require.Empty(t, r.InputDigest)
			require.Empty(t, r.OutputDigest)
			require.Empty(t, r.Failure)
			require.Equal(t, "pay", r.PlanName)
			outcomes, err := s.Outcomes(ctx, "w", root, everything)
			require.NoError(t, err)
			for _, o := range outcomes {
				require.Empty(t, o.Error)
				require.Empty(t, o.InputDigest)
				require.Empty(t, o.OutputDigest)
			}
			for _, d := range bodiesOf(t, s, ledger.RunChain("w", root)) {
				_, err := s.Body(ctx, d)
				require.ErrorIs(t, err, ledger.ErrGone)
			}
		}
		_, err := s.Decision(ctx, "i-1/1")
		require.ErrorIs(t, err, ledger.ErrNotFound)
		_, err = s.Task(ctx, "i-1/1")
		require.ErrorIs(t, err, ledger.ErrNotFound)
		approvals, err := s.Approvals(ctx, "b", everything)
		require.NoError(t, err)
		require.Empty(t, approvals)
	}
	nothing()

	// Nothing is judged for it again: the tables do not know what was before, or
	// whether an approval was used up.
	for _, accepted := range []bool{true, false} {
		require.ErrorIs(t, s.RecordApproval(ctx, about, ledger.Approval{ID: "a-1", Barrier: "b", Accepted: accepted}), ledger.ErrGone)
	}
	_, err := permitted(ctx, s, about, Ask("i-2", "action"))
	require.ErrorIs(t, err, ledger.ErrGone)
	nothing()

	signed := ledger.Order{Kind: ledger.RunPaused, N: 1, Signed: json.RawMessage(`{"payload":"e30=","payloadType":"t","signatures":[]}`)}
	require.ErrorIs(t, s.RecordOrder(ctx, "w", "r1", signed), ledger.ErrGone, "whether it has counted is not known")

	// It still runs, and what it states now nobody can read either.
	require.NoError(t, s.OpenRun(ctx, about), "the same again")
	require.NoError(t, s.RecordOutcomes(ctx, "w", "r1", []ledger.Outcome{{Node: "b", Kind: ledger.NodeFailed, InputDigest: digest("Erika"), Error: told}}))
	about.State, about.Failure, about.OutputDigest = ledger.RunFailed, told, digest("Erika")
	for i := range 2 {
		have, stood, err := s.CloseRun(ctx, about, nil)
		require.NoError(t, err)
		require.Equal(t, i > 0, stood)
		require.Equal(t, ledger.RunFailed, have.State)
		require.Empty(t, have.Failure)
		require.Empty(t, have.OutputDigest)
	}
	again := run()
	again.Root, again.Origin, again.Subject = "r3", "r1", about.Subject // as a reset begins it
	require.NoError(t, s.OpenRun(ctx, again))
	require.NoError(t, s.RecordOutcomes(ctx, "w", "r3", []ledger.Outcome{{Node: "b", Kind: ledger.NodeFailed, Error: told}}))
	nothing()
	quiet(about.Chain(), true)
	quiet(again.Chain(), true)
	for _, d := range bodiesOf(t, s, again.Chain()) {
		_, err := s.Body(ctx, d)
		require.ErrorIs(t, err, ledger.ErrGone)
	}
	require.ErrorIs(t, s.EraseSubject(ctx, about.Subject, "again"), ledger.ErrNotFound, "no key was made for it")
	outcomes, err := s.Outcomes(ctx, "w", "r1", everything)
	require.NoError(t, err)
	require.Len(t, outcomes, 2)
	require.Equal(t, "crm/find", outcomes[0].Activity, "what is no secret of a person stays")

	// Another run about the same person begins anew.
	fresh := run()
	fresh.Root, fresh.Origin, fresh.Subject = "r4", "r4", about.Subject
	require.NoError(t, s.OpenRun(ctx, fresh))
	raw, err := s.Body(ctx, bodiesOf(t, s, fresh.Chain())[0])
	require.NoError(t, err)
	require.Contains(t, string(raw), "alice")

	Drain(t, s, key)
	m = Replay(t, s)
	Same(t, s, m)
	require.Equal(t, 1, m.Erased)
	require.NotContains(t, m.Runs, about.Chain())
	require.Contains(t, m.Runs, fresh.Chain())
}
