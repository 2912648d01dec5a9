package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"

	"chimera.ai/engine/ledger"
)

// RemindBarrier implements [ledger.Effects].
func (s *Store) RemindBarrier(ctx context.Context, id string) (ledger.Barrier, error) {
	return s.follow(ctx, "remind of barrier "+id, id, func(t *tx, b *ledger.Barrier) (ledger.Kind, string, any, error) {
		if err := t.due(b.RemindsAt(), b); err != nil {
			return "", "", nil, err
		}
		b.Reminded++
		b.RemindedAt = &t.now
		return ledger.BarrierReminded, "/" + strconv.Itoa(b.Reminded), ledger.RemindedData{ID: id, Number: b.Reminded}, nil
	})
}

// EscalateBarrier implements [ledger.Effects].
func (s *Store) EscalateBarrier(ctx context.Context, id string) (ledger.Barrier, error) {
	return s.follow(ctx, "escalate barrier "+id, id, func(t *tx, b *ledger.Barrier) (ledger.Kind, string, any, error) {
		if b.EscalatedAt != nil {
			return "", "", nil, nil
		}
		if err := t.due(b.Escalates(), b); err != nil {
			return "", "", nil, err
		}
		b.EscalatedAt = &t.now
		return ledger.BarrierEscalated, "", ledger.EscalatedData{ID: id}, nil
	})
}

// due returns an error unless it is time for something at an open barrier.
func (t *tx) due(at *ledger.Time, b *ledger.Barrier) error {
	switch now := t.now.Time(); {
	case at == nil:
		return fmt.Errorf("%w: nothing follows at the barrier", ledger.ErrConflict)
	case now.Before(at.Time()):
		return fmt.Errorf("%w: it follows at %s", ledger.ErrConflict, at)
	case !now.Before(b.ExpiresAt.Time()):
		return fmt.Errorf("%w: it has expired at %s", ledger.ErrConflict, b.ExpiresAt)
	}
	return nil
}

// follow changes an open barrier, and states that, unless change returns no kind.
func (s *Store) follow(ctx context.Context, what, id string, change func(*tx, *ledger.Barrier) (kind ledger.Kind, suffix string, data any, err error)) (out ledger.Barrier, err error) {
	err = s.do(ctx, what, func(t *tx) error {
		if len(id) > maxText || storable([]any{id}) != nil {
			return sql.ErrNoRows
		}
		var chain string
		if err := t.row(ctx, "SELECT chain FROM barriers WHERE id = $1", id).Scan(&chain); err != nil {
			return err
		}
		if err := t.lock(ctx, chain); err != nil {
			return err
		}
		if out, err = t.barrier(ctx, id); err != nil || out.State.Closed() {
			return err
		}
		kind, suffix, data, err := change(t, &out)
		if err != nil || kind == "" {
			return err
		}
		doc, err := text(out)
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "UPDATE barriers SET doc = $2 WHERE id = $1", id, doc); err != nil {
			return err
		}
		workflow, _, _ := ledger.RunOf(chain)
		_, err = t.state(ctx, ledger.Draft{Chain: chain, Key: key(kind, id) + suffix, Kind: kind, Run: workflow}, data)
		return err
	})
	return out, err
}
