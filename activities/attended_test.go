package activities_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
)

// liftedPolicy asks people about long lines only, and unattendedPolicy about none.
var (
	liftedPolicy     = strings.Replace(postPolicy, "rules:", "approval: {lift: {\"policy:brief\": [editor], budget_exceeded: [editor]}}\nrules:\n  - {id: brief, type: soft, operations: [post/send], require: 'action.inputs.line.size() < 8'}", 1)
	unattendedPolicy = strings.Replace(postPolicy, "operations: [post/send]}]", "operations: [post/send], unattended: true}]", 1)
)

// sendPlan asks nobody.
const sendPlan = `{apiVersion: chimera/v1, kind: Plan, name: sends, version: "1", agent: tester, allow: [pure, irreversible],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]},
  output_schema: {type: object, properties: {ok: {type: boolean}}, required: [ok]},
  nodes: [
    {id: send, template: post/send, commit_policy: {prechecks: [look], rollback: {none: "a letter cannot be called back"}}},
    {id: look, template: post/look}],
  edges: [$input.line -> look.line, $input.line -> send.line, send.ok -> $output.ok]}`

// TestIrreversibleIsAttended: an irreversible effect that nobody is asked to approve is
// rejected, one that people lift happens, and so does one that the policy lets go unattended.
func TestIrreversibleIsAttended(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "post", posts, postCatalog, liftedPolicy)
	eve := a.Enrol(t, "eve", "editor")
	digest := a.Publish(t, sendPlan)
	weather(t, a, "sun")
	f := a.Fails(t, a.Start(t, "short", digest, `{"line":"short"}`))
	require.Equal(t, contract.Rejected, f.Kind, f.Message)
	require.Contains(t, f.Message, "no_approval")
	require.Empty(t, a.Written(t))

	run := a.Start(t, "long", digest, `{"line":"quite long"}`)
	b := a.Asked(t, run, 1)[0]
	a.Sign(t, run, b, approval.Approve, eve)
	require.NoError(t, a.Await(t, run, nil))
	require.Equal(t, []string{`{"line":"quite long"}`}, a.Written(t))

	a.Options.Policy = stage.Bundle(t, unattendedPolicy)
	a.Again(t)
	require.NoError(t, a.Await(t, a.Start(t, "unattended", digest, `{"line":"short"}`), nil))
	require.Len(t, a.Written(t), 2)

	// Effects does not know whether there is money. Those who may lift that there is none have
	// signed.
	a.Options.Policy = stage.Bundle(t, liftedPolicy)
	a.Again(t)
	a.Budget(t, "1.00")
	run = a.Start(t, "unpriced", digest, `{"line":"short"}`)
	b = a.Asked(t, run, 1)[0]
	a.Sign(t, run, b, approval.Approve, eve)
	require.NoError(t, a.Await(t, run, nil))
	require.Len(t, a.Written(t), 3)
}

// TestAGuardianAloneLetsNothingGoUnattended: effects finds in its own policy that somebody must
// approve an irreversible effect, whatever the guardian's says.
func TestAGuardianAloneLetsNothingGoUnattended(t *testing.T) {
	t.Parallel()
	a := stage.ActBy(t, "post", posts, postCatalog, liftedPolicy)
	digest := a.Publish(t, sendPlan)
	weather(t, a, "sun")
	other := a.Options
	other.Roles, other.Policy = []host.Role{host.RoleGuardian}, stage.Bundle(t, unattendedPolicy)
	a.Options.Roles = []host.Role{host.RoleEngine, host.RoleTools, host.RoleEffects}
	a.Again(t)
	stage.Rehearse(t, other)
	f := a.Fails(t, a.Start(t, "alone", digest, `{"line":"short"}`))
	require.Equal(t, contract.Blocked, f.Kind, f.Message)
	require.Contains(t, f.Message, "the guardian permits what the policy does not allow")
	require.Empty(t, a.Written(t))
}
