package activities_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/mcp"
)

// oncePlan pays.
const oncePlan = `{apiVersion: chimera/v1, kind: Plan, name: pays, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [{id: pay, template: bank/pay, commit_policy: {rollback: {none: "what is paid stays"}}}],
  edges: [$input.line -> pay.line, pay.ok -> $output.ok]}`

// TestRefusedAfterTheEffect: a remote server becomes another one between list and call, acts, and answers
// with a status by which it has not looked at the call. It gets the call once, whatever may be retried, and
// the run says that nobody knows what it did. The pinned tool's server is believed.
func TestRefusedAfterTheEffect(t *testing.T) {
	t.Parallel()
	type refused struct {
		status, refusals int
		swapped          bool
		kind             contract.Kind // of the run's failure, or ""
		row              ledger.InvocationState
		got              string
	}
	const once = "start list pay list"
	cases := map[string]refused{
		"unknown session":          {404, 9, false, contract.OutcomeUnknown, ledger.Unknown, "start list pay"},
		"unknown session, another": {404, 9, true, contract.OutcomeUnknown, ledger.Unknown, "start list pay"},
		"401 of another":           {401, 9, true, contract.OutcomeUnknown, ledger.Unknown, once},
		"403 of another":           {403, 9, true, contract.OutcomeUnknown, ledger.Unknown, once},
		"429 of another":           {429, 9, true, contract.OutcomeUnknown, ledger.Unknown, once},
		"503 of another":           {503, 9, true, contract.OutcomeUnknown, ledger.Unknown, once},
		"401":                      {401, 9, false, contract.Auth, ledger.Released, once + " list pay list"},
		"401 until refreshed":      {401, 1, false, "", ledger.Settled, once + " list pay list"},
		"429 for a while":          {429, 2, false, "", ledger.Settled, once + " list pay list list pay list"},
	}
	operations, names := "apiVersion: chimera/v1\nkind: Catalog\ntemplates:\n", []string{}
	servers, rugs, of := map[string]mcp.Server{}, map[string]*rug{}, map[string]string{}
	for name, c := range cases {
		r, bank := newRug(t, true), fmt.Sprintf("bank%d", len(names))
		r.status, r.refusals = c.status, c.refusals
		if c.swapped {
			r.rugSite.after["called"] = func(s *rugSite) { s.holds(os.WriteFile(filepath.Join(s.folder, "tools"), []byte(driftIO), 0o600)) }
		}
		rugs[name], of[name], servers[bank] = r, bank, r.server()
		names = append(names, bank)
		operations += fmt.Sprintf("  - {provider_type: mcp, provider_name: %s, operation: pay, mode: deter, effect_class: committing, timeout_ms: 60000, retry_policy: {max_retries: 3, on: [unsent, throttled, auth], initial_ms: 1}, trust_requirement: allow_auto, status: allow_auto, definition: %s}\n", bank, driftPay)
	}
	a := stage.ActWith(t, host.Options{
		Catalog: stage.Operations(t, operations), Policy: stage.Bundle(t, strings.ReplaceAll(driftPolicy, "bank/pay", strings.Join(names, "/pay, ")+"/pay")), Servers: servers,
	})
	runs := map[string]client.WorkflowRun{}
	for name, bank := range of {
		runs[name] = a.Start(t, bank, a.Publish(t, strings.NewReplacer("bank/pay", bank+"/pay", "name: pays", "name: "+bank).Replace(oncePlan)), `{"line":"one"}`)
	}
	for name, c := range cases {
		err := stage.Await(t, a.Client(), runs[name], nil)
		if c.kind == "" {
			require.NoError(t, err, name)
		} else {
			f := stage.FailureOf(t, err)
			require.Equal(t, c.kind, f.Kind, "%s: %s", name, f.Message)
		}
		require.Equal(t, c.got, rugs[name].got(t), name)
		require.Equal(t, c.row, a.Invocation(t, runs[name]).State, name)
	}
	a.Verifies(t)
}
