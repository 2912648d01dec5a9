package sqlstore

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"chimera.ai/engine/ledger"
)

// advance changes an invocation that was permitted. change makes the move; the chains of
// the row, and of its hold if there is one, are locked then. On an error that is an answer
// the row is returned as it is.
func (s *Store) advance(ctx context.Context, what, id string, change func(t *tx, r row, h *ledger.Hold) (ledger.Invocation, error)) (out ledger.Invocation, err error) {
	err = s.do(ctx, what+" "+id, func(t *tx) error {
		if len(id) > maxInvocation || storable([]any{id}) != nil {
			return sql.ErrNoRows // there is none of that id
		}
		r, err := t.invocation(ctx, id)
		if err != nil {
			return err
		}
		if r.State == "" {
			return sql.ErrNoRows
		}
		if err := t.lockMoney(ctx, nil, r.HoldID); err != nil {
			return err
		}
		var h *ledger.Hold
		if r.HoldID != "" {
			found, err := scanHold(t.row(ctx, selectHold+" WHERE id = $1", r.HoldID).Scan)
			if err != nil {
				return err
			}
			h = &found
		}
		if err := t.lock(ctx, r.chain); err != nil {
			return err
		}
		// Before any row is written, as an erasure takes it.
		if _, err := t.sealing(ctx, r.chain); err != nil {
			return err
		}
		out = r.Invocation
		next, err := change(t, r, h)
		if err == nil {
			out = next
		}
		return err
	})
	return out, err
}

// ofInvocation is an entry about an attempt of an invocation.
func ofInvocation(r row, kind ledger.Kind, suffix string, attempt int) ledger.Draft {
	workflow, _, _ := ledger.RunOf(r.chain)
	return ledger.Draft{Chain: r.chain, Key: key(kind, fmt.Sprintf("%s/%d%s", r.ID, attempt, suffix)), Kind: kind, Run: workflow}
}

// Claim implements [ledger.Effects].
func (s *Store) Claim(ctx context.Context, id, decision, token string, d time.Duration) (ledger.Invocation, error) {
	return s.advance(ctx, "claim", id, func(t *tx, r row, h *ledger.Hold) (ledger.Invocation, error) {
		if token == "" {
			return r.Invocation, fmt.Errorf("%w: a claim has no token", ledger.ErrInvalid)
		}
		claim := claimOf(token)
		if r.State == ledger.Calling && r.token == claim && r.DecisionID == decision && !r.Unused {
			return r.Invocation, nil
		}
		i, err := r.Claim(decision, d, t.now)
		if err != nil {
			return i, err
		}
		if h != nil && h.Status != ledger.TxPending {
			return i, fmt.Errorf("%w: its hold is %s", ledger.ErrExpired, h.Status)
		}
		if _, err := t.exec(ctx, "UPDATE invocations SET state = $2, attempt = $3, call_not_after = $4, unused = FALSE, token = $5, doubted = $6 WHERE id = $1",
			id, string(i.State), i.Attempt, millis(*i.CallNotAfter), claim, i.Doubted); err != nil {
			return i, err
		}
		if h != nil {
			// A hold runs once what it pays for is called.
			if _, err := t.move(ctx, *h, ledger.TxPending, ledger.HoldRunning, nil); err != nil {
				return i, err
			}
		}
		_, err = t.state(ctx, ofInvocation(r, ledger.InvocationCalling, "", i.Attempt),
			ledger.AttemptData{ID: id, Attempt: i.Attempt, DecisionID: decision, CallNotAfter: i.CallNotAfter})
		return i, err
	})
}

// claimOf is what the database has of a claim's token until the call has ended: whoever reads it
// there does not end the call.
func claimOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// ends maps states in which calls end to the kinds that state them.
var ends = map[ledger.InvocationState]ledger.Kind{
	ledger.Settled: ledger.InvocationSettled, ledger.Released: ledger.InvocationReleased, ledger.Unknown: ledger.InvocationUnknown,
}

