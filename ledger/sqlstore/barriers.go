package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
)

const selectBarrier = "SELECT state, refused, doc FROM barriers"

// barrierRow is a barrier as it is stored. Its document is that of its last change; the count
// of refused signatures moves on.
type barrierRow struct {
	state, doc string
	refused    int64
}

func scanBarrier(scan func(...any) error) (r barrierRow, err error) {
	return r, scan(&r.state, &r.refused, &r.doc)
}

func scanBarriers(rows *sql.Rows) (barrierRow, error) { return scanBarrier(rows.Scan) }

func openBarrier(ctx context.Context, o *opener, r barrierRow) (ledger.Barrier, error) {
	b, err := decode[ledger.Barrier](ctx, o, r.doc)
	b.State, b.Refused = ledger.BarrierState(r.state), r.refused
	return b, err
}

func (t *tx) barrier(ctx context.Context, id string) (ledger.Barrier, error) {
	r, err := scanBarrier(t.row(ctx, selectBarrier+" WHERE id = $1", id).Scan)
	if err != nil {
		return ledger.Barrier{}, err
	}
	return openBarrier(ctx, t.opener(), r)
}

// keepBarrier returns what the table stores of a barrier of a chain.
func (t *tx) keepBarrier(ctx context.Context, chain string, b *ledger.Barrier) (string, error) {
	sealed, err := t.sealing(ctx, chain)
	if err != nil {
		return "", err
	}
	return sealed.keep(b, nil)
}

// OpenBarrier implements [ledger.Effects].
func (s *Store) OpenBarrier(ctx context.Context, run ledger.Run, b ledger.Barrier) (out ledger.Barrier, err error) {
	err = s.do(ctx, "open barrier "+b.ID, func(t *tx) error {
		if b.ID == "" || len(b.ID) > maxText || len(b.Actions) == 0 || len(b.Actions) > ledger.MaxAwaited {
			return fmt.Errorf("%w: a barrier %.80q of %d actions", ledger.ErrInvalid, b.ID, len(b.Actions))
		}
		if b.Outcome && len(b.Actions) != 1 {
			return fmt.Errorf("%w: a barrier about the outcomes of %d calls", ledger.ErrInvalid, len(b.Actions))
		}
		var of row
		if b.Outcome {
			var err error
			if of, err = t.invocation(ctx, b.Actions[0].Invocation); err != nil {
				return err
			}
		}
		if err := t.lock(ctx, run.Chain()); err != nil {
			return err
		}
		var err error
		if out, err = t.barrier(ctx, b.ID); !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if err := t.open(ctx, run.Workflow, run.Root, true); err != nil {
			return err
		}
		out = b
		out.Workflow, out.Root = run.Workflow, run.Root
		out.State, out.OpenedAt, out.ClosedAt, out.Reason, out.Refused = ledger.BarrierOpen, t.now, nil, "", 0
		out.Reminded, out.RemindedAt, out.EscalatedAt = 0, nil, nil
		out.Actions = slices.Clone(b.Actions)
		slices.SortFunc(out.Actions, func(x, y ledger.Awaited) int { return cmp.Compare(x.Invocation, y.Invocation) })
		if out.Request, err = canonical(b.Request); err != nil {
			return err
		}
		if !out.ExpiresAt.Time().After(t.now.Time()) {
			return fmt.Errorf("%w: a barrier that has expired at %s", ledger.ErrInvalid, out.ExpiresAt)
		}
		if b.Outcome && (of.State != ledger.Unknown || of.Repeatable || of.Origin != run.Origin || !out.Asks(of.Invocation)) {
			return fmt.Errorf("%w: no call of unknown outcome was permitted by the decision %.120q", ledger.ErrConflict, b.Actions[0].Decision)
		}
		if out.RemindEveryMS < 0 || out.RemindEveryMS > math.MaxInt64/int64(time.Millisecond) {
			return fmt.Errorf("%w: a reminder every %d ms", ledger.ErrInvalid, out.RemindEveryMS)
		}
		for i, x := range out.Actions {
			if b.Outcome {
				break
			}
			if i > 0 && out.Actions[i-1].Invocation == x.Invocation {
				return fmt.Errorf("%w: a barrier with an invocation twice", ledger.ErrInvalid)
			}
			if err := errors.Join(ledger.CheckUndo(x.Undo), t.waits(ctx, x)); err != nil {
				return err
			}
		}
		doc, err := t.keepBarrier(ctx, run.Chain(), &out)
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "INSERT INTO barriers (id, chain, origin, state, expires_at, refused, doc) VALUES ($1, $2, $3, $4, $5, 0, $6)",
			out.ID, run.Chain(), run.Origin, string(out.State), millis(out.ExpiresAt), doc); err != nil {
			return err
		}
		_, err = t.state(ctx, t.ofRun(run, ledger.BarrierOpened, key(ledger.BarrierOpened, out.ID)), out)
		return err
	})
	return out, err
}

