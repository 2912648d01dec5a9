package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/keyring"
)

// act states an action of the ledger itself, which may be repeated. The caller has
// locked its chain, so that actions are stated in the order in which they take
// effect.
func (t *tx) act(ctx context.Context, kind ledger.Kind, data any) error {
	n, err := t.next(ctx, ledger.LedgerChain)
	if err != nil {
		return err
	}
	_, err = t.state(ctx, ledger.Draft{Chain: ledger.LedgerChain, Key: key(kind, strconv.FormatInt(n, 10)), Kind: kind}, data)
	return err
}

// Prune implements [ledger.Retention].
func (s *Store) Prune(ctx context.Context, c ledger.Class, before time.Time, reason string) (n int, err error) {
	if c == ledger.Permanent || !c.Known() {
		return 0, fmt.Errorf("prune: %w: bodies of class %.40q are kept", ledger.ErrInvalid, string(c))
	}
	err = s.do(ctx, "prune", func(t *tx) error {
		if err := storableText(reason); err != nil {
			return err
		}
		if err := t.lock(ctx, ledger.LedgerChain); err != nil {
			return err
		}
		cut := ledger.At(before)
		if c == ledger.RunClosed.Class() {
			if err := t.dropValues(ctx, cut); err != nil {
				return err
			}
		}
		if n, err = t.d.Prune(ctx, t.tx, string(c), millis(cut)); err != nil || n == 0 {
			return err
		}
		if err := t.d.Packets(ctx, t.tx); err != nil {
			return err
		}
		return t.act(ctx, ledger.BodyPruned, ledger.PrunedData{Class: c, Before: cut, Count: n, Reason: reason})
	})
	return n, err
}

// dropValues removes the values of runs that ended before an instant and are not
// under legal hold, and the outputs of invocations all of whose runs are such.
func (t *tx) dropValues(ctx context.Context, before ledger.Time) error {
	if _, err := t.exec(ctx, `UPDATE invocations SET output = NULL WHERE output IS NOT NULL AND chain NOT IN (SELECT chain FROM legal_holds)
		AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.origin = invocations.origin AND (runs.closed_at IS NULL OR runs.closed_at >= $1))`, millis(before)); err != nil {
		return err
	}
	_, err := t.exec(ctx, `UPDATE runs SET value = NULL WHERE value IS NOT NULL AND closed_at < $1
		AND 'run/' || workflow || '/' || root NOT IN (SELECT chain FROM legal_holds)`, millis(before))
	return err
}

// Retain implements [ledger.Retention].
func (s *Store) Retain(ctx context.Context, p ledger.Policy, reason string) (map[ledger.Class]int, error) {
	if err := p.Check(); err != nil {
		return nil, err
	}
	out := map[ledger.Class]int{}
	var now int64
	if err := s.one(ctx, "retain", s.d.Now, nil, &now); err != nil {
		return nil, err
	}
	for _, c := range slices.Sorted(maps.Keys(p)) {
		n, err := s.Prune(ctx, c, instant(now).Time().Add(-p[c]), reason)
		if err != nil {
			return out, err
		}
		out[c] = n
	}
	return out, nil
}

// PlaceLegalHold implements [ledger.Retention].
func (s *Store) PlaceLegalHold(ctx context.Context, chain, reason string) error {
	return s.do(ctx, "place a legal hold", func(t *tx) error {
		if err := named(chain); err != nil {
			return err
		}
		if err := t.lock(ctx, ledger.LedgerChain); err != nil {
			return err
		}
		n, err := t.exec(ctx, "INSERT INTO legal_holds (chain) VALUES ($1) ON CONFLICT DO NOTHING", chain)
		if err != nil || n == 0 {
			return err
		}
		return t.act(ctx, ledger.LegalHoldPlaced, ledger.LegalHoldData{Chain: chain, Reason: reason})
	})
}

// LiftLegalHold implements [ledger.Retention].
func (s *Store) LiftLegalHold(ctx context.Context, chain, reason string) error {
	return s.do(ctx, "lift a legal hold", func(t *tx) error {
		if err := t.lock(ctx, ledger.LedgerChain); err != nil {
			return err
		}
		n, err := t.exec(ctx, "DELETE FROM legal_holds WHERE chain = $1", chain)
		if err != nil {
			return err
		}
		if n == 0 {
			return fmt.Errorf("chain %s is under no legal hold: %w", chain, ledger.ErrNotFound)
		}
		return t.act(ctx, ledger.LegalHoldLifted, ledger.LegalHoldData{Chain: chain, Reason: reason})
	})
}

