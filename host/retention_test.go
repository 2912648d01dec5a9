package host_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/audit"
	"chimera.ai/engine/store"
)

// owner gives the options of a store as the operator who owns it opens it.
func owner(o store.Options) store.Options {
	o.URL, _, _ = strings.Cut(o.URL, "&options=-c%20role")
	return o
}

// people is the ledger of a host as those have it who apply statements and publish plans.
func people(t *testing.T, h *host.Host, o store.Options) ledger.Store {
	t.Helper()
	if o.Driver != store.Postgres {
		return h.Store().Ledger
	}
	opened, err := store.Open(t.Context(), owner(o))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, opened.Close()) })
	return opened.Ledger
}

// TestRetention: the host that leads prunes what is older than the policy keeps
// it, but for what is under legal hold, and what is left still verifies.
func TestRetention(t *testing.T) {
	stage.Parallel(t)
	o := stores(t)["postgres, as the engine's role"](t)
	text := source("", []string{"a engine/pass 500"}, []string{"$input.x -> a.x"})
	h := stage.Host(t, host.Options{Store: o})
	var chains []string
	for range 2 {
		run := stage.Start(t, h.Client(), text, `{"x":1}`)
		require.NoError(t, stage.Await(t, h.Client(), run, nil))
		chains = append(chains, ledger.RunChain(run.GetID(), run.GetRunID()))
	}
	require.NoError(t, h.Close())
	operator, err := store.Open(t.Context(), owner(o))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, operator.Close()) })
	require.NoError(t, operator.Ledger.PlaceLegalHold(t.Context(), chains[1], "case 7"))

	h = stage.Host(t, host.Options{
		Store: o, Retention: ledger.Policy{ledger.Operational: time.Millisecond, ledger.Evidence: 1000 * time.Hour}, RetainEvery: 10 * time.Millisecond,
	})
	store := h.Store().Ledger
	present := func(chain string) (there, gone int) {
		records, err := store.Chain(t.Context(), chain, 0, 1000)
		require.NoError(t, err)
		for _, r := range records {
			e, err := ledger.DecodeEntry(r.Bytes)
			require.NoError(t, err)
			if e.Body == "" {
				continue
			}
			if _, err := store.Stored(t.Context(), e.Body); err == nil {
				there++
			} else {
				require.ErrorIs(t, err, ledger.ErrGone)
				gone++
			}
		}
		return there, gone
	}
	stage.Until(t, "the first run is pruned", func() bool { there, _ := present(chains[0]); return there == 0 })
	_, gone := present(chains[0])
	require.Equal(t, 3, gone, "run.opened, a, run.closed")
	there, gone := present(chains[1])
	require.Equal(t, 3, there, "what is under legal hold stays")
	require.Zero(t, gone)
	require.NoError(t, h.Close())

	dir := filepath.Join(t.TempDir(), "export")
	x, err := audit.Export(t.Context(), operator.Ledger, dir)
	require.NoError(t, err)
	require.EqualValues(t, 3, x.Missing)
	report, err := audit.Verify(dir, audit.Trust{Origin: operator.Key.Name(), Log: operator.Key.Public()}, nil)
	require.NoError(t, err)
	require.True(t, report.OK, report.Problems)
	require.EqualValues(t, 3, report.Missing)
	require.Equal(t, chains[1:], report.Held)
	require.Equal(t, 3, counted(report.Pruned))
	require.True(t, slices.ContainsFunc(report.Pruned, func(p ledger.PrunedData) bool { return p.Reason == "ledger.retention" }))
}

func counted(acts []ledger.PrunedData) (n int) {
	for _, a := range acts {
		n += a.Count
	}
	return n
}
