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
)

// RecordDecision implements [ledger.Effects].
func (s *Store) RecordDecision(ctx context.Context, run ledger.Run, d ledger.Decision) error {
	return s.do(ctx, "record decision "+d.ID, func(t *tx) error {
		fresh, err := t.add(ctx, run.Chain(), func() (bool, error) {
			have, chain, err := chained[ledger.Decision](ctx, t, "SELECT chain, doc FROM decisions WHERE id = $1", d.ID)
			if err != nil {
				return false, err
			}
			same := chain == run.Chain() && have.ActionDigest == d.ActionDigest && have.PolicyDigest == d.PolicyDigest && have.Decision == d.Decision && have.Reason == d.Reason
			if !same {
				return false, nil
			}
			return equalJSON(have.Record, d.Record)
		})
		if err != nil || !fresh {
			return err
		}
		if err := t.open(ctx, run.Workflow, run.Root, true); err != nil {
			return err
		}
		d.DecidedAt = t.now
		doc, err := text(d)
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "INSERT INTO decisions (id, chain, doc) VALUES ($1, $2, $3)", d.ID, run.Chain(), doc); err != nil {
			return err
		}
		draft := t.ofRun(run, ledger.DecisionMade, key(ledger.DecisionMade, d.ID))
		draft.Refs = refs("action", d.ActionDigest, "policy", d.PolicyDigest)
		_, err = t.state(ctx, draft, d)
		return err
	})
}

// chained reads an entity with the chain that it belongs to.
func chained[T any](ctx context.Context, t *tx, query string, args ...any) (T, string, error) {
	var v T
	var chain, raw string
	if err := t.row(ctx, query, args...).Scan(&chain, &raw); err != nil {
		return v, "", err
	}
	return v, chain, json.Unmarshal([]byte(raw), &v)
}

// Decision implements [ledger.Effects].
func (s *Store) Decision(ctx context.Context, id string) (ledger.Decision, error) {
	return find[ledger.Decision](ctx, s, fmt.Sprintf("find decision %.120q", id), "SELECT doc FROM decisions WHERE id = $1", id)
}

// RecordApproval implements [ledger.Effects].
func (s *Store) RecordApproval(ctx context.Context, run ledger.Run, a ledger.Approval) error {
	return s.do(ctx, "record approval "+a.ID, func(t *tx) error {
		if a.ConsumedBy = ""; len(a.Barrier) > maxText {
			return fmt.Errorf("%w: the barrier's name has %d bytes, more than %d", ledger.ErrInvalid, len(a.Barrier), maxText)
		}
		fresh, err := t.add(ctx, run.Chain(), func() (bool, error) {
			have, chain, err := chained[ledger.Approval](ctx, t, "SELECT chain, doc FROM approvals WHERE id = $1", a.ID)
			if err != nil {
				return false, err
			}
			if chain != run.Chain() || have.Barrier != a.Barrier || have.Signer != a.Signer || have.Accepted != a.Accepted || have.Reason != a.Reason {
				return false, nil
			}
			return equalJSON(have.Envelope, a.Envelope)
		})
		if err != nil || !fresh {
			return err
		}
		if err := t.open(ctx, run.Workflow, run.Root, true); err != nil {
			return err
		}
		a.ReceivedAt = t.now
		doc, err := text(a)
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "INSERT INTO approvals (id, chain, barrier, received_at, accepted, doc) VALUES ($1, $2, $3, $4, $5, $6)",
			a.ID, run.Chain(), a.Barrier, millis(a.ReceivedAt), a.Accepted, doc); err != nil {
			return err
		}
		kind := ledger.ApprovalRefused
		if a.Accepted {
			kind = ledger.ApprovalAccepted
		}
		_, err = t.state(ctx, t.ofRun(run, kind, key(kind, a.ID)), a)
		return err
	})
}

// Approvals implements [ledger.Effects].
func (s *Store) Approvals(ctx context.Context, barrier string, page ledger.Page) ([]ledger.Approval, error) {
	limit, offset := limits(page)
	return list(ctx, s, "list approvals", "SELECT doc FROM approvals WHERE barrier = $1 ORDER BY serial LIMIT $2 OFFSET $3",
		[]any{barrier, limit, offset}, document[ledger.Approval])
}

const selectInvocation = "SELECT id, chain, action_digest, decision_id, state, attempt, call_not_after, output_digest FROM invocations WHERE id = $1"