// EraseSubject implements [ledger.Retention].
func (s *Store) EraseSubject(ctx context.Context, subject, reason string) error {
	return s.erase(ctx, reason, erasure{
		prepare: func(t *tx) (renewed bool, err error) { return false, t.lockSubject(ctx, subject) },
		chosen:  func(k subjectKey) bool { return k.err == nil && k.subject == subject },
		held:    (*tx).unheld,
	})
}

// EraseLost implements [ledger.Retention].
func (s *Store) EraseLost(ctx context.Context, reason string) error {
	return s.erase(ctx, reason, erasure{
		prepare: func(t *tx) (renewed bool, err error) {
			if err := t.beside(ctx, keysLock); err != nil {
				return false, err
			}
			_, err = t.current(ctx)
			if !errors.Is(err, keyring.ErrMissing) {
				return false, err
			}
			// The database is one from before an erasure, or the folder was lost.
			g, err := t.ring.Renew(t.origin)
			if err != nil {
				return false, unavailable(err)
			}
			_, err = t.exec(ctx, "UPDATE keyring SET generation = $1", g.Name)
			return true, err
		},
		chosen: func(k subjectKey) bool { return k.err != nil },
		// What nobody can read any more, no hold keeps.
		held: (*tx).lockKey,
	})
}

// erasure says who is erased.
type erasure struct {
	// prepare comes first. renewed reports that it has replaced a key that is lost, which is
	// something done even if nobody is erased.
	prepare func(*tx) (renewed bool, err error)
	// chosen chooses keys, and held locks one, unless what is sealed with it is kept.
	chosen func(subjectKey) bool
	held   func(t *tx, ctx context.Context, id string) error
}

func (s *Store) erase(ctx context.Context, reason string, e erasure) error {
	if s.ring == nil {
		return fmt.Errorf("erase a subject: %w: the key for the keys of subjects is not configured (ledger.subjects)", ledger.ErrInvalid)
	}
	err := s.do(ctx, "erase a subject", func(t *tx) error {
		if err := t.lock(ctx, ledger.LedgerChain); err != nil {
			return err
		}
		renewed, err := e.prepare(t)
		if err != nil {
			return err
		}
		if err := t.beside(ctx, keysLock); err != nil {
			return err
		}
		now, err := t.bound(ctx)
		if err != nil {
			return err
		}
		keys, err := t.subjectKeys(ctx, now)
		if err != nil {
			return err
		}
		var ids []string
		stay := slices.DeleteFunc(keys, func(k subjectKey) bool {
			if e.chosen(k) {
				ids = append(ids, k.id)
				return true
			}
			return false
		})
		if len(ids) == 0 && !renewed {
			return fmt.Errorf("%w; %d keys of subjects do not open", ledger.ErrNotFound, lost(keys))
		}
		for _, id := range ids {
			if err := e.held(t, ctx, id); err != nil {
				return err
			}
		}
		if err := t.rewrap(ctx, stay); err != nil {
			return err
		}
		for _, id := range ids {
			if err := t.eraseKey(ctx, id, reason); err != nil {
				return err
			}
		}
		return t.d.Packets(ctx, t.tx)
	})
	if err != nil && !answered(err) {
		return err
	}
	// Also if nothing was erased now: an erasure before may have been interrupted.
	if left := s.destroyOld(ctx); left != nil {
		return left
	}
	if s.d.Erased != nil {
		// Readers may have kept traces in the file.
		if scrub := s.explain("erase a subject", s.d.Erased(ctx, s.db)); scrub != nil {
			return scrub
		}
	}
	return err
}

// lost counts the keys that do not open.
func lost(keys []subjectKey) (n int) {
	for _, k := range keys {
		if k.err != nil {
			n++
		}
	}
	return n
}

// unheld locks the key of a subject, and returns an error if a run about the subject is under legal
// hold. Bodies do not count, since whoever may add them may name any key.
func (t *tx) unheld(ctx context.Context, id string) error {
	if err := t.lockKey(ctx, id); err != nil {
		return err
	}
	var runs int
	if err := t.row(ctx, "SELECT count(*) FROM legal_holds h JOIN runs r ON 'run/' || r.workflow || '/' || r.root = (h.chain || '') WHERE r.subject_key = $1", id).Scan(&runs); err != nil {
		return err
	}
	if runs > 0 {
		return fmt.Errorf("runs are under legal hold, %d of them: %w", runs, ledger.ErrConflict)
	}
	return nil
}

// eraseKey deletes the key of a subject, and what the tables have of the subject's runs.
func (t *tx) eraseKey(ctx context.Context, id, reason string) error {
	if _, err := t.exec(ctx, "DELETE FROM subject_keys WHERE id = $1", id); err != nil {
		return err
	}
	if err := t.forget(ctx, id); err != nil {
		return err
	}
	return t.act(ctx, ledger.SubjectErased, ledger.ErasedData{Key: id, Reason: reason})
}
