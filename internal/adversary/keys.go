package adversary

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/keyring"
	"chimera.ai/engine/ledger/postgres"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/task"
	"chimera.ai/engine/trust"
)

// Who has a key alone still needs somebody who stores what it signs. Each attack with a key is
// made twice: before a part that is asked to act by it, and with the user of the database who
// stores such things, for the auditor.

// carried is an attack of which somebody stores what the thief has signed, on a copy.
func carried(thief Thief, about, name string, store func(t testing.TB, c *Copy) error) *Attack {
	a := &Attack{Thief: thief, Class: Signature, About: about, Name: name + ", stored", On: store}
	return a
}

// shown is an attack that is shown to the part which acts by what the thief has signed: its error
// is the part's refusal.
func shown(thief Thief, about, name string, verify func(t testing.TB, d *Deployment) error) *Attack {
	return &Attack{Thief: thief, Class: Signature, About: about, Name: name, Do: func(t testing.TB, d *Deployment) (Outcome, string) {
		if err := verify(t, d); err != nil {
			return Refused, err.Error()
		}
		return Unseen, "it is believed"
	}}
}

// state is what the admins have stated.
func (d *Deployment) state(t testing.TB) (s trust.State) {
	t.Helper()
	d.reads(t, func(l ledger.Store) {
		var err error
		s, err = trust.Read(t.Context(), l, d.Root)
		require.NoError(t, err)
	})
	return s
}

// reads lets f read the ledger itself, of which nobody makes a copy meanwhile.
func (d *Deployment) reads(t testing.TB, f func(l ledger.Store)) {
	t.Helper()
	l, err := postgres.Open(t.Context(), postgres.Options{URL: d.users[postgres.DefaultRoles.Reader], Origin: d.Root.Log.Origin, Subjects: keyring.At(d.Store.Subjects), Connections: 2})
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	f(l)
}

// keyAttacks are those with keys of people and of the guardian.
func (d *Deployment) keyAttacks(t testing.TB, state trust.State) []*Attack {
	return slices.Concat(d.adminAttacks(state), d.authorAttacks(state), d.startAttacks(state), d.signerAttacks(state), d.guardianAttacks(t, state), d.payloadAttacks())
}

// adminAttacks are those of one admin of two.
func (d *Deployment) adminAttacks(state trust.State) (all []*Attack) {
	tool := d.tools.template(bank)
	for what, acts := range map[string][]trust.Act{
		"authority": {&trust.ActivateBundle{Digest: ledger.BodyDigest([]byte("lax"))}},
		"tool":      {&trust.TrustTool{ToolID: tool.ToolID(), Fingerprint: tool.Fingerprint, Status: "allow_auto", Facts: json.RawMessage(`{"effect_class":"pure"}`)}},
		"publisher": {&trust.AddPublisher{ID: "own", Person: "own", Key: d.Admin.Public(), Uses: []string{trust.UseManifests}, Providers: []string{bank}}},
		"manifest":  {&trust.AcceptManifest{Provider: bank, Version: "2.0.0", Digest: d.Plan}},
		"waiver":    {&trust.WaiveManifest{Provider: bank, Reason: "it is fine"}},
	} {
		for name, keys := range map[string][]*trust.Key{
			"alone": {d.Admin}, "and an author": {d.Admin, d.Author}, "and the agent's": {d.Admin, d.Starter}, "and an approver": {d.Admin, d.Eve.Key}, "and a publisher": {d.Admin, d.tools.publisher},
		} {
			envelope := func() ([]byte, error) {
				e, err := state.Draft(time.Now(), acts...).Envelope(keys...)
				if err != nil {
					return nil, err
				}
				return e.Encode()
			}
			all = append(all, shown(AdminKey, what, name, func(testing.TB, *Deployment) error {
				raw, err := envelope()
				if err != nil {
					return err
				}
				_, err = state.Next(raw)
				return err
			}), carried(AdminKey, what, name, func(t testing.TB, c *Copy) error {
				raw, err := envelope()
				if err != nil {
					return err
				}
				l, err := c.open(t.Context(), "")
				if err != nil {
					return err
				}
				before, err := l.Authority(t.Context())
				require.NoError(t, err)
				require.NoError(t, l.StateAuthority(t.Context(), raw, plan.DigestOf(before[len(before)-1])), "whoever has the applier's user can")
				return l.Close()
			}))
		}
	}
	for _, person := range []string{"Ada", "ada", "Ada ", "ADA", "\u0410da", "A\u200dda", "Ada\u00a0"} {
		all = append(all, shown(AdminKey, "authority", fmt.Sprintf("a bootstrap with %q as the second admin", person), func(t testing.TB, d *Deployment) error {
			b := *d.Root
			b.Admins = slices.Clone(b.Admins)
			b.Admins[1].Person = person
			return b.Check()
		}))
	}
	return all
}

