package registry_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
	"chimera.ai/engine/ledger/sqlite"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// later waits until the clock is past all rows.
func later(t *testing.T, rows []ledger.Tool) {
	require.Eventually(t, func() bool {
		return !slices.ContainsFunc(rows, func(x ledger.Tool) bool { return !ledger.At(time.Now()).Time().After(x.RegisteredAt.Time()) })
	}, time.Minute, time.Millisecond)
}

// TestServers: what servers said is registered once, beside their tools and those of other servers, and is
// no tool.
func TestServers(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) ledger.Store{
		"sqlite": func(t *testing.T) ledger.Store {
			s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "ledger.db"), Origin: ledgertest.Origin})
			require.NoError(t, err)
			return s
		},
		"postgres": func(t *testing.T) ledger.Store {
			o := postgres.Options{URL: pgtest.URL(t), Origin: ledgertest.Origin}
			_, err := postgres.Migrate(t.Context(), o)
			require.NoError(t, err)
			s, err := postgres.Open(t.Context(), o)
			require.NoError(t, err)
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t)
			t.Cleanup(func() { require.NoError(t, l.Close()) })
			ctx := t.Context()
			server := func(name, said string) catalog.Server {
				return catalog.Server{Name: name, Fingerprint: "sha256:" + strings.Repeat("0", 64), Initialize: json.RawMessage(said)}
			}
			all, err := registry.Servers(ctx, l)
			require.NoError(t, err)
			require.Empty(t, all)
			first, second := server("notes", `{"serverInfo":{"version":"1"}}`), server("notes", `{"serverInfo":{"version":"2"}}`)
			require.NoError(t, registry.Register(ctx, l, trust.State{}, imported(t, "read", "x", plan.Pure)))
			for _, s := range []catalog.Server{first, first, server("bank", `{"x":"\u202e"}`)} {
				require.NoError(t, registry.RegisterServer(ctx, l, s))
			}
			all, err = registry.Servers(ctx, l)
			require.NoError(t, err)
			require.Len(t, all, 2)
			require.Equal(t, []string{"bank", "notes"}, []string{all[0].Name, all[1].Name})
			require.JSONEq(t, string(first.Initialize), string(all[1].Initialize))
			require.Equal(t, first.Fingerprint, all[1].Fingerprint)

			before, err := l.ListTools(ctx, ledger.Page{Limit: 10})
			require.NoError(t, err)
			require.Len(t, before, 3)
			for _, row := range before {
				require.Equal(t, string(plan.Block), row.Status)
			}
			later(t, before)
			require.NoError(t, registry.RegisterServer(ctx, l, second))
			all, err = registry.Servers(ctx, l, "notes", "none")
			require.NoError(t, err)
			require.Len(t, all, 1)
			require.JSONEq(t, string(second.Initialize), string(all[0].Initialize))

			require.ErrorIs(t, registry.RegisterServer(ctx, l, server("notes", `[]`)), ledger.ErrInvalid)
			require.ErrorIs(t, registry.RegisterServer(ctx, l, server("notes", `{"x":"`+strings.Repeat("x", catalog.MaxInitialize)+`"}`)), ledger.ErrInvalid)
			templates, err := registry.Catalog(ctx, l, trust.State{})
			require.NoError(t, err)
			require.Empty(t, templates.Templates)
		})
	}
}
