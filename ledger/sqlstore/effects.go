package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
)

// An invocation belongs to an origin, and so to several runs. Its own lock is taken
// before those of chains, which are taken in the order of their names: the budget's,
// then the run's; that of hypotheses comes last of all. The entries about it are in the chain of the run that was last
// permitted to call.

const selectInvocation = `SELECT chain, subject_key, salt, id, origin, action_digest, decision_id, task_id, hold_id, repeatable, permit, permit_until, unused, token,
	state, attempt, doubted, call_not_after, output_digest, output FROM invocations`

// row is an invocation with what only the store needs of it.
type row struct {
	ledger.Invocation
	chain, token string
	salt         []byte
	// subject names the key with which salt, permit, output and its digest are sealed, or is "".
	subject string
	// last is the last decision about it, or "", and waits the hold of that if the action
	// waits at a barrier, or "".
	last, waits string
}

func scanInvocation(scan func(...any) error) (r row, err error) {
	var until sql.NullInt64
	var permit string
	var subject sql.NullString
	var permitUntil int64
	err = scan(&r.chain, &subject, &r.salt, &r.ID, &r.Origin, &r.ActionDigest, &r.DecisionID, &r.TaskID, &r.HoldID, &r.Repeatable, &permit, &permitUntil, &r.Unused, &r.token,
		&r.State, &r.Attempt, &r.Doubted, &until, &r.OutputDigest, &r.Output)
	r.Permit, r.PermitUntil, r.subject = json.RawMessage(permit), instant(permitUntil), subject.String
	if until.Valid {
		t := instant(until.Int64)
		r.CallNotAfter = &t
	}
	return r, err
}