// authorAttacks are those of an author, and of one who was revoked.
func (d *Deployment) authorAttacks(state trust.State) (all []*Attack) {
	for _, x := range []struct {
		name   string
		key    *trust.Key
		change func(p *trust.Plan)
	}{
		{"a plan of his own", d.Author, func(*trust.Plan) {}},
		{"as another", d.Author, func(p *trust.Plan) { p.Author = "guy" }},
		{"as nobody", d.Author, func(p *trust.Plan) { p.Author = "eve" }},
		{"for another deployment", d.Author, func(p *trust.Plan) { p.Deployment = "other" }},
		{"for development", d.Author, func(p *trust.Plan) { p.Audience = trust.Dev }},
		{"of another name", d.Author, func(p *trust.Plan) { p.Name = "asks" }},
		{"of another source", d.Author, func(p *trust.Plan) { p.SourceDigest = ledger.BodyDigest([]byte("other")) }},
		{"by a revoked author", d.Gone, func(p *trust.Plan) { p.Author = "guy" }},
		{"by a revoked author, dated before", d.Gone, func(p *trust.Plan) { p.Author, p.Issued = "guy", ledger.At(time.Now().Add(-24*time.Hour)) }},
	} {
		row := func() (ledger.Plan, error) {
			p := trust.Plan{Deployment: d.Root.Deployment, Audience: d.Root.Audience, Author: "ada", Name: "lie", Version: "1", Issued: ledger.At(time.Now()), SourceDigest: ledger.BodyDigest([]byte("lie")), Digest: ledger.BodyDigest([]byte("compiled"))}
			out := ledger.Plan{Name: p.Name, Version: p.Version, SourceDigest: p.SourceDigest, Digest: p.Digest, Agent: "tester"}
			x.change(&p)
			out.Author = p.Author
			var err error
			out.Signature, err = trust.SignPlan(x.key, p)
			return out, err
		}
		all = append(all, shown(AuthorKey, "plan.published", x.name, func(testing.TB, *Deployment) error {
			p, err := row()
			if err == nil {
				err = trust.Authored(state, p.Digest, p)
			}
			return err
		}), carried(AuthorKey, "plan.published", x.name, func(t testing.TB, c *Copy) error {
			p, err := row()
			if err != nil {
				return err
			}
			l, err := c.open(t.Context(), "")
			if err != nil {
				return err
			}
			_, err = l.PublishPlan(t.Context(), p)
			return errors.Join(err, l.Close())
		}))
	}
	return all
}

// startAttacks are those of whoever has the key by which the agent's runs are started.
func (d *Deployment) startAttacks(state trust.State) (all []*Attack) {
	run := ledger.Run{Workflow: "stolen", Root: "stolen-root", Origin: "stolen-root", Agent: "tester", PlanDigest: d.Plan, PlanName: "acts", PlanVersion: "1", InputDigest: plan.DigestOf([]byte(`{"line":"x"}`)), Requester: d.Requester}
	for _, x := range []struct {
		name   string
		key    *trust.Key
		change func(g *trust.Grant)
	}{
		{"a run of a signed plan", d.Starter, nil},
		{"for another agent", d.Starter, func(g *trust.Grant) { g.Agent = "other" }},
		{"for another workflow", d.Starter, func(g *trust.Grant) { g.WorkflowID = "other" }},
		{"for another plan", d.Starter, func(g *trust.Grant) { g.Plan = d.Asks }},
		{"for another input", d.Starter, func(g *trust.Grant) { g.Input = d.Asks }},
		{"for another namespace", d.Starter, func(g *trust.Grant) { g.Namespace = "other" }},
		{"for another deployment", d.Starter, func(g *trust.Grant) { g.Deployment = "other" }},
		{"for development", d.Starter, func(g *trust.Grant) { g.Audience = trust.Dev }},
		{"for a person whom the key does not speak for", d.Starter, func(g *trust.Grant) { g.Requester = d.Root.Admins[0].Person }},
		{"with an approver's key", d.Eve.Key, nil},
		{"with an author's key", d.Author, nil},
	} {
		all = append(all, shown(StartKey, "run.opened", x.name, func(t testing.TB, d *Deployment) error {
			raw := d.grantOf(t, x.key, run, x.change)
			want := trust.Grant{Deployment: d.Root.Deployment, Audience: d.Root.Audience, Namespace: client.DefaultNamespace, WorkflowID: run.Workflow, Plan: run.PlanDigest, Input: run.InputDigest, Agent: run.Agent}
			g, err := trust.VerifyGrant(state, raw, want, time.Now())
			if err == nil && !state.Speaks(g.Agent, g.Requester) {
				err = errors.New("who asks for it is not believed")
			}
			return err
		}), carried(StartKey, "run.opened", x.name, func(t testing.TB, c *Copy) error {
			r := run
			r.Grant = c.grantOf(t, x.key, r, x.change)
			g, err := trust.ReadGrant(r.Grant)
			if err != nil {
				return err
			}
			r.Requester = g.Requester
			if r.GrantDigest, err = trust.GrantDigest(r.Grant); err != nil {
				return err
			}
			l, err := c.open(t.Context(), postgres.DefaultRoles.Engine)
			if err != nil {
				return err
			}
			return errors.Join(l.OpenRun(t.Context(), r), l.Close())
		}))
	}
	return append(all, carried(StartKey, "run.opened", "a grant for a second run", func(t testing.TB, c *Copy) error {
		r := c.Open
		r.Root, r.Origin = "again", "again"
		l, err := c.open(t.Context(), postgres.DefaultRoles.Engine)
		if err != nil {
			return err
		}
		return errors.Join(l.OpenRun(t.Context(), r), l.Close())
	}))
}

