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

// slack is how much later than a statement something may stand in the log that
// was judged before it: whoever wrote it down had read the statements that were
// there.
const slack = time.Minute

// statement is an entry with a statement of admins.
type statement struct {
	claim
	raw []byte
}

// since is what was stated, from an instant on.
type since[T any] struct {
	at   ledger.Time
	what T
}

// past is what statements have said over time, as far as entries are judged by
// their own time. The state at the end is the trust package's.
type past struct {
	// witnesses are the sets of witnesses in order, the bootstrap's first.
	witnesses []trust.Witnesses
	// rotated has the instants at which the log got its second and later keys.
	rotated []ledger.Time
	// keys are those that may start runs for an agent.
	keys map[string][]since[[]string]
	// publishers and signers are when these were revoked.
	publishers, signers map[string]ledger.Time
}

// remember takes the acts of a statement that is verified.
func (p *past) remember(at ledger.Time, acts trust.Acts) {
	for _, act := range acts {
		switch a := act.(type) {
		case *trust.SetWitnesses:
			p.witnesses = append(p.witnesses, a.Witnesses)
		case *trust.RotateLog:
			p.rotated = append(p.rotated, at)
		case *trust.AddAgent:
			p.keys[a.AgentID] = append(p.keys[a.AgentID], since[[]string]{at, a.Keys})
		case *trust.SetAgentKeys:
			p.keys[a.AgentID] = append(p.keys[a.AgentID], since[[]string]{at, a.Keys})
		case *trust.RevokePublisher:
			p.publishers[a.ID] = at
		case *trust.RevokeSigner:
			p.signers[a.ID] = at
		}
	}
}

// during gives the keys that could start runs for an agent at some instant
// between two.
func (p *past) during(agent string, from, to time.Time) []string {
	var out []string
	list := p.keys[agent]
	for i, k := range list {
		ended := i+1 < len(list) && list[i+1].at.Time().Add(slack).Before(from)
		if !ended && !k.at.Time().After(to.Add(slack)) {
			out = append(out, k.what...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// authority holds the admins' statements against the bootstrap of the trust file,
// and what they own against them: signers, agents, trusted tools, budgets, the
// authors of plans, and who has started runs. It gives who must have signed the
// checkpoint.
func (v *verifier) authority() authority {
	b := v.trust.Bootstrap
	own := authority{keys: []string{v.trust.Log}, sets: []trust.Witnesses{{Keys: v.trust.Witnesses, Quorum: v.trust.Quorum}}}
	if b == nil {
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
		return own
	}
	told := &past{witnesses: []trust.Witnesses{b.Witnesses}, keys: map[string][]since[[]string]{}, publishers: map[string]ledger.Time{}, signers: map[string]ledger.Time{}}
	for i, s := range v.statements {
		st, _, err := trust.ParseStatement(s.raw)
		if err == nil {
			err = st.Within(s.at.Time())
		}
		if err != nil {
			v.problem(BadAuthority, s.index, "statement %d: %s", i+1, err)
			return own
		}
		told.remember(s.at, st.Acts)
	}
	v.owned(state)
	v.plans(state, told)
	v.grants(state, told)
	v.approvals(state, told)
	return v.signing(state, told)
}

// authority is who must have signed a checkpoint.
type authority struct {
	// keys are the log's, the one that signs now last, and rotated since when it
	// has each after the first.
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
	// A set that the admins have stated is replaced by the one that they have stated
	// last. The auditor's own is asked for beside that.
	if !slices.ContainsFunc(told.witnesses, func(w trust.Witnesses) bool { return w.Quorum == mine.Quorum && slices.Equal(w.Keys, mine.Keys) }) {
		out.sets = append(out.sets, mine)
	}
	return out
}

// owned holds the rows that statements own against them.
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
		return strings.Compare(a.Agent+"\x00"+string(a.Currency)+"\x00"+a.Period, b.Agent+"\x00"+string(b.Currency)+"\x00"+b.Period)
	}) {
		check(trust.Limited(ctx, have, state, trust.BudgetKey(k)))
	}
}

// plans holds the author's signature of every published plan. An author who was
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
		if at, ok := told.publishers[p.Author]; ok && x.at.Time().After(at.Time().Add(slack)) {
			v.problem(BadAuthority, x.index, "the plan %s was published at %s by %s, who was revoked at %s", x.what, x.at, p.Author, at)
		}
	}
}

// grants holds the start grants of runs: each is for just that run, and was signed
// by a key that could act for the agent then.
func (v *verifier) grants(state trust.State, told *past) {
	for _, x := range v.opened {
		r := x.run
		g, err := trust.ReadGrant(r.Grant)
		if err == nil {
			then := state
			then.Agents = maps.Clone(state.Agents)
			if a, ok := then.Agents[g.Agent]; ok {
				a.Keys = told.during(g.Agent, g.Issued.Time(), x.at.Time())
				then.Agents[g.Agent] = a
			}
			_, err = trust.VerifyGrant(then, r.Grant, trust.Grant{Namespace: g.Namespace, WorkflowID: r.Workflow, Plan: r.PlanDigest, Input: r.InputDigest, Agent: r.Agent}, g.Issued.Time())
		}
		if err == nil && g.Requester != r.Requester {
			err = fmt.Errorf("the grant is of %.120q, not of %.120q", g.Requester, r.Requester)
		}
		switch {
		case err != nil:
			v.problem(BadAuthority, x.index, "the start of %s: %s", r.Workflow, err)
		case r.Origin == r.Root && x.at.Time().After(g.Expires.Time()):
			v.warn(BadTime, x.index, "the start of %s stands in the log at %s, after its grant has expired at %s: the store was away, or a clock was set", r.Workflow, x.at, g.Expires)
		}
	}
}

// approvals holds those that count against their signers at that time.
func (v *verifier) approvals(state trust.State, told *past) {
	for _, x := range v.accepted {
		a, ok := v.model.Approvals[x.what]
		if !ok {
			continue
		}
		s, enrolled := state.Signers[a.Signer]
		revoked, over := told.signers[a.Signer]
		switch {
		case !enrolled:
			v.problem(BadAuthority, x.index, "an approval by %.120q was accepted, whom no statement of the admins has enrolled", a.Signer)
		case x.at.Time().Before(s.NotBefore.Time()) || x.at.Time().After(s.NotAfter.Time()):
			v.problem(BadAuthority, x.index, "an approval by %s was accepted at %s, whose key is valid from %s to %s", a.Signer, x.at, s.NotBefore, s.NotAfter)
		case over && x.at.Time().After(revoked.Time().Add(slack)):
			v.problem(BadAuthority, x.index, "an approval by %s was accepted at %s, who was revoked at %s", a.Signer, x.at, revoked)
		}
	}
	if n := len(v.accepted); n > 0 {
		v.warn(BadAuthority, -1, "the signers of %d approvals are verified, and their signatures are not: this version does not know their form", n)
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

func (r rows) Budget(_ context.Context, agent string, c ledger.Currency, period string) (ledger.Budget, error) {
	return row(r.Budgets, model.BudgetKey{Agent: agent, Currency: c, Period: period})
}
