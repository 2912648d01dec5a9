package audit_test

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/ledger/ledgertest"
)

// saga is a run whose effect the plan says how to undo.
type saga struct {
	*deployment
	t   *testing.T
	run ledger.Run
}

// act has an effect permitted and called, which ends in a state.
func (s *saga) act(id string, end ledger.InvocationState, of *ledger.Compensation) {
	s.t.Helper()
	got, err := s.store.Authorize(s.t.Context(), s.run, ledgertest.Ask(id, "action "+id), func(st ledger.Standing) (ledger.Ruling, error) {
		r, err := ledgertest.Rule(ledger.Approve)(st)
		r.Decision.Compensation = of
		return r, err
	})
	require.NoError(s.t, err)
	i, err := s.store.Claim(s.t.Context(), id, got.Decision.ID, "token", time.Minute)
	require.NoError(s.t, err)
	e := ledger.Effect{Token: "token", Settlement: ledger.Settlement{Attempt: i.Attempt, State: end}}
	if end == ledger.Settled {
		e.OutputDigest = ledger.BodyDigest([]byte(id))
	}
	_, err = s.store.Settle(s.t.Context(), id, e)
	require.NoError(s.t, err)
}

// failed has what was called answer with an error.
func (s *saga) failed(id string) {
	s.t.Helper()
	got, err := s.store.Authorize(s.t.Context(), s.run, ledgertest.Ask(id, "action "+id), ledgertest.Rule(ledger.Approve))
	require.NoError(s.t, err)
	i, err := s.store.Claim(s.t.Context(), id, got.Decision.ID, "token", time.Minute)
	require.NoError(s.t, err)
	_, err = s.store.Settle(s.t.Context(), id, ledger.Effect{Token: "token", Settlement: ledger.Settlement{Attempt: i.Attempt, State: ledger.Settled}})
	require.NoError(s.t, err)
}

// end ends the run, which says what it has undone.
func (s *saga) end(state ledger.RunState, compensated, not []string) {
	s.t.Helper()
	s.run.State = state
	var err error
	s.run.Failure, err = json.Marshal(map[string]any{"kind": "tool_error", "compensated": compensated, "not_compensated": not})
	require.NoError(s.t, err)
	_, _, err = s.store.CloseRun(s.t.Context(), s.run, nil)
	require.NoError(s.t, err)
}

// goesOn resets the run.
func (s *saga) goesOn() {
	s.t.Helper()
	s.run.Root, s.run.State, s.run.Failure = "r2", ledger.RunRunning, nil
	require.NoError(s.t, s.store.OpenRun(s.t.Context(), s.run))
}