// signerAttacks are those of one approver of two, of whom the other has not signed.
func (d *Deployment) signerAttacks(state trust.State) (all []*Attack) {
	eve, asFinance, asFay := d.Eve, d.Eve, d.Fay
	asFinance.Role = finance
	asFay.Key = d.Eve.Key
	for _, x := range []struct {
		name   string
		signer []func(t testing.TB) json.RawMessage
	}{
		{name: "alone", signer: []func(t testing.TB) json.RawMessage{d.vote(&eve, nil)}},
		{name: "twice", signer: []func(t testing.TB) json.RawMessage{d.vote(&eve, nil), d.vote(&eve, nil)}},
		{name: "in another role", signer: []func(t testing.TB) json.RawMessage{d.vote(&eve, nil), d.vote(&asFinance, nil)}},
		{name: "as another", signer: []func(t testing.TB) json.RawMessage{d.vote(&eve, nil), d.vote(&asFay, nil)}},
		{name: "of another round", signer: []func(t testing.TB) json.RawMessage{d.vote(&eve, nil), d.vote(&d.Fay, func(p *approval.Payload) { p.Barrier += "0" })}},
		{name: "of another action", signer: []func(t testing.TB) json.RawMessage{d.vote(&eve, nil), d.vote(&d.Fay, func(p *approval.Payload) { p.Actions = []string{d.Plan} })}},
	} {
		all = append(all, shown(SignerKey, "approval.accepted", x.name, func(t testing.TB, d *Deployment) error {
			r, digest, err := approval.Of(&d.Barrier)
			if err != nil {
				return err
			}
			var counted []approval.Vote
			var refused []error
			for _, sign := range x.signer {
				v, err := approval.Verify(state, r, digest, sign(t), time.Now())
				if err == nil {
					err = v.Arrives(ledger.BarrierOpen, counted)
				}
				if err != nil {
					refused = append(refused, err)
					continue
				}
				counted = append(counted, v)
			}
			if len(counted) > 1 {
				return nil
			}
			return errors.Join(append(refused, errors.New("one person of one group has approved"))...)
		}), carried(SignerKey, "approval.accepted", x.name, func(t testing.TB, c *Copy) error {
			l, err := c.open(t.Context(), postgres.DefaultRoles.Guardian)
			if err != nil {
				return err
			}
			for i, sign := range x.signer {
				e := sign(t)
				signer := []string{eve.ID, asFay.ID}[min(i, 1)]
				a := ledger.Approval{ID: approval.ID(e), Barrier: c.Barrier.ID, Accepted: true, Signer: signer, Actions: []string{c.Barrier.Actions[0].Action}, Envelope: e}
				err = errors.Join(err, l.RecordApproval(t.Context(), c.Open, a))
			}
			_, approved := l.ApproveBarrier(t.Context(), c.Barrier.ID, "", false)
			return errors.Join(err, approved, l.Close())
		}))
	}
	return all
}

// vote signs what is asked at the open barrier.
func (d *Deployment) vote(s *stage.Signer, change func(p *approval.Payload)) func(t testing.TB) json.RawMessage {
	return func(t testing.TB) json.RawMessage { return s.Sign(t, d.Barrier, approval.Approve, change) }
}

