package ledgertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// grants: a start grant opens one run of a workflow id, and what goes on with it,
// whoever comes at the same time.
func grants(t *testing.T, open Open) {
	s := open(t)
	ctx := t.Context()
	first := run()
	first.Grant, first.GrantDigest = []byte(`{"payload":"x"}`), digest("grant")
	require.NoError(t, s.OpenRun(ctx, first))
	require.NoError(t, s.OpenRun(ctx, first), "again")
	have, err := s.Run(ctx, first.Workflow, first.Root)
	require.NoError(t, err)
	require.Equal(t, first.GrantDigest, have.GrantDigest)
	require.JSONEq(t, string(first.Grant), string(have.Grant))

	bare := first
	bare.Grant, bare.GrantDigest = nil, ""
	require.NoError(t, s.OpenRun(ctx, bare), "who states an outcome does not know the grant")
	other := first
	other.GrantDigest = digest("another grant")
	require.ErrorIs(t, s.OpenRun(ctx, other), ledger.ErrConflict)

	replay := first
	replay.Root, replay.Origin = "r2", "r2"
	err = s.OpenRun(ctx, replay)
	require.ErrorIs(t, err, ledger.ErrConflict)
	require.ErrorContains(t, err, "the start grant has opened the run r1")
	reset := first
	reset.Root = "r3"
	require.NoError(t, s.OpenRun(ctx, reset), "a reset goes on with it")
	replay.GrantDigest = digest("another grant")
	require.NoError(t, s.OpenRun(ctx, replay), "a new one is no replay")

	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		r := first
		r.Workflow, r.Root = "race", fmt.Sprintf("r%d", i)
		r.Origin = r.Root
		all.Go(func() { errs[i] = s.OpenRun(ctx, r) })
	}
	all.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
		} else {
			require.ErrorIs(t, err, ledger.ErrConflict)
			require.False(t, errors.Is(err, ledger.ErrUnavailable))
		}
	}
	require.Equal(t, 1, won)
	Drain(t, s, Key(t))
	m := Replay(t, s)
	Same(t, s, m)

	// A log that tells of a replay is impossible.
	twice, err := s.Run(ctx, first.Workflow, first.Root)
	require.NoError(t, err)
	twice.Root, twice.Origin = "r9", "r9"
	raw, err := json.Marshal(twice)
	require.NoError(t, err)
	v, err := schemas.Decode(raw)
	require.NoError(t, err)
	data, err := plan.Canonical(v)
	require.NoError(t, err)
	e := &ledger.Entry{Chain: twice.Chain(), Kind: ledger.RunOpened, Body: digest("body"), Agent: twice.Agent, Plan: twice.PlanDigest}
	require.ErrorContains(t, m.Apply(e, ledger.Hash{}, data), "its start grant has opened another run")
}