// invocation locks an invocation and reads it. One that there is not is a zero row.
func (t *tx) invocation(ctx context.Context, id string) (row, error) {
	if err := t.beside(ctx, "invocation "+id); err != nil {
		return row{}, err
	}
	r, err := scanInvocation(t.row(ctx, selectInvocation+" WHERE id = $1", id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return row{}, nil
	}
	if err != nil {
		return r, err
	}
	return t.opener().invocation(ctx, r)
}

// invocation opens what is sealed of an invocation. Of a person who is erased nothing is
// left.
func (o *opener) invocation(ctx context.Context, r row) (row, error) {
	if r.subject == "" {
		return r, nil
	}
	permit, err := o.open(ctx, string(r.Permit))
	if errors.Is(err, sql.ErrNoRows) {
		permit, err = []byte("null"), nil
	}
	if err != nil {
		return r, err
	}
	r.Permit = permit
	if r.salt, err = o.openBytes(ctx, r.salt); err != nil {
		return r, err
	}
	digest, err := o.openBytes(ctx, []byte(r.OutputDigest))
	if err != nil {
		return r, err
	}
	r.OutputDigest = string(digest)
	r.Output, err = o.openBytes(ctx, r.Output)
	return r, err
}

// taken sets how long the call of an invocation may take to what the entry of the call says, as
// long as that can be read: who makes calls may write the row. What says nothing, or more than a
// call may take, does not keep the call from being over.
func (t *tx) taken(ctx context.Context, r *row) error {
	if r.State != ledger.Calling {
		return nil
	}
	var raw []byte
	err := t.row(ctx, "SELECT bytes FROM entries WHERE chain = $1 AND key = $2", r.chain, ofInvocation(*r, ledger.InvocationCalling, "", r.Attempt).Key).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	e, err := ledger.DecodeEntry(raw)
	if err != nil {
		return nil
	}
	said, err := t.attempt(ctx, e.Body)
	if err != nil || said == nil {
		return err
	}
	most := ledger.At(e.At.Time().Add(maxCall))
	if r.CallNotAfter = said; said.Time().After(most.Time()) {
		r.CallNotAfter = &most
	}
	return nil
}

// maxCall is how long a call may take, as the triggers of databases have it.
const maxCall = 25 * time.Hour

// attempt reads from the body of a call's entry how long it may take, or nil if that is gone, or
// nobody can ever read it.
func (t *tx) attempt(ctx context.Context, digest string) (*ledger.Time, error) {
	var raw []byte
	var id sql.NullString
	err := t.row(ctx, "SELECT bytes, subject_key FROM bodies WHERE digest = $1", digest).Scan(&raw, &id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if id.Valid {
		// Whoever lacks the keyring waits for it.
		key, err := t.opener().key(ctx, id.String)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if raw, err = ledger.Unseal(key, raw); err != nil {
			return nil, nil
		}
	}
	body, err := ledger.DecodeBody(raw)
	var said ledger.AttemptData
	if err != nil || json.Unmarshal(body.Data, &said) != nil {
		return nil, nil
	}
	return said.CallNotAfter, nil
}

// Authorize implements [ledger.Effects].
func (s *Store) Authorize(ctx context.Context, run ledger.Run, a ledger.Authorization, judge func(ledger.Standing) (ledger.Ruling, error)) (out ledger.Authorized, err error) {
	err = s.do(ctx, "authorize "+a.ID, func(t *tx) error {
		if a.ID == "" || len(a.ID) > maxInvocation {
			return fmt.Errorf("%w: %.80q is no id of an invocation", ledger.ErrInvalid, a.ID)
		}
		if a.Salt != nil && len(a.Salt) != saltBytes {
			return fmt.Errorf("%w: a salt of %d bytes", ledger.ErrInvalid, len(a.Salt))
		}
		have, err := t.invocation(ctx, a.ID)
		if err != nil {
			return err
		}
		if err := t.taken(ctx, &have); err != nil {
			return err
		}
		if err := t.before(ctx, &a, &have); err != nil {
			return err
		}
		if err := t.lockMoney(ctx, a.Cost, have.HoldID, have.waits); err != nil {
			return err
		}
		tasks, err := t.awaitedAt(ctx, a, have.last)
		if err != nil {
			return err
		}
		if err := t.lockRuns(ctx, append(tasks, run.Chain())...); err != nil {
			return err
		}
		if err := t.open(ctx, run.Workflow, run.Root, true); err != nil {
			return err
		}
		out = ledger.Authorized{Invocation: have.Invocation, Salt: have.salt}
		action, err := a.Digest(have.salt)
		if err != nil {
			return err
		}
		if out.Course, err = have.Course(action, t.now); err != nil {
			return err
		}
		switch out.Course {
		case ledger.Stands:
			out.Decision, err = locked[ledger.Decision](ctx, t, "SELECT doc FROM decisions WHERE id = $1", have.DecisionID)
			if errors.Is(err, sql.ErrNoRows) {
				return nil // it was erased
			}
			return err
		case ledger.Wait, ledger.Resolve:
			return nil
		case ledger.Decide:
		}
		var foreseen *ledger.Hypothesis
		if err := t.decide(ctx, run, a, action, have, func(st ledger.Standing) (ledger.Ruling, error) {
			r, err := judge(st)
			foreseen = r.Hypothesis
			return r, err
		}, &out); err != nil || foreseen == nil {
			return err
		}
		sealed, err := t.sealing(ctx, run.Chain())
		if err != nil {
			return err
		}
		h := *foreseen
		h.AgentID = run.Agent
		return t.foresee(ctx, h, sealed)
	})
	if err != nil {
		return ledger.Authorized{Invocation: out.Invocation}, err
	}
	return out, nil
}

// lockRuns locks chains of runs, in the order of their names.
func (t *tx) lockRuns(ctx context.Context, chains ...string) error {
	slices.Sort(chains)
	for _, c := range chains {
		if err := t.lock(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// before completes an invocation by the last decision about it: the salt, and the hold of
// an action that waits.
func (t *tx) before(ctx context.Context, a *ledger.Authorization, have *row) error {
	var decision string
	var salted []byte
	err := t.row(ctx, "SELECT id, salt FROM decisions WHERE invocation = $1 ORDER BY length(id) DESC, id DESC LIMIT 1", a.ID).Scan(&decision, &salted)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if len(salted) > saltBytes { // it is sealed
		if salted, err = t.opener().openBytes(ctx, salted); err != nil {
			return err
		}
	}
	if have.State == "" {
		if have.salt = salted; len(salted) == 0 {
			if have.salt = a.Salt; a.Salt == nil {
				fresh := salt()
				have.salt = fresh[:]
			}
		}
	}
	if have.last = decision; decision == "" || decision == have.HoldID {
		return nil
	}
	h, err := scanHold(t.row(ctx, selectHold+" WHERE id = $1", decision).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil && h.Status == ledger.TxPending && !h.Running {
		have.waits = h.ID
	}
	return err
}

// lockMoney locks the chains of a cost and of holds, in the order of their names. Holds may
// be "".
func (t *tx) lockMoney(ctx context.Context, cost *ledger.Money, holds ...string) error {
	var chains []string
	if cost != nil {
		if cost.Currency() == "" || cost.Minor() < 0 {
			return fmt.Errorf("%w: %w: a cost of %s", ledger.ErrInvalid, ledger.ErrAmount, *cost)
		}
		chains = append(chains, ledger.BudgetChain(cost.Currency()))
	}
	for _, hold := range holds {
		if hold == "" {
			continue
		}
		h, err := scanHold(t.row(ctx, selectHold+" WHERE id = $1", hold).Scan)
		if err != nil {
			return err
		}
		chains = append(chains, ledger.BudgetChain(h.Amount.Currency()))
	}
	slices.Sort(chains)
	for _, c := range slices.Compact(chains) {
		if err := t.lock(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// maxInvocation bounds the id of an invocation: a decision's is longer.
const maxInvocation = maxText - 16

// decide decides on an action, and permits it if it is approved.
func (t *tx) decide(ctx context.Context, run ledger.Run, a ledger.Authorization, action string, have row, judge func(ledger.Standing) (ledger.Ruling, error), out *ledger.Authorized) error {
	var number int
	if err := t.row(ctx, "SELECT count(*) FROM decisions WHERE invocation = $1", a.ID).Scan(&number); err != nil {
		return err
	}
	st := ledger.Standing{At: t.now, Until: ledger.At(t.now.Time().Add(a.Life)), Decision: fmt.Sprintf("%s/%d", a.ID, number+1), ActionDigest: action, Salt: have.salt}
	if err := t.row(ctx, "SELECT count(*) FROM invocations WHERE origin = $1 AND id <> $2", run.Origin, a.ID).Scan(&st.Calls); err != nil {
		return err
	}
	st.Calls++
	charges, err := t.money(ctx, a, have, &st)
	if err != nil {
		return err
	}
	ruling, err := judge(st)
	if err != nil {
		return err
	}
	d := ruling.Decision
	if !ledger.KnownDecision(d.Decision) {
		return fmt.Errorf("%w: %.40q is not a decision", ledger.ErrInvalid, d.Decision)
	}
	if err := d.Compensation.Check(); err != nil {
		return err
	}
	d.ID, d.Invocation, d.ActionDigest, d.DecidedAt = st.Decision, a.ID, action, t.now
	approved := d.Decision == ledger.Approve
	waits := !approved && ruling.Waits != nil
	if charges != nil {
		if approved || waits {
			h := ledger.Hold{ID: st.Hold, Agent: a.Agent, Charges: charges, Amount: *a.Cost, Overdraft: a.Overdraft, ExpiresAt: st.Until, Call: a.Call}
			if waits {
				h.ExpiresAt = *ruling.Waits
			}
			if _, err := t.hold(ctx, h); err != nil {
				return err
			}
		} else if err := t.free(ctx, *a.Cost, charges); err != nil {
			return err
		}
	}
	if err := t.decided(ctx, run, d, a.Operation, have.salt, ruling.Evidence); err != nil {
		return err
	}
	out.Decision = d
	drafted, err := t.undersigned(ctx, a, action)
	if err != nil {
		return err
	}
	if approved && drafted != nil {
		if err := t.consume(ctx, run, a, &d); err != nil {
			return err
		}
		return t.allow(ctx, run, a, action, have, st, &ruling, drafted, out)
	}
	for _, id := range []string{have.last, taskOf(drafted)} {
		if err := t.superseded(ctx, id); err != nil {
			return err
		}
	}
	draft := a.Task
	draft.TaskID, draft.State, draft.CreatedAt = d.ID, task.StateDraft, t.now.Time()
	if err := t.drafted(ctx, run, draft); err != nil {
		return err
	}
	switch {
	case approved:
		if err := t.consume(ctx, run, a, &d); err != nil {
			return err
		}
		return t.allow(ctx, run, a, action, have, st, &ruling, &awaited{Draft: draft, chain: run.Chain()}, out)
	case waits:
		return nil
	}
	return t.dropped(ctx, awaited{Draft: draft, chain: run.Chain()}, "the decision is "+d.Decision)
}

// allow signs the task of an approved action, unless it is, and permits the call.
func (t *tx) allow(ctx context.Context, run ledger.Run, a ledger.Authorization, action string, have row, st ledger.Standing, ruling *ledger.Ruling, of *awaited, out *ledger.Authorized) (err error) {
	if !of.signed {
		if err := t.signed(ctx, of, ruling.Signature); err != nil {
			return err
		}
	}
	out.Invocation, err = t.permit(ctx, run, have, ledger.Permission{
		ID: a.ID, Origin: run.Origin, ActionDigest: action, DecisionID: out.Decision.ID, TaskID: of.TaskID, HoldID: st.Hold, Repeatable: a.Repeatable,
		Permit: ruling.Permit, Until: st.Until,
	})
	return err
}

// money reserves the cost of an action, and says in st what became of that. charges are
// the budgets that it was taken from, nil if nothing was. The hold of a call that may have
// happened stays, and any other is voided.
func (t *tx) money(ctx context.Context, a ledger.Authorization, have row, st *ledger.Standing) (charges []ledger.Charge, err error) {
	if have.State == ledger.Calling || have.State == ledger.Unknown {
		if st.Money = ledger.NoBudget; have.HoldID != "" {
			st.Money, st.Hold = ledger.Reserved, have.HoldID
		}
		return nil, nil
	}
	for _, id := range []string{have.HoldID, have.waits} {
		if id == "" {
			continue
		}
		if err := t.voided(ctx, id); err != nil {
			return nil, err
		}
	}
	currency := ledger.Currency("")
	if a.Cost != nil {
		currency = a.Cost.Currency()
	}
	budgets, own, err := t.budgets(ctx, a.Agent, currency)
	switch {
	case err != nil:
		return nil, err
	case budgets == 0 && a.Call == nil:
		st.Money = ledger.NoBudget
		return nil, nil
	case a.Cost == nil:
		st.Money = ledger.Unpriced
		return nil, nil
	case own == 0 && budgets > 0:
		st.Money, st.Detail = ledger.Mismatched, fmt.Sprintf("%s has no budget in %s", a.Agent, currency)
		return nil, nil
	}
	charges, why, err := t.afford(ctx, a.Agent, *a.Cost, a.Overdraft, a.Call)
	switch {
	case err != nil:
		return nil, err
	case why != "":
		st.Money, st.Detail = ledger.Exceeded, why
		return nil, nil
	}
	st.Money, st.Hold = ledger.Reserved, st.Decision
	return charges, nil
}

// voided voids a hold that was never used, whose chain is locked.
func (t *tx) voided(ctx context.Context, id string) error {
	h, err := scanHold(t.row(ctx, selectHold+" WHERE id = $1", id).Scan)
	if err == nil && h.Status == ledger.TxPending {
		_, err = t.move(ctx, h, ledger.TxVoided, ledger.HoldVoided, nil)
	}
	return err
}

// decided states a decision with its evidence.
func (t *tx) decided(ctx context.Context, run ledger.Run, d ledger.Decision, operation string, salt []byte, evidence ledger.Packet) error {
	sealed, err := t.sealing(ctx, run.Chain())
	if err != nil {
		return err
	}
	packet, err := t.packet(ctx, evidence, sealed)
	if err != nil {
		return err
	}
	d.Evidence = packet
	doc, err := sealed.keep(d, nil)
	if err != nil {
		return err
	}
	if salt, err = sealed.keepBytes(salt); err != nil {
		return err
	}
	if _, err := t.exec(ctx, "INSERT INTO decisions (id, invocation, chain, operation, at, salt, doc) VALUES ($1, $2, $3, $4, $5, $6, $7)",
		d.ID, d.Invocation, run.Chain(), operation, millis(d.DecidedAt), salt, doc); err != nil {
		return err
	}
	draft := t.ofRun(run, ledger.DecisionMade, key(ledger.DecisionMade, d.ID))
	draft.Refs = refs("action", d.ActionDigest, ledger.EvidenceRef, packet, "policy", d.PolicyDigest)
	_, err = t.state(ctx, draft, d)
	return err
}

// permit gives an invocation a permit.
func (t *tx) permit(ctx context.Context, run ledger.Run, have row, p ledger.Permission) (ledger.Invocation, error) {
	if len(p.Permit) > maxPermit {
		return have.Invocation, fmt.Errorf("%w: the permit has %d bytes, more than %d", ledger.ErrInvalid, len(p.Permit), maxPermit)
	}
	var err error
	if p.Permit, err = canonical(p.Permit); err != nil {
		return have.Invocation, err
	}
	i, err := have.Allow(p, t.now)
	if err != nil {
		return have.Invocation, err
	}
	sealed, err := t.sealing(ctx, run.Chain())
	if err != nil {
		return i, err
	}
	permit := string(i.Permit)
	if sealed != nil {
		if permit, err = sealed.keep(i.Permit, nil); err != nil {
			return i, err
		}
	}
	args := []any{i.ID, run.Chain(), i.Origin, i.ActionDigest, i.DecisionID, i.HoldID, i.Repeatable, permit, millis(i.PermitUntil), string(i.State), i.TaskID}
	query := `INSERT INTO invocations (id, chain, origin, action_digest, decision_id, hold_id, repeatable, permit, permit_until, state, task_id, salt, subject_key, unused, token, attempt, output_digest)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, TRUE, '', 0, '')`
	if have.State == "" {
		kept, err := sealed.keepBytes(have.salt)
		if err != nil {
			return i, err
		}
		args = append(args, kept, sealed.name())
	} else {
		query = `UPDATE invocations SET chain = $2, origin = $3, action_digest = $4, decision_id = $5, hold_id = $6, repeatable = $7, permit = $8, permit_until = $9,
			state = $10, task_id = $11, unused = TRUE WHERE id = $1`
	}
	if _, err := t.exec(ctx, query, args...); err != nil {
		return i, err
	}
	draft := t.ofRun(run, ledger.InvocationPermitted, key(ledger.InvocationPermitted, i.DecisionID))
	draft.Refs = refs("action", i.ActionDigest)
	_, err = t.state(ctx, draft, i)
	return i, err
}

// maxPermit bounds a permit, which carries the envelopes of approvals.
const maxPermit = 64 << 10

// Invocation implements [ledger.Effects].
func (s *Store) Invocation(ctx context.Context, id string) (ledger.Invocation, error) {
	r, err := scanInvocation(func(into ...any) error {
		return s.one(ctx, fmt.Sprintf("find invocation %.120q", id), selectInvocation+" WHERE id = $1", []any{id}, into...)
	})
	if err != nil {
		return r.Invocation, err
	}
	r, err = s.opener().invocation(ctx, r)
	return r.Invocation, s.explain("find invocation", err)
}

// Abandoned implements [ledger.Effects].
func (s *Store) Abandoned(ctx context.Context, limit int) ([]ledger.Invocation, error) {
	var now int64
	if err := s.one(ctx, "list abandoned invocations", s.d.Now, nil, &now); err != nil {
		return nil, err
	}
	limit, _ = limits(ledger.Page{Limit: limit})
	return list(ctx, s, "list abandoned invocations", `SELECT id, attempt FROM invocations WHERE state = 'calling' AND call_not_after < $1
		AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.origin = invocations.origin AND runs.state = 'running') ORDER BY random() LIMIT $2`, // what cannot be ended hides no other
		[]any{now - ledger.CallSkew.Milliseconds(), limit}, func(rows *sql.Rows) (i ledger.Invocation, err error) { return i, rows.Scan(&i.ID, &i.Attempt) })
}

// Decision implements [ledger.Effects].
func (s *Store) Decision(ctx context.Context, id string) (ledger.Decision, error) {
	return find[ledger.Decision](ctx, s, fmt.Sprintf("find decision %.120q", id), "SELECT doc FROM decisions WHERE id = $1", id)
}

// chained reads an entity with the chain that it belongs to.
func chained[T any](ctx context.Context, t *tx, query string, args ...any) (T, string, error) {
	var v T
	var chain, raw string
	if err := t.row(ctx, query, args...).Scan(&chain, &raw); err != nil {
		return v, "", err
	}
	v, err := decode[T](ctx, t.opener(), raw)
	return v, chain, err
}