// Settle implements [ledger.Effects].
func (s *Store) Settle(ctx context.Context, id string, e ledger.Effect) (ledger.Invocation, error) {
	return s.advance(ctx, "settle", id, func(t *tx, r row, h *ledger.Hold) (ledger.Invocation, error) {
		if len(e.Output) > ledger.MaxRunValue {
			return r.Invocation, fmt.Errorf("%w: the output has %d bytes, more than %d", ledger.ErrInvalid, len(e.Output), ledger.MaxRunValue)
		}
		e.Abandoned = e.Abandoned || e.Orphaned
		sealed, err := t.sealing(ctx, r.chain)
		if err != nil {
			return r.Invocation, err
		}
		if sealed != nil && sealed.gone {
			e.OutputDigest, e.Output = "", nil // nothing about the person is kept
		}
		if e.Abandoned {
			if err := t.taken(ctx, &r); err != nil {
				return r.Invocation, err
			}
		}
		i, changed, err := r.Settle(e.Settlement, t.now)
		if err != nil || !changed {
			return i, err
		}
		made := r.State == ledger.Calling && !e.Abandoned
		if made && r.token != claimOf(e.Token) {
			return r.Invocation, fmt.Errorf("%w: another has made the call", ledger.ErrConflict)
		}
		if err := t.stated(ctx, r.Invocation, e.Stated); err != nil {
			return r.Invocation, err
		}
		if err := t.spend(ctx, h, i.State, e.Spent); err != nil {
			return i, err
		}
		var output any // NULL
		if i.State == ledger.Settled && e.Output != nil {
			i.Output = e.Output
			if output, err = sealed.keepBytes(e.Output); err != nil {
				return i, err
			}
		}
		digest, err := sealed.keepText(i.OutputDigest)
		if err != nil {
			return i, err
		}
		query, args := "state = $2, unused = FALSE, output_digest = $3, output = $4", []any{id, string(i.State), digest, output}
		if made {
			args = append(args, e.Token)
			query += fmt.Sprintf(", token = $%d", len(args))
		}
		// The guardian, which ends abandoned calls, may not write this column.
		if !i.CallNotAfter.Time().Equal(r.CallNotAfter.Time()) {
			args = append(args, millis(*i.CallNotAfter))
			query += fmt.Sprintf(", call_not_after = $%d", len(args))
		}
		if _, err := t.exec(ctx, "UPDATE invocations SET "+query+" WHERE id = $1", args...); err != nil {
			return i, err
		}
		if i.State == ledger.Settled {
			if err := t.executed(ctx, r, e.Result); err != nil {
				return i, err
			}
		}
		suffix := ""
		switch {
		case r.State == ledger.Unknown:
			suffix = "/resolved"
		case e.Orphaned:
			suffix = "/abandoned" // which who calls cannot have taken
		}
		d := ofInvocation(r, ends[i.State], suffix, i.Attempt)
		d.Refs = refs("output", i.OutputDigest)
		if _, err = t.state(ctx, d, ledger.AttemptData{ID: id, Attempt: i.Attempt, OutputDigest: i.OutputDigest, Abandoned: e.Abandoned, Stated: e.Stated, Snapshots: e.Snapshots}); err != nil {
			return i, err
		}
		if i.State == ledger.Settled && e.Observation != nil {
			err = t.observe(ctx, *e.Observation)
			for _, odd := range []error{sql.ErrNoRows, ledger.ErrConflict, ledger.ErrInvalid} {
				if errors.Is(err, odd) {
					err = nil // the call has happened all the same
				}
			}
		}
		return i, err
	})
}

// spend ends the hold of a call that has ended.
func (t *tx) spend(ctx context.Context, h *ledger.Hold, end ledger.InvocationState, actual *ledger.Money) (err error) {
	if h == nil {
		return nil
	}
	switch end.Ends() {
	case ledger.TxPosted:
		spent := h.Amount
		if actual != nil {
			spent = *actual
		}
		_, err = t.move(ctx, *h, ledger.TxPosted, ledger.HoldPosted, &spent)
	case ledger.TxVoided:
		_, err = t.move(ctx, *h, ledger.TxVoided, ledger.HoldVoided, nil)
	case ledger.TxPending, ledger.TxExpired:
	}
	return err
}
