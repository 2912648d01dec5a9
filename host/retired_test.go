package host_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// TestARetiredProvider: the role effects starts without a provider of which the admins have stated something,
// says so once, and calls nothing of it. An operation that is blocked counts for nothing.
func TestARetiredProvider(t *testing.T) {
	stage.Parallel(t)
	operations := actingCatalog
	for _, name := range []string{"shelf, operation: write", "shelf, operation: erase", "desk, operation: write"} {
		operations += strings.Replace(strings.SplitN(actingCatalog, "templates:\n", 2)[1], "book, operation: write", name, 1)
	}
	operations += strings.Replace(strings.SplitN(actingCatalog, "templates:\n", 2)[1], "skill, provider_name: book, operation: write", "mcp, provider_name: files, operation: create", 1)
	a := produceIn(t, pgtest.URL(t), "book", writes, operations, strings.ReplaceAll(actingPolicy, "[book/write]", "[book/write, shelf/write]"))
	for i := range a.options.Catalog.Templates {
		if o := &a.options.Catalog.Templates[i]; o.Provider == "desk" {
			facts, err := o.Facts()
			require.NoError(t, err)
			a.state(t, &trust.TrustTool{ToolID: o.ToolID(), Fingerprint: o.Fingerprint, Status: string(plan.Block), Facts: facts})
		}
	}
	digest := a.publish(t, strings.ReplaceAll(actingPlan, "book/write", "shelf/write"))
	log := new(lines)
	a.options.Logger = slog.New(slog.NewTextHandler(log, nil))
	a.again(t)
	require.Contains(t, log.String(), "provider=skills.shelf operations=2")
	require.Contains(t, log.String(), "provider=mcpServers.files operations=1")
	require.Equal(t, 2, strings.Count(log.String(), "the configuration does not have it"), log)
	f := failureOf(t, stage.Await(t, a.h.Client(), a.start(t, "gone", digest, `{"line":"x"}`), nil))
	require.Equal(t, contract.Blocked, f.Kind, f.Message)
	require.Contains(t, f.Message, "shelf/write is not called: this worker's configuration has no skills.shelf")

	// What is configured, and not said to be of this role, still keeps it from starting, unless it is blocked.
	a.options.Executables["desk"] = a.options.Executables["book"]
	require.NoError(t, stage.Pin(a.options.Catalog, a.options.Executables))
	effects := a.role(t, a.options, host.RoleEffects)
	h, err := host.New(t.Context(), effects)
	require.NoError(t, err)
	require.NoError(t, h.Close())
	a.options.Executables["shelf"] = a.options.Executables["book"]
	require.NoError(t, stage.Pin(a.options.Catalog, a.options.Executables))
	_, err = host.New(t.Context(), effects)
	require.ErrorContains(t, err, "nothing says which roles have the secrets of shelf")
}