// waits returns an error unless an action waits by a decision, whose task is a draft.
func (t *tx) waits(ctx context.Context, x ledger.Awaited) error {
	d, err := locked[ledger.Decision](ctx, t, "SELECT doc FROM decisions WHERE id = $1", x.Decision)
	if errors.Is(err, sql.ErrNoRows) || err == nil && (d.Invocation != x.Invocation || d.ActionDigest != x.Action || d.Decision == ledger.Approve) {
		return fmt.Errorf("%w: no action waits by the decision %.120q", ledger.ErrConflict, x.Decision)
	}
	if err != nil {
		return err
	}
	var state string
	if err := t.row(ctx, "SELECT state FROM tasks WHERE task_id = $1", x.Decision).Scan(&state); err != nil {
		return err
	}
	if state != string(task.StateDraft) {
		return fmt.Errorf("%w: the task %.120q is %s", ledger.ErrConflict, x.Decision, state)
	}
	return nil
}

// CloseBarrier implements [ledger.Effects].
func (s *Store) CloseBarrier(ctx context.Context, id string, end ledger.BarrierState, reason string) (ledger.Barrier, error) {
	return s.endBarrier(ctx, id, end, reason, false)
}

// ApproveBarrier implements [ledger.Effects].
func (s *Store) ApproveBarrier(ctx context.Context, id, reason string, escalated bool) (ledger.Barrier, error) {
	return s.endBarrier(ctx, id, ledger.BarrierApproved, reason, escalated)
}

func (s *Store) endBarrier(ctx context.Context, id string, end ledger.BarrierState, reason string, escalated bool) (out ledger.Barrier, err error) {
	err = s.do(ctx, "close barrier "+id, func(t *tx) error {
		if !end.Closed() {
			return fmt.Errorf("%w: a barrier is not closed as %.40q", ledger.ErrInvalid, string(end))
		}
		if len(id) > maxText || storable([]any{id}) != nil {
			return sql.ErrNoRows
		}
		var chain string
		if err := t.row(ctx, "SELECT chain FROM barriers WHERE id = $1", id).Scan(&chain); err != nil {
			return err
		}
		b, err := t.barrier(ctx, id)
		if err != nil {
			return err
		}
		holds, err := t.holdsOf(ctx, b, end)
		if err != nil {
			return err
		}
		if err := t.lockMoney(ctx, nil, holds...); err != nil {
			return err
		}
		tasks, err := t.chainsOf(ctx, b.Actions)
		if err != nil {
			return err
		}
		if err := t.lockRuns(ctx, append(tasks, chain)...); err != nil {
			return err
		}
		if out, err = t.barrier(ctx, id); err != nil || out.State.Closed() {
			return err
		}
		var ended ledger.Barrier
		if end == ledger.BarrierApproved {
			ended, _, err = out.Approve(reason, escalated, t.now)
		} else {
			ended, _, err = out.Close(end, reason, t.now)
		}
		if err != nil {
			return err
		}
		out = ended
		return t.closeBarrier(ctx, chain, &out, holds)
	})
	return out, err
}

// holdsOf returns the holds that end with a barrier.
func (t *tx) holdsOf(ctx context.Context, b ledger.Barrier, end ledger.BarrierState) (out []string, err error) {
	if end == ledger.BarrierApproved || b.Outcome {
		return nil, nil
	}
	for _, x := range b.Actions {
		var n int
		if err := t.row(ctx, "SELECT count(*) FROM holds WHERE id = $1", x.Decision).Scan(&n); err != nil {
			return nil, err
		}
		if n > 0 {
			out = append(out, x.Decision)
		}
	}
	return out, nil
}

