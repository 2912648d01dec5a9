package host_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
	"chimera.ai/engine/trust"
)

// TestWhatAdminsTakeBack: what the admins make stricter after people were asked, the guardian
// heeds; what they take back after it has permitted a call, the role effects; and no role
// forgets it with its database.
func TestWhatAdminsTakeBack(t *testing.T) {
	stage.Parallel(t)
	p := produce(t, "book", writes, actingCatalog, actingPolicy)
	begin := func(role host.Role) *host.Host { return stage.Host(t, p.role(t, p.options, role)) }
	digest, asks := p.publish(t, actingPlan), p.publish(t, approvedPlan)
	eve, fay := p.enrol(t, "eve", "editor"), p.enrol(t, "fay", "finance")
	p.h = begin(host.RoleEngine)
	guardian := begin(host.RoleGuardian)

	run := p.start(t, "stricter", asks, `{"line":"one"}`)
	b := p.asked(t, run, 1)[0]
	first, second := eve.Sign(t, b, approval.Approve, nil), fay.Sign(t, b, approval.Approve, nil)
	require.True(t, p.update(t, run, first).Accepted)
	lax := p.options.Policy
	p.activate(t, parsed(t, strings.NewReplacer("id: short", "id: shorter", "< 20", "< 3").Replace(actingPolicy)))
	require.NoError(t, guardian.Close())
	guardian = begin(host.RoleGuardian)
	effects := begin(host.RoleEffects)
	v := p.update(t, run, second)
	require.True(t, v.Accepted, v.Detail)
	f := failureOf(t, stage.Await(t, p.h.Client(), run, nil))
	require.Equal(t, contract.Rejected, f.Kind, f.Message)
	require.Contains(t, f.Message, "REJECT, policy:shorter")
	require.Empty(t, p.written(t))
	p.activate(t, lax)
	require.NoError(t, guardian.Close())
	require.NoError(t, effects.Close())
	begin(host.RoleGuardian)

	said, err := trust.Read(t.Context(), p.ledger(), p.Root)
	require.NoError(t, err)
	tool := said.Tools["book/write"]
	blocked := tool
	blocked.Status = "block"
	keys := []string{p.Starter.Public()}
	for i, c := range []struct {
		take, back trust.Act
		says       string
	}{
		{&blocked, &tool, "have stated block for the tool"},
		{&trust.SetAgentKeys{AgentID: "tester", Keys: []string{}}, &trust.SetAgentKeys{AgentID: "tester", Keys: keys, Vouching: keys}, "no key that may act for tester"},
		{&trust.RevokePublisher{ID: "ada"}, nil, `"ada", who is revoked`},
	} {
		run := p.start(t, fmt.Sprint("permitted", i), digest, `{"line":"x"}`)
		stage.Until(t, "it is permitted", func() bool {
			tasks, err := p.ledger().ListTasks(t.Context(), task.StateSigned, ledger.Page{})
			return err == nil && len(tasks) == i+1
		})
		p.State(t, p.ledger(), c.take)
		effects := begin(host.RoleEffects)
		f := failureOf(t, stage.Await(t, p.h.Client(), run, nil))
		require.Equal(t, contract.Blocked, f.Kind, f.Message)
		require.Contains(t, f.Message, c.says)
		require.NoError(t, effects.Close())
		if c.back != nil {
			p.State(t, p.ledger(), c.back)
		}
	}
	require.Empty(t, p.written(t))

	// Each role has read that the author is revoked, and begins with no database that has lost
	// it.
	roles := []host.Role{host.RoleEngine, host.RoleGuardian, host.RoleEffects}
	for _, role := range roles {
		require.NoError(t, begin(role).Close())
	}
	conn, err := pgx.Connect(t.Context(), p.of.Store.URL)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close(t.Context())) }()
	_, err = conn.Exec(t.Context(), "BEGIN; ALTER TABLE authority DISABLE TRIGGER ALL; DELETE FROM authority WHERE n = (SELECT max(n) FROM authority); ALTER TABLE authority ENABLE TRIGGER ALL; COMMIT")
	require.NoError(t, err)
	for _, role := range roles {
		_, err := host.New(t.Context(), p.role(t, p.options, role))
		require.ErrorContains(t, err, "statements, but this process has read", role)
	}
}

