package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"chimera.ai/engine/ledger"
)

// consume makes approvals count for an invocation and for no other.
func (t *tx) consume(ctx context.Context, run ledger.Run, a ledger.Authorization, d *ledger.Decision) error {
	used := slices.Clone(a.Approvals)
	slices.Sort(used)
	used = slices.Compact(used)
	for _, id := range used {
		v, of, err := chained[ledger.Approval](ctx, t, "SELECT chain, doc FROM approvals WHERE id = $1", id)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("%w: there is no approval %s", ledger.ErrConflict, id)
		case err != nil:
			return err
		}
		if workflow, _, _ := ledger.RunOf(of); workflow != run.Workflow {
			return fmt.Errorf("%w: approval %s is of another workflow", ledger.ErrConflict, id)
		}
		if b, err := t.barrier(ctx, v.Barrier); err == nil && b.Outcome {
			return fmt.Errorf("%w: %s approves nothing: it states what a call did", ledger.ErrConflict, id)
		} else if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		covered := !slices.Contains(v.Actions, d.ActionDigest)
		if covered {
			if err := t.covers(ctx, &v, a.ID); err != nil {
				return err
			}
		}
		if err := v.Use(a.Barrier, d.ActionDigest, a.ID, "", covered); err != nil {
			return err
		}
		if _, err := t.exec(ctx, "INSERT INTO consumptions (approval, action, invocation) VALUES ($1, $2, $3) ON CONFLICT (approval, action) DO NOTHING", id, d.ActionDigest, a.ID); err != nil {
			return err
		}
		var by string
		if err := t.row(ctx, "SELECT invocation FROM consumptions WHERE approval = $1 AND action = $2", id, d.ActionDigest).Scan(&by); err != nil {
			return err
		}
		if err := v.Use(a.Barrier, d.ActionDigest, a.ID, by, covered); err != nil {
			return err
		}
	}
	if len(used) == 0 {
		return nil
	}
	_, err := t.state(ctx, t.ofRun(run, ledger.ApprovalConsumed, key(ledger.ApprovalConsumed, d.ID)),
		ledger.ConsumedData{Decision: d.ID, Invocation: a.ID, Action: d.ActionDigest, Approvals: used})
	return err
}

// covers returns an error unless an approval counts for an invocation that it does not list:
// one that undoes an effect for which the approval was consumed.
func (t *tx) covers(ctx context.Context, v *ledger.Approval, invocation string) error {
	other := fmt.Errorf("%w: approval %s is of other actions", ledger.ErrConflict, v.ID)
	b, err := t.barrier(ctx, v.Barrier)
	if errors.Is(err, sql.ErrNoRows) {
		return other
	}
	if err != nil {
		return err
	}
	x, ok := b.Covers(invocation)
	if !ok {
		return other
	}
	var by string
	u := ledger.Invocation{ID: x.Invocation}
	err = t.row(ctx, "SELECT action_digest, state FROM invocations WHERE id = $1", u.ID).Scan(&u.ActionDigest, &u.State)
	if err == nil {
		err = t.row(ctx, "SELECT invocation FROM consumptions WHERE approval = $1 AND action = $2", v.ID, x.Action).Scan(&by)
	}
	switch {
	case err != nil && !errors.Is(err, sql.ErrNoRows):
		return err
	case err != nil || !v.Covers(x, u, by):
		return fmt.Errorf("%w: approval %s was not used for an effect that invocation %s undoes", ledger.ErrConflict, v.ID, invocation)
	}
	return nil
}

// RecordApproval implements [ledger.Effects].
func (s *Store) RecordApproval(ctx context.Context, run ledger.Run, a ledger.Approval) error {
	return s.do(ctx, "record approval "+a.ID, func(t *tx) error {
		if len(a.Barrier) > maxText {
			return fmt.Errorf("%w: the barrier's name has %d bytes, more than %d", ledger.ErrInvalid, len(a.Barrier), maxText)
		}
		fresh, err := t.add(ctx, run.Chain(), func() (bool, error) {
			have, chain, err := chained[ledger.Approval](ctx, t, "SELECT chain, doc FROM approvals WHERE id = $1", a.ID)
			if err != nil {
				return false, err
			}
			if chain != run.Chain() || have.Barrier != a.Barrier || have.Signer != a.Signer || have.Accepted != a.Accepted || have.Reason != a.Reason || !slices.Equal(have.Actions, a.Actions) {
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
		if !a.Accepted {
			if _, err := t.exec(ctx, "UPDATE barriers SET refused = refused + 1 WHERE id = $1", a.Barrier); err != nil {
				return err
			}
			var kept int
			if err := t.row(ctx, "SELECT count(*) FROM approvals WHERE barrier = $1 AND NOT accepted", a.Barrier).Scan(&kept); err != nil {
				return err
			}
			if kept >= ledger.MaxRefused {
				return nil
			}
		}
		a.ReceivedAt = t.now
		sealed, err := t.sealing(ctx, run.Chain())
		if err != nil {
			return err
		}
		doc, err := sealed.keep(a, nil)
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
	return documents[ledger.Approval](ctx, s, "list approvals", "SELECT doc FROM approvals WHERE barrier = $1 ORDER BY serial LIMIT $2 OFFSET $3",
		[]any{barrier, limit, offset})
}

// Accepted implements [ledger.Effects].
func (s *Store) Accepted(ctx context.Context, barriers []string, page ledger.Page) ([]ledger.Approval, error) {
	limit, offset := limits(page)
	there := slices.DeleteFunc(slices.Clone(barriers), func(id string) bool { return storable([]any{id}) != nil })
	return documents[ledger.Approval](ctx, s, "list accepted approvals", "SELECT doc FROM approvals WHERE accepted AND barrier "+s.d.Keys+" ORDER BY serial LIMIT $1 OFFSET $3",
		[]any{limit, s.d.List(there), offset})
}

// Consumptions implements [ledger.Effects].
func (s *Store) Consumptions(ctx context.Context, approval string) ([]ledger.Consumption, error) {
	return list(ctx, s, "list consumptions", "SELECT approval, action, invocation FROM consumptions WHERE approval = $1 ORDER BY action",
		[]any{approval}, func(rows *sql.Rows) (c ledger.Consumption, err error) {
			err = rows.Scan(&c.Approval, &c.Action, &c.Invocation)
			return c, err
		})
}
