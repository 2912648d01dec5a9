package host_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// attackedPlan has two effects, each with a price and a barrier of its own.
const attackedPlan = `{apiVersion: chimera/v1, kind: Plan, name: attacked, version: "1", agent: tester, currency: USD, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
  nodes: [
    {id: write, template: book/write, cost_estimate: 1.50, commit_policy: {approval: {groups: [{role: editor, min: 1}, {role: finance, min: 1}]}, rollback: {none: "what is written stays"}}},
    {id: more, template: book/write, cost_estimate: 0.50, commit_policy: {approval: {groups: [{role: editor, min: 1}, {role: finance, min: 1}]}, rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> write.line,
    {from_node: $input, from_port: line, to_node: more, to_port: line, edge_type: data, required: true, transform: "more of ${value}"}]}`

// attacker is a client of Temporal without any of our keys and converters.
type attacker struct {
	*acting
	raw client.Client
	// signals reports that it sends by the signal, not by the update.
	signals bool
	// line is what the run writes.
	line string
	run  client.WorkflowRun
	// write and more are the barriers of the nodes of these names.
	write, more ledger.Barrier
}

// send sends a signature, waits until it is recorded, and returns the record. An update also
// says what became of it.
func (s *attacker) send(t *testing.T, envelope json.RawMessage) (ledger.Approval, contract.Verdict) {
	t.Helper()
	var v contract.Verdict
	if s.signals {
		require.NoError(t, s.raw.SignalWorkflow(t.Context(), s.run.GetID(), "", contract.SignalSignature, envelope))
	} else {
		u, err := s.raw.UpdateWorkflow(t.Context(), client.UpdateWorkflowOptions{
			WorkflowID: s.run.GetID(), UpdateName: contract.UpdateSign, Args: []any{envelope}, WaitForStage: client.WorkflowUpdateStageCompleted,
		})
		require.NoError(t, err)
		require.NoError(t, u.Get(t.Context(), &v))
	}
	var found []ledger.Approval
	stage.Until(t, "the signature is recorded", func() bool {
		found = s.recorded(t, envelope)
		return len(found) > 0
	})
	require.Len(t, found, 1)
	if !s.signals {
		require.Equal(t, found[0].Accepted, v.Accepted)
	}
	return found[0], v
}

// records lists what the ledger has recorded about the barriers of the run, and about none.
func (s *attacker) records(t *testing.T) (all []ledger.Approval) {
	t.Helper()
	r, err := s.ledger().Run(t.Context(), s.run.GetID(), "")
	require.NoError(t, err)
	for _, id := range []string{s.write.ID, s.more.ID, "none/" + r.Origin} {
		some, err := s.ledger().Approvals(t.Context(), id, ledger.Page{})
		require.NoError(t, err)
		all = append(all, some...)
	}
	return all
}

// recorded lists the records of one signature. A refused one is recorded by its digest.
func (s *attacker) recorded(t *testing.T, envelope json.RawMessage) (all []ledger.Approval) {
	t.Helper()
	digest, err := json.Marshal(map[string]string{"digest": approval.ID(envelope)})
	require.NoError(t, err)
	return slices.DeleteFunc(s.records(t), func(a ledger.Approval) bool {
		want := []byte(envelope)
		if !a.Accepted {
			want = digest
		}
		return string(a.Envelope) != string(want)
	})
}

// altered signs a request that says something else than that of a barrier.
func altered(t *testing.T, s stage.Signer, b ledger.Barrier, change func(r *approval.Request)) json.RawMessage {
	t.Helper()
	r, _, err := approval.Of(&b)
	require.NoError(t, err)
	change(r)
	raw, err := r.Encode()
	require.NoError(t, err)
	return s.Sign(t, b, approval.Approve, func(p *approval.Payload) { p.Request = plan.DigestOf(raw) })
}

// edited changes an envelope after it was signed.
func edited(t *testing.T, envelope json.RawMessage, change func(e *trust.Envelope)) json.RawMessage {
	t.Helper()
	e, err := trust.ParseEnvelope(envelope, approval.Type)
	require.NoError(t, err)
	change(e)
	out, err := e.Encode()
	require.NoError(t, err)
	return out
}

