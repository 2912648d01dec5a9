package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
	"chimera.ai/engine/trust"
)

// slack is how long after a statement the log may have an entry that was decided
// before it, because its writer had read the earlier statements.
const slack = time.Minute

// statement is an entry with a statement of admins.
type statement struct {
	claim
	raw []byte
}

// since is what was stated, from which entry on.
type since[T any] struct {
	claim
	what T
}

// tenure is from when to when somebody could sign; to is nil while that is open.
type tenure struct {
	from claim
	to   *claim
}

// past is the history of statements, as far as entries are judged by their own
// time. Package trust has the state at the end.
type past struct {
	// witnesses are the sets of witnesses in order, the bootstrap's first.
	witnesses []trust.Witnesses
	// rotated has the instants at which the log got its second and later keys.
	rotated []ledger.Time
	// keys are the keys that may start runs for an agent.
	keys map[string][]since[[]string]
	// publishers and signers are by their ids, which are never used again.
	publishers, signers, guardians map[string]tenure
	// roles are those that signers were given after they were enrolled.
	roles map[string][]string
	// bundles are the digests of the policy bundles that were activated.
	bundles []since[string]
	budgets map[trust.BudgetKey][]since[*trust.SetBudget]
	tools   map[string][]since[*trust.TrustTool]
}

// remember records the acts of a verified statement.
func (p *past) remember(at claim, acts trust.Acts) {
	end := func(of map[string]tenure, id string) {
		t := of[id]
		t.to = &at
		of[id] = t
	}
	for _, act := range acts {
		switch a := act.(type) {
		case *trust.SetWitnesses:
			p.witnesses = append(p.witnesses, a.Witnesses)
		case *trust.RotateLog:
			p.rotated = append(p.rotated, at.at)
		case *trust.AddAgent:
			p.keys[a.AgentID] = append(p.keys[a.AgentID], since[[]string]{at, a.Keys})
		case *trust.SetAgentKeys:
			p.keys[a.AgentID] = append(p.keys[a.AgentID], since[[]string]{at, a.Keys})
		case *trust.AddPublisher:
			p.publishers[a.ID] = tenure{from: at}
		case *trust.RevokePublisher:
			end(p.publishers, a.ID)
		case *trust.EnrollSigner:
			p.signers[a.ID] = tenure{from: at}
		case *trust.GrantRoles:
			p.roles[a.Signer] = append(p.roles[a.Signer], a.Roles...)
		case *trust.RevokeSigner:
			end(p.signers, a.ID)
		case *trust.AddGuardian:
			p.guardians[a.ID] = tenure{from: at}
		case *trust.RevokeGuardian:
			end(p.guardians, a.ID)
		case *trust.ActivateBundle:
			p.bundles = append(p.bundles, since[string]{at, a.Digest})
		case *trust.SetBudget:
			k := trust.BudgetKey{Agent: a.Agent, Currency: a.Currency}
			p.budgets[k] = append(p.budgets[k], since[*trust.SetBudget]{at, a})
		case *trust.TrustTool:
			p.tools[a.ToolID] = append(p.tools[a.ToolID], since[*trust.TrustTool]{at, a})
		}
	}
}

// held returns the statements that may have applied when an entry was stated: the
// last one before it, and those replaced so shortly before that the writer of the
// entry may not have seen it.
func held[T any](list []since[T], x claim) (out []T) {
	for i, s := range list {
		if s.index < x.index && (i+1 == len(list) || !x.after(list[i+1].claim)) {
			out = append(out, s.what)
		}
	}
	return out
}