func scanInvocation(scan func(...any) error) (i ledger.Invocation, chain string, err error) {
	var until sql.NullInt64
	err = scan(&i.ID, &chain, &i.ActionDigest, &i.DecisionID, &i.State, &i.Attempt, &until, &i.OutputDigest)
	if until.Valid {
		t := instant(until.Int64)
		i.CallNotAfter = &t
	}
	return i, chain, err
}

// Permit implements [ledger.Effects].
func (s *Store) Permit(ctx context.Context, run ledger.Run, i ledger.Invocation, approvals []string) (out ledger.Invocation, err error) {
	err = s.do(ctx, "permit invocation "+i.ID, func(t *tx) error {
		fresh, err := t.add(ctx, run.Chain(), func() (bool, error) {
			have, chain, err := scanInvocation(t.row(ctx, selectInvocation, i.ID).Scan)
			out = have
			return have.ActionDigest == i.ActionDigest && have.DecisionID == i.DecisionID && chain == run.Chain(), err
		})
		if err != nil || !fresh {
			return err
		}
		if err := t.open(ctx, run.Workflow, run.Root, true); err != nil {
			return err
		}
		if err := t.allowed(ctx, run.Chain(), i); err != nil {
			return err
		}
		used := slices.Clone(approvals)
		slices.Sort(used)
		used = slices.Compact(used)
		for _, id := range used {
			a, of, err := chained[ledger.Approval](ctx, t, "SELECT chain, doc FROM approvals WHERE id = $1", id)
			switch {
			case errors.Is(err, sql.ErrNoRows):
				return fmt.Errorf("%w: there is no approval %s", ledger.ErrConflict, id)
			case err != nil:
				return err
			}
			if workflow, _, _ := ledger.RunOf(of); workflow != run.Workflow {
				return fmt.Errorf("%w: approval %s is of another workflow", ledger.ErrConflict, id)
			}
			a.ConsumedBy = i.ID
			doc, err := text(a)
			if err != nil {
				return err
			}
			n, err := t.exec(ctx, "UPDATE approvals SET consumed_by = $2, doc = $3 WHERE id = $1 AND accepted AND consumed_by IS NULL", id, i.ID, doc)
			if err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("%w: approval %s was refused, or is used up", ledger.ErrConflict, id)
			}
		}
		out = i
		out.State, out.Attempt, out.CallNotAfter, out.OutputDigest = ledger.Permitted, 0, nil, ""
		if _, err := t.exec(ctx, `INSERT INTO invocations (id, chain, action_digest, decision_id, state, attempt, output_digest)
			VALUES ($1, $2, $3, $4, $5, 0, '')`, out.ID, run.Chain(), out.ActionDigest, out.DecisionID, string(out.State)); err != nil {
			return err
		}
		if len(used) > 0 {
			if _, err := t.state(ctx, t.ofRun(run, ledger.ApprovalConsumed, key(ledger.ApprovalConsumed, i.ID)), ledger.ConsumedData{Invocation: i.ID, Approvals: used}); err != nil {
				return err
			}
		}
		draft := t.ofRun(run, ledger.InvocationPermitted, key(ledger.InvocationPermitted, i.ID))
		draft.Refs = refs("action", out.ActionDigest)
		_, err = t.state(ctx, draft, out)
		return err
	})
	return out, err
}

// allowed compares a permit with its decision, whose chain is locked: the
// guardian's decision on this action in this run, which permits one invocation.
func (t *tx) allowed(ctx context.Context, chain string, i ledger.Invocation) error {
	d, of, err := chained[ledger.Decision](ctx, t, "SELECT chain, doc FROM decisions WHERE id = $1", i.DecisionID)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("%w: there is no decision %.120q", ledger.ErrConflict, i.DecisionID)
	case err != nil:
		return err
	case d.Decision != ledger.Approve:
		return fmt.Errorf("%w: decision %s is %.40q", ledger.ErrConflict, i.DecisionID, d.Decision)
	case d.ActionDigest != i.ActionDigest || of != chain:
		return fmt.Errorf("%w: decision %s is about another action", ledger.ErrConflict, i.DecisionID)
	}
	var used int
	if err := t.row(ctx, "SELECT count(*) FROM invocations WHERE decision_id = $1", i.DecisionID).Scan(&used); err != nil {
		return err
	}
	if used > 0 {
		return fmt.Errorf("%w: decision %s has permitted another invocation", ledger.ErrConflict, i.DecisionID)
	}
	return nil
}

