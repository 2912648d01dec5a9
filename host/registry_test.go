package host_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/pgtest"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

// registers registers a tool, and states it.
func (a *acting) registers(t *testing.T) {
	t.Helper()
	tool := &catalog.Template{ProviderType: plan.MCP, Provider: "notes", Operation: "read", Mode: plan.Deter, Effect: plan.Pure, Status: plan.AllowAuto,
		TimeoutMS: 1000, InputSchema: json.RawMessage(`{"type":"object"}`), Definition: json.RawMessage(`{"name":"read","inputSchema":{"type":"object"}}`)}
	print, err := fingerprint.Tool(tool.Definition)
	require.NoError(t, err)
	tool.Fingerprint = print.Digest
	require.NoError(t, registry.Register(t.Context(), a.ledger(), trust.State{}, tool))
	act, err := registry.Act(tool)
	require.NoError(t, err)
	a.state(t, act)
}

// TestTheRegistryIsAwayAtTheStart: the guardian and the effects that cannot read the registry of tools
// when they begin decide on and call nothing, and say so. They go on when the database, which was
// stopped, is back.
func TestTheRegistryIsAwayAtTheStart(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	cluster, err := pgtest.Start(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(cluster.Kill)
	a := produceIn(t, cluster.URL("postgres"), "book", writes, actingCatalog, actingPolicy)
	a.registers(t)
	digest := a.publish(t, actingPlan)
	a.h = stage.Host(t, a.role(t, a.options, host.RoleEngine))
	reads := stage.Start(t, a.h.Client(), source("", []string{"b engine/pass 500"}, []string{"$input.x -> b.x", "b.x -> $output.x"}), `{"x":1}`)
	require.NoError(t, stage.Await(t, a.h.Client(), reads, nil), "the engine has read it")

	conn, err := pgx.Connect(t.Context(), a.of.Store.URL)
	require.NoError(t, err)
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }() // the server has ended meanwhile
	_, err = conn.Exec(t.Context(), "BEGIN; LOCK TABLE mcp_tool_registry IN ACCESS EXCLUSIVE MODE")
	require.NoError(t, err)
	log := new(lines)
	o := a.options
	o.Logger = slog.New(slog.NewTextHandler(log, nil))
	for n, role := range []host.Role{host.RoleGuardian, host.RoleEffects} {
		stage.Host(t, a.role(t, o, role))
		require.Equal(t, n+1, strings.Count(log.String(), "the registry of tools cannot be read"), log)
	}
	run := a.start(t, "away", digest, `{"line":"x"}`)
	stage.Until(t, "the run waits for the registry", func() bool {
		return slices.ContainsFunc(stage.State(t, a.h.Client(), run).Waiting, func(w contract.Wait) bool {
			return w.Kind == contract.WaitStore && strings.Contains(w.Detail, "read the registry of tools")
		})
	})
	require.Empty(t, a.written(t))

	cluster.Kill()
	require.NoError(t, cluster.Restart(t.Context()))
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Len(t, a.written(t), 1)
	stage.Until(t, "both have read the registry", func() bool { return strings.Count(log.String(), "the registry of tools was read") == 2 })
}
