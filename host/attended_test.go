package host_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/policy"
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
	stage.Parallel(t)
	a := actBy(t, "post", posts, postCatalog, liftedPolicy)
	eve := a.enrol(t, "eve", "editor")
	digest := a.publish(t, sendPlan)
	a.weather(t, "sun")
	f := failureOf(t, stage.Await(t, a.h.Client(), a.start(t, "short", digest, `{"line":"short"}`), nil))
	require.Equal(t, contract.Rejected, f.Kind, f.Message)
	require.Contains(t, f.Message, "no_approval")
	require.Empty(t, a.written(t))

	run := a.start(t, "long", digest, `{"line":"quite long"}`)
	b := a.asked(t, run, 1)[0]
	require.True(t, a.update(t, run, eve.Sign(t, b, approval.Approve, nil)).Accepted)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Equal(t, []string{`{"line":"quite long"}`}, a.written(t))

	a.options.Policy = parsed(t, unattendedPolicy)
	a.again(t)
	require.NoError(t, stage.Await(t, a.h.Client(), a.start(t, "unattended", digest, `{"line":"short"}`), nil))
	require.Len(t, a.written(t), 2)

	// Effects does not know whether there is money. Those who may lift that there is none have
	// signed.
	a.options.Policy = parsed(t, liftedPolicy)
	a.again(t)
	a.budget(t, "1.00")
	run = a.start(t, "unpriced", digest, `{"line":"short"}`)
	b = a.asked(t, run, 1)[0]
	require.True(t, a.update(t, run, eve.Sign(t, b, approval.Approve, nil)).Accepted)
	require.NoError(t, stage.Await(t, a.h.Client(), run, nil))
	require.Len(t, a.written(t), 3)
}

// TestAGuardianAloneLetsNothingGoUnattended: effects finds in its own policy that somebody must
// approve an irreversible effect, whatever the guardian's says.
func TestAGuardianAloneLetsNothingGoUnattended(t *testing.T) {
	stage.Parallel(t)
	a := actBy(t, "post", posts, postCatalog, liftedPolicy)
	digest := a.publish(t, sendPlan)
	a.weather(t, "sun")
	other := a.options
	other.Roles, other.Policy = []host.Role{host.RoleGuardian}, parsed(t, unattendedPolicy)
	a.options.Roles = []host.Role{host.RoleEngine, host.RoleTools, host.RoleEffects}
	a.again(t)
	a.thieve(t, other)
	f := failureOf(t, stage.Await(t, a.h.Client(), a.start(t, "alone", digest, `{"line":"short"}`), nil))
	require.Equal(t, contract.Blocked, f.Kind, f.Message)
	require.Contains(t, f.Message, "the guardian permits what the policy does not allow")
	require.Empty(t, a.written(t))
}

// parsed reads a policy.
func parsed(t *testing.T, text string) *policy.Bundle {
	t.Helper()
	b, ds := policy.Parse(compiler.Source{Name: "policy.yaml", Text: []byte(text)})
	require.False(t, ds.HasErrors())
	return b
}
