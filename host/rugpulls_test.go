package host_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/mcp"
)

// TestRugPulls: a server that becomes another one, once people have approved a call of it, is not called, be it
// a child over stdio or a server over HTTP. It logs what it gets.
func TestRugPulls(t *testing.T) {
	for name, remote := range map[string]bool{"stdio": false, "HTTP": true} {
		t.Run(name, func(t *testing.T) {
			stage.Parallel(t)
			r := newRug(t, remote)
			servers := map[string]mcp.Server{"bank": r.server()}
			pool := mcp.NewPool(servers, mcp.Options{Logger: slog.New(slog.DiscardHandler)})
			said, err := pool.Introduction(t.Context(), "bank")
			require.NoError(t, err)
			words, err := fingerprint.Instructions(said.Instructions)
			require.NoError(t, err)
			require.NoError(t, pool.Close())
			r.put(t, "log", "")
			operations := "apiVersion: chimera/v1\nkind: Catalog\ntemplates:\n"
			for _, x := range [][2]string{{"pay, effect_class: committing", payTool}, {"look, effect_class: pure, open_world: false", lookTool}} {
				operations += fmt.Sprintf("  - {provider_type: mcp, provider_name: bank, mode: deter, timeout_ms: 60000, retry_policy: {max_retries: 0}, trust_requirement: allow_auto, status: allow_auto, operation: %s, endpoints: [%q], instructions: %q, definition: %s}\n",
					x[0], said.Endpoint, words, x[1])
			}
			a := prepare(t, "none", "", operations, bankPolicy)
			a.options.Servers = servers
			a.options.Store.Dir = t.TempDir()
			a.Deployment = stage.Deploy(t, &a.options)
			a.again(t)
			a.Begin(t, a.ledger())
			eve := a.enrol(t, "eve", "reviewer")
			run := a.start(t, "run", a.publish(t, strings.Replace(bankPlan, "commit_policy: {", "commit_policy: {approval: {groups: [{role: reviewer, min: 1}]}, ", 1)), `{"line":"one"}`)
			at := a.asked(t, run, 1)[0]
			r.change(t, "echo '#' >> lib/answer", func(s *site) { s.cert = s.other })
			r.kill(t)
			v := a.update(t, run, eve.Sign(t, at, approval.Approve, nil))
			require.True(t, v.Accepted, v.Detail)
			f := stage.FailureOf(t, stage.Await(t, a.h.Client(), run, nil))
			require.Equal(t, contract.Drift, f.Kind, f.Message)
			require.Equal(t, "pay", f.Node)
			require.Equal(t, "start list look", r.got(t))
			a.replays(t, run)
			a.verifies(t)
		})
	}
}