// during returns the keys that could start runs for an agent when an entry was
// stated, or at any time before if it continues an older start.
func (p *past) during(x start) []string {
	var out []string
	list := p.keys[x.run.Agent]
	sets := held(list, x.claim)
	if x.inherited {
		sets = nil
		for _, s := range list {
			sets = append(sets, s.what)
		}
	}
	for _, k := range sets {
		out = append(out, k...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// authority verifies the admins' statements from the bootstrap of the trust file,
// and checks what depends on them: signers, agents, trusted tools, budgets, the
// authors of plans, and the starters of runs. It returns who must have signed the
// checkpoint.
func (v *verifier) authority() authority {
	b := v.trust.Bootstrap
	own := authority{keys: []string{v.trust.Log}, sets: []trust.Witnesses{{Keys: v.trust.Witnesses, Quorum: v.trust.Quorum}}}
	if b == nil {
		v.dated(own.keys, v.trust.Witnesses)
		for _, x := range v.opened {
			if err := namesGrant(x.run); err != nil {
				v.problem(BadAuthority, x.index, "the start of %s: %s", x.run.Workflow, err)
			}
		}
		if n := v.effectsWithoutGrant; n > 0 {
			v.warn(BadAuthority, v.ungranted[0].index, "%s permitted in runs that were started without a grant, the first in %s", count(n, "effect was", "effects were"), v.ungranted[0].what)
		}
		v.overdrawn(func(*ledger.Hold) string { return "" })
		if len(v.Overdrafts) > 0 {
			v.warn(BadAuthority, v.overdrafts[0].index, "some holds exceed budgets, and whose approval counts is not verified: the trust file has no bootstrap")
		}
		if n := len(v.statements); n > 0 {
			v.warn(BadAuthority, -1, "%d statements of admins are not verified: the trust file has no bootstrap", n)
		}
		return own
	}
	raw := make([][]byte, len(v.statements))
	for i, s := range v.statements {
		raw[i] = s.raw
	}
	state, problems := trust.VerifyStatements(b, raw)
	for _, p := range problems {
		index := int64(-1)
		if p.N > 0 && p.N <= len(v.statements) {
			index = v.statements[p.N-1].index
		}
		v.problem(BadAuthority, index, "%s", p)
	}
	if len(problems) > 0 {
		v.dated(own.keys, v.witnessesOf([]trust.Witnesses{b.Witnesses}))
		return own
	}
	v.datedBy(state)
	v.order()
	told := &past{
		witnesses: []trust.Witnesses{b.Witnesses}, keys: map[string][]since[[]string]{}, publishers: map[string]tenure{}, signers: map[string]tenure{}, guardians: map[string]tenure{}, roles: map[string][]string{},
		budgets: map[trust.BudgetKey][]since[*trust.SetBudget]{}, tools: map[string][]since[*trust.TrustTool]{},
	}
	for i, s := range v.statements {
		st, _, err := trust.ParseStatement(s.raw)
		if err == nil {
			err = st.Within(s.at.Time())
		}
		if err != nil {
			v.problem(BadAuthority, s.index, "statement %d: %s", i+1, err)
			return own
		}
		told.remember(s.claim, st.Acts)
	}
	if len(v.trust.Namespaces) == 0 && len(v.opened)+len(v.orders)+len(v.barriers) > 0 {
		v.warn(BadAuthority, -1, "the trust file names no namespace: grants, orders and approvals count whatever namespace they are for")
	}
	v.owned(state)
	v.rows(told)
	v.plans(state, told)
	v.grants(state, told)
	for _, x := range v.ungranted {
		v.problem(BadAuthority, x.index, "an effect was permitted in the run %s, which was started without a grant", x.what)
	}
	v.ordered(state, told)
	v.asked(state, told)
	v.governed(state, told)
	votes := v.approvals(state, told)
	v.licensed(votes)
	v.overdrawn(func(h *ledger.Hold) string { return v.mayOverdraw(h, votes) })
	v.stated(votes)
	v.permitted(state, told)
	return v.signing(state, told)
}

// authority is who must have signed a checkpoint.
type authority struct {
	// keys are the log's keys, the current one last, and rotated since when it
	// has each but the first.
	keys    []string
	rotated []ledger.Time
	// sets of witnesses must each have cosigned, as many as their quorum.
	sets []trust.Witnesses
}

// signing says who must have signed the checkpoint, by the trust file and what
// the admins have stated since.
func (v *verifier) signing(state trust.State, told *past) authority {
	out := authority{keys: nil, rotated: told.rotated, sets: []trust.Witnesses{state.Witnesses}}
	for _, k := range state.LogKeys {
		out.keys = append(out.keys, k.Key)
	}
	if !slices.Contains(state.LogKeys, trust.LogKey{Origin: v.trust.Origin, Key: v.trust.Log}) {
		v.problem(BadAuthority, -1, "the log's key in the trust file is not one that the admins have stated in this log: the trust file is of another log, or the statement of its key was withheld")
		out.keys = []string{v.trust.Log}
	}
	mine := trust.Witnesses{Keys: v.trust.Witnesses, Quorum: v.trust.Quorum}
	// The last set that the admins have stated replaces the earlier ones. The
	// auditor's own set is required in addition.
	if !slices.ContainsFunc(told.witnesses, func(w trust.Witnesses) bool { return w.Quorum == mine.Quorum && slices.Equal(w.Keys, mine.Keys) }) {
		out.sets = append(out.sets, mine)
	}
	return out
}

// owned compares the rows that depend on statements with them.
func (v *verifier) owned(state trust.State) {
	ctx, have := context.Background(), rows{v.model}
	check := func(_ any, err error) {
		if err != nil {
			v.problem(BadAuthority, -1, "%s", err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.model.Signers)) {
		check(trust.Enrolled(ctx, have, state, id))
	}
	for _, id := range slices.Sorted(maps.Keys(v.model.Agents)) {
		check(trust.Known(ctx, have, state, id))
	}
	for _, id := range slices.Sorted(maps.Keys(v.model.Tools)) {
		check(trust.Trusted(ctx, have, state, id))
	}
	for _, k := range slices.SortedFunc(maps.Keys(v.model.Budgets), func(a, b model.BudgetKey) int {
		return strings.Compare(a.Agent+"\x00"+string(a.Currency), b.Agent+"\x00"+string(b.Currency))
	}) {
		check(trust.Limited(ctx, have, state, trust.BudgetKey(k)))
	}
}

// rows compares every limit of a budget and every trust state of a tool with what
// was stated when it was written: a correct last one says nothing about those
// before.
func (v *verifier) rows(told *past) {
	for _, x := range v.limits {
		d := x.data
		said := held(told.budgets[trust.BudgetKey{Agent: d.Agent, Currency: d.Currency}], x.claim)
		if !slices.ContainsFunc(said, func(b *trust.SetBudget) bool { return b.Limit == d.Limit && b.Parent == d.Parent && b.Every == d.Every }) {
			v.problem(BadAuthority, x.index, "the budget of %s was set to %s for each %s, which the admins had not stated then", d.Agent, d.Limit, d.Every)
		}
	}
	for _, x := range v.trusted {
		d := x.data
		said := held(told.tools[d.ToolID], x.claim)
		// A tool that was just imported waits, whatever was stated about it.
		waits := d.Status != "allow_auto" && (x.imported || len(said) == 0)
		if d.Status != "block" && !waits && !slices.ContainsFunc(said, func(t *trust.TrustTool) bool { return t.Status == d.Status }) {
			v.problem(BadAuthority, x.index, "the tool %s became %s, which the admins had not stated then", d.ToolID, d.Status)
		}
	}
}

// plans verifies the author's signature of every published plan. An author who was
// revoked later was one then.
func (v *verifier) plans(state trust.State, told *past) {
	for _, x := range v.published {
		p, ok := v.model.Plans[x.what]
		if !ok {
			continue // the model has told why
		}
		if len(p.Signature) == 0 {
			v.problem(BadAuthority, x.index, "the plan %s was published without its author's signature", x.what)
			continue
		}
		if _, err := trust.Published(state, x.what, p); err != nil {
			v.problem(BadAuthority, x.index, "%s", err)
			continue
		}
		// Publishing first reads whether the author may publish.
		switch t := told.publishers[p.Author]; {
		case x.index < t.from.index:
			v.problem(BadAuthority, x.index, "the plan %s was published by %s, whom the admins had not stated yet", x.what, p.Author)
		case t.to != nil && x.after(*t.to):
			v.problem(BadAuthority, x.index, "the plan %s was published at %s by %s, who was revoked at %s", x.what, x.at, p.Author, t.to.at)
		}
	}
}

// grants verifies the start grants of runs: each is for just that run, and was
// signed by a key that could act for the agent then.
func (v *verifier) grants(state trust.State, told *past) {
	for _, x := range v.opened {
		r := x.run
		g, err := trust.ReadGrant(r.Grant)
		if err == nil {
			err = namesGrant(r)
		}
		if err == nil {
			then := state
			then.Agents = maps.Clone(state.Agents)
			if a, ok := then.Agents[g.Agent]; ok {
				a.Keys = told.during(x)
				then.Agents[g.Agent] = a
			}
			_, err = trust.VerifyGrant(then, r.Grant, trust.Grant{Namespace: g.Namespace, WorkflowID: r.Workflow, Plan: r.PlanDigest, Input: r.InputDigest, Agent: r.Agent}, g.Issued.Time())
		}
		if err == nil {
			err = v.trust.elsewhere(g.Namespace)
		}
		if err == nil && g.Requester != r.Requester {
			err = fmt.Errorf("the grant is of %.120q, not of %.120q", g.Requester, r.Requester)
		}
		switch {
		case err != nil:
			v.problem(BadAuthority, x.index, "the start of %s: %s", r.Workflow, err)
		case !x.inherited && x.at.Time().After(g.Expires.Time()):
			v.warn(BadTime, x.index, "the start of %s stands in the log at %s, after its grant has expired at %s: the store was away, or a clock was set", r.Workflow, x.at, g.Expires)
		}
	}
}

// namesGrant compares the digest under which a start grant is used up with the
// grant.
func namesGrant(r ledger.Run) error {
	digest, err := trust.GrantDigest(r.Grant)
	if err == nil && digest != r.GrantDigest {
		err = fmt.Errorf("its start grant is kept as %.80q, and is %s", r.GrantDigest, digest)
	}
	return err
}

// governed checks that each decision is by the policy that the admins had activated then. One that
// approves nothing may be by that of a decision before it, by which people were asked. In
// development nobody activates one.
func (v *verifier) governed(state trust.State, told *past) {
	if state.Audience == trust.Dev {
		return
	}
	v.budgeted(told)
	by := map[[2]string]bool{} // invocations with the policies of their decisions
	vague := map[string]bool{} // invocations not all of whose decisions are known
	for thing := range v.model.Vague {
		if id, ok := strings.CutPrefix(thing, "decision:"); ok {
			vague[id[:max(strings.LastIndexByte(id, '/'), 0)]] = true
		}
	}
	for _, x := range v.decided {
		d, ok := v.model.Decisions[x.what]
		if !ok {
			continue
		}
		at := [2]string{d.Invocation, d.PolicyDigest}
		if slices.Contains(held(told.bundles, x), d.PolicyDigest) {
			by[at] = true
		} else if d.Decision == ledger.Approve || !by[at] && !vague[d.Invocation] {
			v.problem(BadAuthority, x.index, "the decision %s is by the policy %.80q, which the admins had not activated then", d.ID, d.PolicyDigest)
		}
	}
}

// budgeted checks that no decision was made as if its agent had no budget, where the admins had
// stated one well before. A call that may be repeated costs nothing more.
func (v *verifier) budgeted(told *past) {
	of := map[string][]claim{}
	for k, list := range told.budgets {
		for _, s := range list {
			of[k.Agent] = append(of[k.Agent], s.claim)
		}
	}
	before := map[string]bool{} // invocations that were free
	for _, x := range v.decided {
		agent, free := v.free[x.what]
		invocation := x.what[:max(strings.LastIndexByte(x.what, '/'), 0)]
		if !free || before[invocation] {
			continue
		}
		before[invocation] = true
		if slices.ContainsFunc(of[agent], func(s claim) bool { return s.index < x.index && x.after(s) }) {
			v.problem(BadAuthority, x.index, "the decision %s was made as if %s had no budget, which the admins had stated", x.what, agent)
		}
	}
}

// permitted verifies the permits of effects: each is for just that invocation and decision,
// for no longer than the ledger has it, and was signed by a key of a guardian then, by its
// place in the log.
func (v *verifier) permitted(state trust.State, told *past) {
	then := state
	then.Guardians = maps.Clone(state.Guardians)
	for id, g := range then.Guardians {
		g.Revoked = nil
		then.Guardians[id] = g
	}
	for _, x := range v.permits {
		p, err := trust.ReadPermit(x.of.Permit)
		if err == nil {
			_, err = trust.VerifyPermit(then, x.of.Permit, trust.Permit{Invocation: x.of.ID, Call: p.Call}, p.Issued.Time())
		}
		t := told.guardians[p.Guardian]
		switch {
		case err != nil:
			v.problem(BadAuthority, x.index, "the permit of %s: %s", x.of.ID, err)
		case p.Decision != x.of.DecisionID:
			v.problem(BadAuthority, x.index, "the permit of %s rests on the decision %.120q, not on %s", x.of.ID, p.Decision, x.of.DecisionID)
		case v.calls[x.of.DecisionID] != "" && v.calls[x.of.DecisionID] != p.Call:
			v.problem(BadAuthority, x.index, "the permit of %s is for another call than its decision", x.of.ID)
		case p.Expires.Time().After(x.of.PermitUntil.Time()):
			v.problem(BadAuthority, x.index, "the permit of %s may be used until %s, and by the ledger until %s", x.of.ID, p.Expires, x.of.PermitUntil)
		case x.index < t.from.index:
			v.problem(BadAuthority, x.index, "the permit of %s was signed by %s, whom the admins had not stated yet", x.of.ID, p.Guardian)
		case t.to != nil && x.after(*t.to):
			v.problem(BadAuthority, x.index, "the permit of %s was signed at %s by %s, who was revoked at %s", x.of.ID, x.at, p.Guardian, t.to.at)
		}
	}
}

// rows are what a log says, as a store would.
type rows struct{ *model.State }

func row[K comparable, V any](m map[K]V, k K) (V, error) {
	v, ok := m[k]
	if !ok {
		return v, ledger.ErrNotFound
	}
	return v, nil
}

func (r rows) Agent(_ context.Context, id string) (ledger.Agent, error) { return row(r.Agents, id) }

func (r rows) Signer(_ context.Context, id string) (ledger.Signer, error) { return row(r.Signers, id) }

func (r rows) Tool(_ context.Context, id string) (ledger.Tool, error) { return row(r.Tools, id) }

func (r rows) Budget(_ context.Context, agent string, c ledger.Currency) (ledger.Budget, error) {
	b, err := row(r.Budgets, model.BudgetKey{Agent: agent, Currency: c})
	return ledger.Budget{Agent: b.Agent, Currency: b.Currency, Parent: b.Parent, Every: b.Every, Limit: b.Limit}, err
}
