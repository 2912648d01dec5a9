package sqlstore

import (
	"context"
	"database/sql"
	"strconv"

	"chimera.ai/engine/ledger"
)

// RemindBarrier implements [ledger.Effects].
func (s *Store) RemindBarrier(ctx context.Context, id string) (ledger.Barrier, error) {
	return s.follow(ctx, "remind of barrier "+id, id, ledger.Barrier.Remind, func(b *ledger.Barrier) (ledger.Kind, string, any) {
		return ledger.BarrierReminded, "/" + strconv.Itoa(b.Reminded), ledger.RemindedData{ID: id, Number: b.Reminded}
	})
}

// EscalateBarrier implements [ledger.Effects].
func (s *Store) EscalateBarrier(ctx context.Context, id string) (ledger.Barrier, error) {
	return s.follow(ctx, "escalate barrier "+id, id, ledger.Barrier.Escalate, func(*ledger.Barrier) (ledger.Kind, string, any) {
		return ledger.BarrierEscalated, "", ledger.EscalatedData{ID: id}
	})
}

// follow makes a move of a barrier, and states it if it changes anything.
func (s *Store) follow(ctx context.Context, what, id string, move func(ledger.Barrier, ledger.Time) (ledger.Barrier, bool, error), of func(*ledger.Barrier) (kind ledger.Kind, suffix string, data any)) (out ledger.Barrier, err error) {
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
		if out, err = t.barrier(ctx, id); err != nil {
			return err
		}
		moved, changed, err := move(out, t.now)
		if err != nil || !changed {
			return err
		}
		out = moved
		kind, suffix, data := of(&out)
		doc, err := t.keepBarrier(ctx, chain, &out)
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