// advance changes the state of an invocation, depending on its state under the
// lock.
func (s *Store) advance(ctx context.Context, what, id string, kind ledger.Kind, change func(t *tx, i *ledger.Invocation) (done bool, err error)) (out ledger.Invocation, err error) {
	err = s.do(ctx, what+" "+id, func(t *tx) error {
		_, chain, err := scanInvocation(t.row(ctx, selectInvocation, id).Scan)
		if err != nil {
			return err
		}
		if err := t.lock(ctx, chain); err != nil {
			return err
		}
		i, _, err := scanInvocation(t.row(ctx, selectInvocation, id).Scan)
		if err != nil {
			return err
		}
		was := i.State
		done, err := change(t, &i)
		out = i
		if err != nil || done {
			return err
		}
		if !was.Leads(kind) {
			return fmt.Errorf("%w: it is %s", ledger.ErrConflict, was)
		}
		var until any
		if i.CallNotAfter != nil {
			until = millis(*i.CallNotAfter)
		}
		if _, err := t.exec(ctx, "UPDATE invocations SET state = $2, attempt = $3, call_not_after = $4, output_digest = $5 WHERE id = $1",
			id, string(i.State), i.Attempt, until, i.OutputDigest); err != nil {
			return err
		}
		data := ledger.AttemptData{ID: id, Attempt: i.Attempt, OutputDigest: i.OutputDigest}
		if kind == ledger.InvocationCalling {
			data.CallNotAfter = i.CallNotAfter
		}
		workflow, _, _ := ledger.RunOf(chain)
		d := ledger.Draft{Chain: chain, Key: key(kind, fmt.Sprintf("%s/%d", id, i.Attempt)), Kind: kind, Run: workflow, Refs: refs("output", i.OutputDigest)}
		if was == ledger.Unknown {
			d.Key += "/resolved"
		}
		_, err = t.state(ctx, d, data)
		return err
	})
	return out, err
}

// Claim implements [ledger.Effects].
func (s *Store) Claim(ctx context.Context, id string, d time.Duration) (ledger.Invocation, error) {
	return s.advance(ctx, "claim invocation", id, ledger.InvocationCalling, func(t *tx, i *ledger.Invocation) (bool, error) {
		if !i.State.Leads(ledger.InvocationCalling) {
			return false, fmt.Errorf("%w: it is %s", ledger.ErrConflict, i.State)
		}
		until := ledger.At(t.now.Time().Add(d))
		i.State, i.Attempt, i.CallNotAfter = ledger.Calling, i.Attempt+1, &until
		return false, nil
	})
}

// end ends an attempt, unless it has ended in the same way.
func (s *Store) end(ctx context.Context, what, id string, attempt int, kind ledger.Kind, to ledger.InvocationState, output string) (ledger.Invocation, error) {
	return s.advance(ctx, what, id, kind, func(_ *tx, i *ledger.Invocation) (bool, error) {
		switch {
		case i.Attempt != attempt:
			return false, fmt.Errorf("%w: attempt %d has ended, now is %d", ledger.ErrConflict, attempt, i.Attempt)
		case i.State == to && i.OutputDigest == output:
			return true, nil
		case !i.State.Leads(kind):
			return false, fmt.Errorf("%w: it is %s", ledger.ErrConflict, i.State)
		}
		i.State, i.OutputDigest = to, output
		return false, nil
	})
}

// Release implements [ledger.Effects].
func (s *Store) Release(ctx context.Context, id string, attempt int) (ledger.Invocation, error) {
	return s.end(ctx, "release invocation", id, attempt, ledger.InvocationReleased, ledger.Released, "")
}

// Settle implements [ledger.Effects].
func (s *Store) Settle(ctx context.Context, id string, attempt int, output string) (ledger.Invocation, error) {
	return s.end(ctx, "settle invocation", id, attempt, ledger.InvocationSettled, ledger.Settled, output)
}

// Lose implements [ledger.Effects].
func (s *Store) Lose(ctx context.Context, id string, attempt int) (ledger.Invocation, error) {
	return s.end(ctx, "lose invocation", id, attempt, ledger.InvocationUnknown, ledger.Unknown, "")
}

// Invocation implements [ledger.Effects].
func (s *Store) Invocation(ctx context.Context, id string) (ledger.Invocation, error) {
	i, _, err := scanInvocation(func(into ...any) error {
		return s.one(ctx, fmt.Sprintf("find invocation %.120q", id), selectInvocation, []any{id}, into...)
	})
	return i, err
}