// closeBarrier states that a barrier has ended, and ends what waited for it.
func (t *tx) closeBarrier(ctx context.Context, chain string, b *ledger.Barrier, holds []string) error {
	doc, err := t.keepBarrier(ctx, chain, b)
	if err != nil {
		return err
	}
	if _, err := t.exec(ctx, "UPDATE barriers SET state = $2, doc = $3 WHERE id = $1", b.ID, string(b.State), doc); err != nil {
		return err
	}
	workflow, _, _ := ledger.RunOf(chain)
	if _, err := t.state(ctx, ledger.Draft{Chain: chain, Key: key(ledger.BarrierClosed, b.ID), Kind: ledger.BarrierClosed, Run: workflow},
		ledger.BarrierData{ID: b.ID, State: b.State, Reason: b.Reason, Refused: b.Refused}); err != nil {
		return err
	}
	for _, id := range holds {
		h, err := scanHold(t.row(ctx, selectHold+" WHERE id = $1", id).Scan)
		if err != nil {
			return err
		}
		if h.Status != ledger.TxPending || h.Running {
			continue
		}
		if _, err := t.move(ctx, h, ledger.TxVoided, ledger.HoldVoided, nil); err != nil {
			return err
		}
	}
	if b.State == ledger.BarrierApproved || b.Outcome {
		return nil
	}
	for _, x := range b.Actions {
		have, of, err := t.stored(ctx, x.Decision)
		if errors.Is(err, sql.ErrNoRows) {
			continue // it was erased
		}
		if err != nil {
			return err
		}
		if d, ok := have.(task.Draft); ok {
			if err := t.dropped(ctx, awaited{Draft: d, chain: of}, "the barrier is "+string(b.State)); err != nil {
				return err
			}
		}
	}
	return nil
}

// stated returns an error unless people have stated what the last call of an invocation did:
// each statement was accepted at one barrier about that call, which was approved.
func (t *tx) stated(ctx context.Context, i ledger.Invocation, statements []string) error {
	at := ""
	for n, id := range statements {
		if n > 0 && statements[n-1] >= id {
			return fmt.Errorf("%w: the statements are not sorted, or not different", ledger.ErrInvalid)
		}
		v, err := locked[ledger.Approval](ctx, t, "SELECT doc FROM approvals WHERE id = $1 AND accepted", id)
		if errors.Is(err, sql.ErrNoRows) || err == nil && n > 0 && v.Barrier != at {
			return fmt.Errorf("%w: the statement %.120q was refused, there is none, or it is of another barrier", ledger.ErrConflict, id)
		}
		if err != nil {
			return err
		}
		at = v.Barrier
	}
	if at == "" {
		return nil
	}
	b, err := t.barrier(ctx, at)
	if errors.Is(err, sql.ErrNoRows) || err == nil && (b.State != ledger.BarrierApproved || !b.Asks(i)) {
		return fmt.Errorf("%w: nobody has stated at %.120q what this call did", ledger.ErrConflict, at)
	}
	return err
}

// Barrier implements [ledger.Effects].
func (s *Store) Barrier(ctx context.Context, id string) (ledger.Barrier, error) {
	what := fmt.Sprintf("find barrier %.120q", id)
	r, err := scanBarrier(func(into ...any) error { return s.one(ctx, what, selectBarrier+" WHERE id = $1", []any{id}, into...) })
	if err != nil {
		return ledger.Barrier{}, err
	}
	b, err := openBarrier(ctx, s.opener(), r)
	return b, s.explain(what, err)
}

// ListBarriers implements [ledger.Effects].
func (s *Store) ListBarriers(ctx context.Context, state ledger.BarrierState, page ledger.Page) ([]ledger.Barrier, error) {
	limit, offset := limits(page)
	return openAll(ctx, s, "list barriers", selectBarrier+" WHERE state = $1 OR $1 = '' ORDER BY expires_at, id LIMIT $2 OFFSET $3",
		[]any{string(state), limit, offset}, scanBarriers, passing(s, openBarrier))
}

// Forsaken implements [ledger.Effects].
func (s *Store) Forsaken(ctx context.Context, limit int) ([]ledger.Barrier, error) {
	limit, _ = limits(ledger.Page{Limit: limit})
	return openAll(ctx, s, "list forsaken barriers", selectBarrier+` WHERE state = 'open'
		AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.origin = barriers.origin AND runs.state = 'running') ORDER BY expires_at, id LIMIT $1`,
		[]any{limit}, scanBarriers, passing(s, openBarrier))
}