// TestPeopleAreAskedForAllAtOnce: where a policy that comes while people are asked objects to more,
// they are asked once more, for all of it together.
func TestPeopleAreAskedForAllAtOnce(t *testing.T) {
	stage.Parallel(t)
	const letter, signed = `  - {id: letter, type: soft, operations: [book/write], require: 'action.inputs.line.startsWith("Dear")', message: "a line is no letter"}` + "\n",
		`  - {id: signed, type: soft, operations: [book/write], require: 'action.inputs.line.endsWith("Yours")', message: "nobody has signed it"}` + "\n"
	lifts := strings.Replace(actingPolicy, "unmodelled", `approval: {lift: {"policy:letter": [editor], "policy:signed": [editor]}}`+"\nunmodelled", 1)
	const open = `  - {id: open, type: soft, operations: [book/write], require: "true"}` + "\n"
	a := actBy(t, "book", writes, actingCatalog, lifts+letter+strings.Replace(open, "open", "signed", 1))
	eve := a.enrol(t, "eve", "editor")
	run := a.start(t, "more", a.publish(t, actingPlan), `{"line":"one"}`)
	lifted := func(b ledger.Barrier) []string {
		r, _, err := approval.ParseRequest(b.Request)
		require.NoError(t, err)
		return r.Actions[0].Lifts
	}
	first := a.asked(t, run, 1)[0]
	require.Equal(t, []string{"policy:letter"}, lifted(first))
	a.options.Policy = parsed(t, lifts+letter+signed)
	a.again(t)
	require.True(t, a.update(t, run, eve.Sign(t, first, approval.Approve, nil)).Accepted)
	var second ledger.Barrier
	stage.Until(t, "people are asked again", func() bool {
		second = a.asked(t, run, 1)[0]
		return second.ID != first.ID
	})
	require.Equal(t, []string{"policy:letter", "policy:signed"}, lifted(second))
	require.Empty(t, a.written(t))
	require.True(t, a.update(t, run, eve.Sign(t, second, approval.Approve, nil)).Accepted)
	require.NoError(t, stage.Await(t, a.h.Client(), a.h.Client().GetWorkflow(t.Context(), run.GetID(), run.GetRunID()), nil))
	require.Len(t, a.written(t), 1)
	a.replays(t, run)

	// The evidence names the approvals that counted, and no others.
	for n, want := range []string{"action decision trust", "action decision trust", "action approvals decision trust"} {
		d, err := a.ledger().Decision(t.Context(), fmt.Sprintf("%s/%d", first.Actions[0].Invocation, n+1))
		require.NoError(t, err)
		packet, err := a.ledger().Packet(t.Context(), d.Evidence)
		require.NoError(t, err)
		var parts []string
		for _, part := range packet.Parts {
			parts = append(parts, part.Name)
		}
		require.Equal(t, want, strings.Join(parts, " "), d.ID)
	}
	a.verifies(t)
}

// TestTheStricterPolicyCounts: a policy that is activated while people are asked does not allow
// what that by which they were asked forbids by now.
func TestTheStricterPolicyCounts(t *testing.T) {
	stage.Parallel(t)
	p := produce(t, "book", writes, actingCatalog, actingPolicy+"caps: {invocations_per_run: 1}\n")
	digest := p.publish(t, `{apiVersion: chimera/v1, kind: Plan, name: two, version: "1", agent: tester, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [
    {id: asks, template: book/write, commit_policy: {approval: {groups: [{role: editor, min: 1}]}, rollback: {none: "what is written stays"}}},
    {id: rest, template: engine/sleep, with: {ms: 3000}, timeout_ms: 9000},
    {id: other, template: book/write, commit_policy: {rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> asks.line, $input -> rest, rest -> other, $input.line -> other.line]}`)
	eve := p.enrol(t, "eve", "editor")
	p.again(t)
	run := p.start(t, "two", digest, `{"line":"one"}`)
	b := p.asked(t, run, 1)[0]
	stage.Until(t, "the other call is made, with which the run has made the one that the policy allows", func() bool { return len(p.written(t)) == 1 })
	p.options.Policy = parsed(t, actingPolicy)
	p.again(t)
	v := p.update(t, run, eve.Sign(t, b, approval.Approve, nil))
	require.True(t, v.Accepted, v.Detail)
	f := failureOf(t, stage.Await(t, p.h.Client(), p.h.Client().GetWorkflow(t.Context(), run.GetID(), run.GetRunID()), nil))
	require.Equal(t, contract.Rejected, f.Kind, f.Message)
	require.Equal(t, "asks", f.Node)
	require.Contains(t, f.Message, "cap:invocations_per_run")
	require.Len(t, p.written(t), 1)
	p.verifies(t)
}