// TestCompensations: a run that has failed has undone what it could, or says that it has not.
func TestCompensations(t *testing.T) {
	of := &ledger.Compensation{Node: "first", By: []string{"u"}, WithOutput: []string{"w"}}
	none := []string{}
	first := []string{"first"}
	for name, c := range map[string]struct {
		do       func(s *saga)
		says     string
		standing int
	}{
		"undone": {func(s *saga) {
			s.act("i", ledger.Settled, of)
			s.act("u", ledger.Settled, nil)
			s.end(ledger.RunFailed, first, none)
		}, "", 0},
		"undone with its output": {func(s *saga) {
			s.act("i", ledger.Settled, of)
			s.act("w", ledger.Settled, nil)
			s.end(ledger.RunCancelled, first, none)
		}, "", 0},
		"not undone, as it says": {func(s *saga) {
			s.act("i", ledger.Settled, of)
			s.end(ledger.RunFailed, none, first)
		}, "", 0},
		"undone by calls without effect": {func(s *saga) {
			s.act("i", ledger.Settled, &ledger.Compensation{Node: "first"})
			s.end(ledger.RunFailed, first, none)
		}, "", 0},
		"nothing has happened": {func(s *saga) {
			s.act("i", ledger.Released, of)
			s.end(ledger.RunFailed, none, none)
		}, "", 0},
		"it has succeeded": {func(s *saga) {
			s.act("i", ledger.Settled, of)
			s.end(ledger.RunSucceeded, none, none)
		}, "", 0},
		"nothing undoes it": {func(s *saga) {
			s.act("i", ledger.Settled, nil)
			s.end(ledger.RunFailed, none, none)
		}, "", 0},
		"left out": {func(s *saga) {
			s.act("i", ledger.Settled, of)
			s.end(ledger.RunFailed, none, none)
		}, "the run saga has ended as failed, and says neither that the effect of first was undone nor that it was not", 0},
		"left out when it was cancelled": {func(s *saga) {
			s.act("i", ledger.Unknown, of)
			s.end(ledger.RunCancelled, none, []string{"second"})
		}, "the run saga has ended as cancelled, and says neither", 0},
		"undone in words": {func(s *saga) {
			s.act("i", ledger.Settled, of)
			s.end(ledger.RunFailed, first, none)
		}, "says that the effect of first was undone, and nothing that undoes it has been done", 0},
		"undone before it happened": {func(s *saga) {
			s.act("u", ledger.Settled, nil)
			s.act("i", ledger.Settled, of)
			s.end(ledger.RunFailed, first, none)
		}, "nothing that undoes it has been done", 0},
		"undone by what has failed": {func(s *saga) {
			s.act("i", ledger.Settled, of)
			s.failed("u")
			s.end(ledger.RunFailed, first, none)
		}, "nothing that undoes it has been done", 0},
		"undone by what nobody knows of": {func(s *saga) {
			s.act("i", ledger.Settled, of)
			s.act("u", ledger.Unknown, nil)
			s.end(ledger.RunFailed, first, none)
		}, "nothing that undoes it has been done", 0},
		"undone with an output that is not known": {func(s *saga) {
			s.act("i", ledger.Unknown, of)
			s.act("w", ledger.Settled, nil)
			s.end(ledger.RunFailed, first, none)
		}, "nothing that undoes it has been done", 0},
		"undone by a run that goes on": {func(s *saga) {
			s.act("i", ledger.Settled, of)
			s.end(ledger.RunTerminated, none, none)
			s.goesOn()
			s.act("u", ledger.Settled, nil)
			s.end(ledger.RunFailed, first, none)
		}, "", 0},
		"succeeded after it was undone": {func(s *saga) {
			s.act("i", ledger.Settled, of)
			s.act("u", ledger.Settled, nil)
			s.end(ledger.RunFailed, first, none)
			s.goesOn()
			s.end(ledger.RunSucceeded, none, none)
		}, "", 0},
		"undone, and made without it": {func(s *saga) {
			s.act("i", ledger.Settled, of)
			s.act("u", ledger.Settled, nil)
			s.end(ledger.RunFailed, first, none)
			s.goesOn()
			require.NoError(s.t, s.store.RecordOutcomes(s.t.Context(), "saga", "r2", []ledger.Outcome{{Node: "first", Kind: ledger.NodeFailed}}))
			s.end(ledger.RunSucceeded, none, none)
		}, "", 0},
		"undone while it goes on": {func(s *saga) {
			s.act("i", ledger.Settled, of)
			s.act("u", ledger.Settled, nil)
			s.end(ledger.RunSucceeded, none, none)
		}, "", 0},
		"terminated":  {func(s *saga) { s.act("i", ledger.Settled, of); s.end(ledger.RunTerminated, none, none) }, "", 1},
		"timed out":   {func(s *saga) { s.act("i", ledger.Unknown, of); s.end(ledger.RunTimedOut, none, none) }, "", 1},
		"still going": {func(s *saga) { s.act("i", ledger.Settled, of) }, "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := &saga{newDeployment(t), t, ledger.Run{Workflow: "saga", Root: "r", Origin: "r", Agent: "bot", PlanDigest: ledger.BodyDigest(nil), InputDigest: ledger.BodyDigest(nil)}}
			require.NoError(t, s.store.OpenRun(t.Context(), s.run))
			c.do(s)
			s.drain(t)
			r := s.verify(t, nil)
			var found []string
			for _, p := range r.Problems {
				if p.Kind == audit.BadStory {
					found = append(found, p.Message)
				}
			}
			require.Equal(t, c.standing, r.Standing)
			warns := ""
			if name == "succeeded after it was undone" {
				warns = "the run saga has succeeded, and the effect of its node first was undone before: it was reset to after that"
			}
			saysOnly(t, r.Warnings, audit.BadStory, "", warns)
			if c.standing > 0 {
				var text bytes.Buffer
				require.NoError(t, r.WriteText(&text, time.Now()))
				require.Contains(t, text.String(), "1 effect not undone, of runs that ended without unwinding")
				require.Contains(t, text.String(), "not undone: first of saga, which was "+name)
			}
			if c.says == "" {
				require.Empty(t, found)
				return
			}
			require.Len(t, found, 1)
			require.Contains(t, found[0], c.says)
		})
	}
}