// TestAttacks: of all signatures that should not count none does, whether it comes by update
// or by signal from a client that has no key of ours; each is recorded once, with the reason;
// and those that should count do so afterwards.
func TestAttacks(t *testing.T) {
	stage.Parallel(t)
	a := act(t, writes)
	a.budget(t, "100")
	eve, fay, zoe := a.enrol(t, "eve", "editor"), a.enrol(t, "fay", "finance"), a.enrol(t, "zoe", "reader")
	rae, ada := a.enrol(t, "rae", "editor"), a.enrol(t, "ada", "editor")
	second := stage.Signer{ID: "eve-second", Key: eve.Key, Role: "finance"}
	old, soon, gone := second, second, second
	old.ID, soon.ID, gone.ID = "old-key", "soon-key", "gone-key"
	var acts []trust.Act
	now := time.Now()
	for _, x := range []struct {
		signer      *stage.Signer
		person      string
		from, until time.Duration
	}{{&second, "eve", -time.Hour, time.Hour}, {&old, "old", -2 * time.Hour, -time.Hour}, {&soon, "soon", time.Hour, 2 * time.Hour}, {&gone, "gone", -time.Hour, time.Hour}} {
		var err error
		x.signer.Key, _, err = trust.NewKey()
		require.NoError(t, err)
		acts = append(acts, &trust.EnrollSigner{
			ID: x.signer.ID, Person: x.person, Roles: []string{"editor", "finance"}, SigType: a.signs(), PublicKey: x.signer.Key.Public(),
			NotBefore: ledger.At(now.Add(x.from)), NotAfter: ledger.At(now.Add(x.until)),
		})
	}
	a.state(t, acts...)
	a.state(t, &trust.RevokeSigner{ID: gone.ID})

	raw, err := client.Dial(client.Options{HostPort: stage.Temporal(t).Address})
	require.NoError(t, err)
	defer raw.Close()
	digest := a.publish(t, attackedPlan)
	victim := func(name string, signals bool) *attacker {
		s := &attacker{acting: a, raw: raw, signals: signals, line: `{"line":"` + name + `"}`}
		s.run = a.start(t, name, digest, s.line)
		for _, b := range a.asked(t, s.run, 2) {
			if b.Name == "node/write" {
				s.write = b
			} else {
				s.more = b
			}
		}
		return s
	}
	other := victim("other", false)
	for _, s := range []*attacker{victim("update", false), victim("signal", true)} {
		b := s.write
		sign := func(by stage.Signer, change func(p *approval.Payload)) json.RawMessage {
			return by.Sign(t, b, approval.Approve, change)
		}
		attacks := []struct {
			name string
			code approval.Code
			sent json.RawMessage
		}{
			{"another run's", approval.Foreign, eve.Sign(t, other.write, approval.Approve, nil)},
			{"another round's", approval.Foreign, sign(eve, func(p *approval.Payload) { p.Barrier = strings.TrimSuffix(b.ID, "/1") + "/2" })},
			{"another barrier's", approval.Foreign, eve.Sign(t, s.more, approval.Approve, func(p *approval.Payload) { p.Barrier = b.ID })},
			{"another node's action", approval.Foreign, sign(eve, func(p *approval.Payload) { p.Actions = []string{s.more.Actions[0].Action} })},
			{"another plan's", approval.Foreign, sign(eve, func(p *approval.Payload) { p.Plan = b.Actions[0].Action })},
			{"another amount", approval.Foreign, altered(t, eve, b, func(r *approval.Request) {
				require.Equal(t, "1.50", r.Actions[0].Amount)
				r.Actions[0].Amount = "0.15"
			})},
			{"another text", approval.Foreign, sign(eve, func(p *approval.Payload) { p.Text = b.Actions[0].Action })},
			{"another audience", approval.Foreign, sign(eve, func(p *approval.Payload) {
				p.Audience = map[trust.Audience]trust.Audience{trust.Dev: trust.Prod, trust.Prod: trust.Dev}[p.Audience]
			})},
			{"another type of payload", approval.Malformed, edited(t, sign(eve, nil), func(e *trust.Envelope) { e.Type = approval.DelegationType })},
			{"a rejection as an approval", approval.Forged, edited(t, eve.Sign(t, b, approval.Reject, nil), func(e *trust.Envelope) {
				e.Payload = []byte(strings.Replace(string(e.Payload), `"decision":"reject"`, `"decision":"approve"`, 1))
			})},
			{"with another's key", approval.Forged, stage.Signer{ID: eve.ID, Key: zoe.Key, Role: eve.Role}.Sign(t, b, approval.Approve, nil)},
			{"expired", approval.NotValid, sign(eve, func(p *approval.Payload) { p.Expires = p.Issued })},
			{"not yet valid", approval.NotValid, sign(eve, func(p *approval.Payload) { p.NotBefore = ledger.At(now.Add(20 * time.Minute)) })},
			{"with a key that has expired", approval.NotValid, sign(old, nil)},
			{"with a key that is not yet valid", approval.NotValid, sign(soon, nil)},
			{"with a revoked key", approval.Revoked, sign(gone, nil)},
			{"with a key of nobody", approval.Unknown, stage.Signer{ID: "nobody", Key: zoe.Key, Role: eve.Role}.Sign(t, b, approval.Approve, nil)},
			{"by whom nobody asks", approval.Ineligible, sign(zoe, nil)},
			{"by the requester", approval.Excluded, sign(rae, nil)},
			{"by the author", approval.Excluded, sign(ada, nil)},
		}
		refused := func(name string, code approval.Code, envelope json.RawMessage) {
			t.Helper()
			record, v := s.send(t, envelope)
			require.False(t, record.Accepted, name)
			require.True(t, strings.HasPrefix(record.Reason, string(code)+": "), "%s: %s", name, record.Reason)
			if !s.signals {
				require.Equal(t, string(code), v.Code, name)
			}
		}
		for i, x := range attacks {
			refused(x.name, x.code, x.sent)
			if i == 0 || !testing.Short() {
				refused(x.name+", again", x.code, x.sent)
			}
		}

		accepted := func(by stage.Signer, b ledger.Barrier) json.RawMessage {
			t.Helper()
			envelope := by.Sign(t, b, approval.Approve, nil)
			record, _ := s.send(t, envelope)
			require.True(t, record.Accepted, record.Reason)
			require.Equal(t, b.ID, record.Barrier)
			return envelope
		}
		stands := func(want ledger.BarrierState) {
			t.Helper()
			now, err := a.ledger().Barrier(t.Context(), b.ID)
			require.NoError(t, err)
			require.Equal(t, want, now.State)
		}
		// What people sign at one barrier counts there alone.
		accepted(eve, s.more)
		accepted(fay, s.more)
		stands(ledger.BarrierOpen)
		// One person counts once, with however many signatures and keys.
		first := accepted(eve, b)
		record, v := s.send(t, first)
		require.True(t, record.Accepted)
		accepted(second, b)
		if !s.signals {
			require.Equal(t, []contract.Group{{Role: "finance", Min: 1}}, v.Missing)
		}
		refused("signed again", approval.Twice, sign(eve, nil))
		refused("signed again with another key", approval.Twice, stage.Signer{ID: second.ID, Key: second.Key, Role: eve.Role}.Sign(t, b, approval.Approve, nil))
		stands(ledger.BarrierOpen)
		require.NotContains(t, a.written(t), s.line)
		accepted(fay, b)
		require.NoError(t, stage.Await(t, a.h.Client(), s.run, nil))
		stands(ledger.BarrierApproved)

		const twice, honest = 2, 5
		require.Len(t, s.records(t), len(attacks)+twice+honest, "each is recorded once")
		now, err := a.ledger().Barrier(t.Context(), b.ID)
		require.NoError(t, err)
		const elsewhere = 3 // another run's, another round's, and what says nothing of a barrier
		require.Equal(t, int64(len(attacks)+twice-elsewhere), now.Refused)
		a.replays(t, s.run)
	}

	// Who is revoked after signing does not count any more.
	require.True(t, a.update(t, other.run, eve.Sign(t, other.write, approval.Approve, nil)).Accepted)
	a.state(t, &trust.RevokeSigner{ID: eve.ID})
	v := a.update(t, other.run, fay.Sign(t, other.write, approval.Approve, nil))
	require.True(t, v.Accepted, v.Detail)
	require.Equal(t, contract.BarrierOpen, v.State)
	require.Equal(t, []contract.Group{{Role: "editor", Min: 1}}, v.Missing)
	require.NoError(t, a.h.Client().CancelWorkflow(t.Context(), other.run.GetID(), ""))
	require.Error(t, stage.Await(t, a.h.Client(), other.run, nil))
	lines := a.written(t)
	slices.Sort(lines)
	require.Equal(t, []string{`{"line":"more of signal"}`, `{"line":"more of update"}`, `{"line":"signal"}`, `{"line":"update"}`}, lines)
}
