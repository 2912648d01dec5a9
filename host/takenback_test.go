package host_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
	"chimera.ai/engine/trust"
)

// TestWhatAdminsTakeBack: what the admins take back after the guardian has permitted a call, the
// role effects heeds.
func TestWhatAdminsTakeBack(t *testing.T) {
	stage.Parallel(t)
	p := produce(t, "book", writes, actingCatalog, actingPolicy)
	begin := func(role host.Role) *host.Host { return stage.Host(t, p.role(t, p.options, role)) }
	digest := p.publish(t, actingPlan)
	p.h = begin(host.RoleEngine)
	begin(host.RoleGuardian)
	run := p.start(t, "permitted", digest, `{"line":"x"}`)
	stage.Until(t, "it is permitted", func() bool {
		tasks, err := p.ledger().ListTasks(t.Context(), task.StateSigned, ledger.Page{})
		return err == nil && len(tasks) == 1
	})
	said, err := trust.Read(t.Context(), p.ledger(), p.Root)
	require.NoError(t, err)
	blocked := said.Tools["book/write"]
	blocked.Status = "block"
	p.state(t, &blocked)
	begin(host.RoleEffects)
	f := stage.FailureOf(t, stage.Await(t, p.h.Client(), run, nil))
	require.Equal(t, contract.Blocked, f.Kind, f.Message)
	require.Contains(t, f.Message, "have stated block for the tool")
	require.Empty(t, p.written(t))
}
