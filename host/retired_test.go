package host

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/skills"
	"chimera.ai/engine/trust"
)

// TestARetiredProvider: the role effects starts without a provider of which the admins have stated something,
// says so once, and calls nothing of it. An operation that is blocked counts for nothing.
func TestARetiredProvider(t *testing.T) {
	operation := func(of plan.ProviderType, provider, operation string) catalog.Template {
		return catalog.Template{ProviderType: of, Provider: provider, Operation: operation, Mode: plan.Deter, Effect: plan.Committing, Trust: plan.AllowAuto, Status: plan.AllowAuto}
	}
	desk := operation(plan.Skill, "desk", "write")
	operations := &catalog.Catalog{Templates: []catalog.Template{
		operation(plan.Skill, "book", "write"), operation(plan.Skill, "shelf", "write"), operation(plan.Skill, "shelf", "erase"), desk, operation(plan.MCP, "files", "create"),
	}}
	said := trust.State{Tools: map[string]trust.TrustTool{desk.ToolID(): {ToolID: desk.ToolID(), Status: string(plan.Block)}}}
	log := new(bytes.Buffer)
	h := &Host{options: Options{
		Production: true, Roles: []Role{RoleEffects}, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Executables: map[string]skills.Executable{"book": {}}, Callers: map[string][]Role{"book": {RoleEffects}},
	}}
	require.NoError(t, h.callable(t.Context(), said, operations))
	require.Contains(t, log.String(), "provider=skills.shelf operations=2")
	require.Contains(t, log.String(), "provider=mcpServers.files operations=1")
	require.Equal(t, 2, strings.Count(log.String(), "the configuration does not have it"), log)
	did := new(counter)
	_, err := fitting{did, &h.options}.Call(t.Context(), activities.Request{Node: &plan.Node{ProviderType: plan.Skill, Provider: "shelf", Operation: "write", Effect: plan.Committing}})
	var known *contract.Error
	require.ErrorAs(t, err, &known)
	require.Equal(t, contract.Blocked, known.Kind)
	require.ErrorContains(t, err, "shelf/write is not called: this worker's configuration has no skills.shelf")
	require.Zero(t, did.calls)

	// What is configured, and not said to be of this role, still keeps it from starting, unless it is blocked.
	h.options.Executables["desk"] = skills.Executable{}
	require.NoError(t, h.callable(t.Context(), said, operations))
	h.options.Executables["shelf"] = skills.Executable{}
	require.ErrorContains(t, h.callable(t.Context(), said, operations), "nothing says which roles have the secrets of shelf")
}
