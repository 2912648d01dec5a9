package sqlstore

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	"chimera.ai/engine/ledger"
)

// RecordOrder implements [ledger.Runs].
func (s *Store) RecordOrder(ctx context.Context, workflow, root string, o ledger.Order) error {
	return s.do(ctx, "record an order to "+workflow, func(t *tx) error {
		if err := formed(&o); err != nil {
			return err
		}
		if err := t.lock(ctx, ledger.RunChain(workflow, root)); err != nil {
			return err
		}
		r, sealed, err := t.stands(ctx, workflow, root)
		if err != nil {
			return err
		}
		var kind ledger.Kind
		switch err := t.row(ctx, "SELECT kind FROM orders WHERE workflow = $1 AND root = $2 AND n = $3", workflow, root, o.N).Scan(&kind); {
		case err == nil && kind == o.Kind:
			return nil
		case err == nil:
			return fmt.Errorf("%w: the order %d is %s", ledger.ErrConflict, o.N, kind)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		if r.State != ledger.RunRunning {
			return fmt.Errorf("%w: the run has ended as %s", ledger.ErrConflict, r.State)
		}
		if sealed != nil && sealed.gone && o.Signed != nil {
			// Whether it has counted before nobody knows.
			return fmt.Errorf("whom the run is about was erased: %w", ledger.ErrGone)
		}
		if err := t.follows(ctx, r, &o); err != nil {
			return err
		}
		said, err := t.fresh(ctx, r, &o, sealed)
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "INSERT INTO orders (workflow, root, n, kind, digest) VALUES ($1, $2, $3, $4, $5)", workflow, root, o.N, string(o.Kind), said); err != nil {
			return err
		}
		d := t.ofRun(r, o.Kind, key(o.Kind, strconv.Itoa(o.N)))
		d.Refs = nil
		_, err = t.state(ctx, d, o)
		return err
	})
}

// formed says what is wrong with the form of an order, or nil.
func formed(o *ledger.Order) error {
	switch {
	case o.Kind != ledger.RunPaused && o.Kind != ledger.RunResumed || o.N < 1:
		return fmt.Errorf("%w: %.40q, number %d, is no order", ledger.ErrInvalid, string(o.Kind), o.N)
	case len(o.By) > ledger.MaxOrderBy, len(o.Reason) > ledger.MaxOrderReason, len(o.Signed) > ledger.MaxOrderSigned, !utf8.ValidString(o.By), !utf8.ValidString(o.Reason):
		return fmt.Errorf("%w: a text of the order is too long, or not UTF-8", ledger.ErrInvalid)
	case o.Signer != "" && o.Signed == nil:
		return fmt.Errorf("%w: the order has a signer, and nothing that was signed", ledger.ErrInvalid)
	}
	return nil
}

// follows checks that an order may follow the last one to the run.
func (t *tx) follows(ctx context.Context, r ledger.Run, o *ledger.Order) error {
	var n int
	var last ledger.Kind
	err := t.row(ctx, "SELECT n, kind FROM orders WHERE workflow = $1 AND root = $2 ORDER BY n DESC LIMIT 1", r.Workflow, r.Root).Scan(&n, &last)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	switch {
	case n > o.N:
		return fmt.Errorf("%w: the last order has the number %d", ledger.ErrConflict, n)
	case last == o.Kind:
		return fmt.Errorf("%w: the run was told that already", ledger.ErrConflict)
	case last == "" && o.Kind == ledger.RunResumed && r.Origin == r.Root:
		return fmt.Errorf("%w: the run is not paused", ledger.ErrConflict)
	}
	return nil
}

// fresh returns what stands for what was signed, which must not have counted for the run yet, and
// brings the envelope into its one form. It is a digest, of a person's run with that person's
// key, since what was signed might be guessed.
func (t *tx) fresh(ctx context.Context, r ledger.Run, o *ledger.Order, sealed *sealKey) (said string, err error) {
	if o.Signed == nil {
		return "", nil
	}
	if o.Signed, err = canonical(o.Signed); err != nil {
		return "", err
	}
	if said, err = o.Said(); err != nil {
		return "", err
	}
	if sealed != nil {
		h := hmac.New(sha256.New, sealed.key)
		h.Write([]byte(said))
		said = hex.EncodeToString(h.Sum(nil))
	}
	var n int
	if err := t.row(ctx, "SELECT count(*) FROM orders WHERE workflow = $1 AND root = $2 AND digest = $3", r.Workflow, r.Root, said).Scan(&n); err != nil {
		return "", err
	}
	if n > 0 {
		return "", fmt.Errorf("%w: what was signed has counted before", ledger.ErrConflict)
	}
	return said, nil
}
