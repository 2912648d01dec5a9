package registry_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/ledgertest"
	"chimera.ai/engine/ledger/postgres"
	"chimera.ai/engine/ledger/sqlite"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/trust"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// stores are the stores that have a registry, each empty.
var stores = map[string]func(t *testing.T) ledger.Store{
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
}

func server(name, said string) catalog.Server {
	return catalog.Server{Name: name, Fingerprint: "sha256:" + strings.Repeat("0", 64), Initialize: json.RawMessage(said)}
}

// TestServers: what servers said is registered once, beside their tools and those of other servers, and is
// no tool.
func TestServers(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			l := open(t)
			t.Cleanup(func() { require.NoError(t, l.Close()) })
			ctx := t.Context()
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
			require.NoError(t, registry.RegisterServer(ctx, l, second))
			all, err = registry.Servers(ctx, l, "notes", "none")
			require.NoError(t, err)
			require.Len(t, all, 1)
			require.JSONEq(t, string(second.Initialize), string(all[0].Initialize))

			for i, said := range []catalog.Server{first, first, second, first, second, second, first} {
				require.NoError(t, registry.RegisterServer(ctx, l, said))
				all, err = registry.Servers(ctx, l, "notes")
				require.NoError(t, err)
				require.Len(t, all, 1)
				require.JSONEq(t, string(said.Initialize), string(all[0].Initialize), "registration %d", i)
			}
			before, err = l.ListTools(ctx, ledger.Page{Limit: 20})
			require.NoError(t, err)
			require.Len(t, before, 4+5, "what was the last before is not registered again")

			// Where it was is kept beside it, and one introduction is not taken for the other.
			kept := first
			kept.Endpoint, kept.Place, kept.Templates = first.Fingerprint, json.RawMessage(`{"args":["a"]}`), json.RawMessage(`[]`)
			for _, said := range []catalog.Server{kept, server("notes", `{"endpoint":"","initialize":{"serverInfo":{}},"place":{},"resource_templates":null}`), kept, first} {
				require.NoError(t, registry.RegisterServer(ctx, l, said))
				all, err = registry.Servers(ctx, l, "notes")
				require.NoError(t, err)
				require.Equal(t, []catalog.Server{said}, all)
			}

			require.ErrorIs(t, registry.RegisterServer(ctx, l, server("notes", `[]`)), ledger.ErrInvalid)
			require.ErrorIs(t, registry.RegisterServer(ctx, l, server("notes", `{"x":"`+strings.Repeat("x", catalog.MaxInitialize)+`"}`)), ledger.ErrInvalid)
			templates, err := registry.Catalog(ctx, l, trust.State{})
			require.NoError(t, err)
			require.Empty(t, templates.Templates)
		})
	}
}

// TestRowsOfServersAreChecked: what no registration writes is passed over.
func TestRowsOfServersAreChecked(t *testing.T) {
	good := server("notes", `{"serverInfo":{"version":"1"}}`)
	digest := func(fingerprint, said, version string) string {
		v, err := schemas.Decode([]byte(said))
		require.NoError(t, err)
		all := map[string]any{"fingerprint": fingerprint, "initialize": v}
		if version != "" {
			all["version"] = version
		}
		raw, err := plan.Canonical(all)
		require.NoError(t, err)
		return plan.DigestOf(raw)
	}
	other := `{"serverInfo":{"version":"2"}}`
	for name, row := range map[string]ledger.Tool{
		"good":                {ToolID: "notes@" + digest(good.Fingerprint, other, "7"), Name: "notes", Version: "7", Fingerprint: good.Fingerprint, Schema: json.RawMessage(other)},
		"other digest":        {ToolID: "notes@" + digest(good.Fingerprint, "{}", "7"), Name: "notes", Version: "7", Fingerprint: good.Fingerprint, Schema: json.RawMessage(other)},
		"other fingerprint":   {ToolID: "notes@" + digest(good.Fingerprint, other, "7"), Name: "notes", Version: "7", Fingerprint: plan.DigestOf(nil), Schema: json.RawMessage(other)},
		"no fingerprint":      {ToolID: "notes@" + digest("x", other, "7"), Name: "notes", Version: "7", Fingerprint: "x", Schema: json.RawMessage(other)},
		"other version":       {ToolID: "notes@" + digest(good.Fingerprint, other, "7"), Name: "notes", Version: "8", Fingerprint: good.Fingerprint, Schema: json.RawMessage(other)},
		"no version":          {ToolID: "notes@" + digest(good.Fingerprint, other, "07"), Name: "notes", Version: "07", Fingerprint: good.Fingerprint, Schema: json.RawMessage(other)},
		"other name":          {ToolID: "notes@" + digest(good.Fingerprint, other, "7"), Name: "bank", Version: "7", Fingerprint: good.Fingerprint, Schema: json.RawMessage(other)},
		"not an introduction": {ToolID: "notes@" + digest(good.Fingerprint, "[]", "7"), Name: "notes", Version: "7", Fingerprint: good.Fingerprint, Schema: json.RawMessage("[]")},
	} {
		t.Run(name, func(t *testing.T) {
			l := stores["sqlite"](t)
			t.Cleanup(func() { require.NoError(t, l.Close()) })
			require.NoError(t, registry.RegisterServer(t.Context(), l, good))
			row.Status = string(plan.Block)
			require.NoError(t, l.RegisterTool(t.Context(), row))
			all, err := registry.Servers(t.Context(), l)
			require.NoError(t, err)
			require.Len(t, all, 1)
			want := good
			if name == "good" {
				want.Initialize = row.Schema
			}
			require.Equal(t, want, all[0])
		})
	}
}