// guardianAttacks are those of whoever has the guardian's key, or would have one.
func (d *Deployment) guardianAttacks(t testing.TB, state trust.State) (all []*Attack) {
	key, err := trust.ParseKey([]byte(d.GuardianKey))
	require.NoError(t, err)
	now := time.Now()
	permit := trust.Permit{Deployment: d.Root.Deployment, Audience: d.Root.Audience, Guardian: "guardian", Invocation: d.Barrier.Actions[0].Invocation, Decision: d.Barrier.Actions[0].Decision, Call: d.Plan, Issued: ledger.At(now), Expires: ledger.At(now.Add(time.Minute))}
	for _, x := range []struct {
		name   string
		key    *trust.Key
		change func(p *trust.Permit)
	}{
		{"a permit for a call", key, nil},
		{"for longer", key, func(p *trust.Permit) { p.Expires = ledger.At(now.Add(time.Hour)) }},
		{"that is over", key, func(p *trust.Permit) {
			p.Issued, p.Expires = ledger.At(now.Add(-time.Hour)), ledger.At(now.Add(-time.Hour+time.Minute))
		}},
		{"for another effect", key, func(p *trust.Permit) { p.Invocation = "other" }},
		{"for another call", key, func(p *trust.Permit) { p.Call = d.Asks }},
		{"for another deployment", key, func(p *trust.Permit) { p.Deployment = "other" }},
		{"for development", key, func(p *trust.Permit) { p.Audience = trust.Dev }},
		{"as another guardian", key, func(p *trust.Permit) { p.Guardian = "other" }},
		{"with an admin's key", d.Admin, nil},
		{"with an author's key", d.Author, nil},
	} {
		all = append(all, shown(GuardianKey, "permit", x.name, func(testing.TB, *Deployment) error {
			p := permit
			if x.change != nil {
				x.change(&p)
			}
			raw, err := trust.SignPermit(x.key, p)
			if err == nil {
				_, err = trust.VerifyPermit(state, raw, permit, now)
			}
			return err
		}))
	}
	claim := func(name string, claim func(t testing.TB, l ledger.Store) error) {
		all = append(all, &Attack{Thief: GuardianKey, Class: Signature, About: "claim", Name: name, Do: func(t testing.TB, d *Deployment) (o Outcome, says string) {
			d.On(t, func(c *Copy) {
				l, err := c.open(t.Context(), postgres.DefaultRoles.Effects)
				require.NoError(t, err)
				o, says = Unseen, "it is claimed"
				if err := claim(t, l); err != nil {
					o, says = Refused, err.Error()
				}
				require.NoError(t, l.Close())
			})
			return o, says
		}})
	}
	claim("of what was never permitted", func(t testing.TB, l ledger.Store) error {
		_, err := l.Claim(t.Context(), permit.Invocation, permit.Decision, "token", time.Minute)
		return err
	})
	claim("of what has been called", func(t testing.TB, l ledger.Store) error {
		done, err := l.ListTasks(t.Context(), task.StateExecuted, ledger.Page{})
		require.NoError(t, err)
		require.NotEmpty(t, done)
		decision := done[0].Base().TaskID
		i := decision[:strings.LastIndexByte(decision, '/')]
		_, err = l.Claim(t.Context(), i, decision, "token", time.Minute)
		return err
	})
	return all
}

// payloadAttacks are answers by who has the payload key of another role, or none.
func (d *Deployment) payloadAttacks() (all []*Attack) {
	for _, x := range []struct{ by, queue string }{
		{"tools", contract.QueueEffects}, {"tools", contract.QueueGuardian}, {"effects", contract.QueueGuardian}, {"guardian", contract.QueueEffects}, {"tools", contract.QueueJournal}, {"effects", contract.QueueTools},
	} {
		all = append(all, shown(ToolsPayload, "answer", x.by+" on the queue "+x.queue, func(t testing.TB, d *Deployment) error {
			at := converter.ActivitySerializationContext{Namespace: client.DefaultNamespace, WorkflowID: "waits", WorkflowType: contract.WorkflowType, ActivityType: "book/write", TaskQueue: x.queue}
			of := func(key string) converter.DataConverter {
				keys, err := payload.ParseKeys([]string{key})
				require.NoError(t, err)
				return converter.WithDataConverterSerializationContext(payload.NewConverter(nil, payload.Sealing{Keys: keys}), at)
			}
			var theirs, whole string
			for role, key := range d.Keys {
				if string(role) == x.by {
					theirs = key
				}
				if role == "engine" {
					whole = key
				}
			}
			answer, err := of(theirs).ToPayloads(contract.Outcome{Values: []contract.Value{contract.Value(`"forged"`)}, Held: []bool{true}})
			if err != nil {
				return err
			}
			var out contract.Outcome
			return of(whole).FromPayloads(answer, &out)
		}))
	}
	return all
}
