package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"chimera.ai/engine/ledger"
)

// RecordCheck implements [ledger.Effects].
func (s *Store) RecordCheck(ctx context.Context, run ledger.Run, c ledger.Check) (ledger.Check, error) {
	err := s.do(ctx, "record a check of "+c.Node, func(t *tx) error {
		if err := errors.Join(c.Valid(), storableText(c.Failure)); err != nil {
			return err
		}
		// Its number counts in several runs.
		if err := t.beside(ctx, "checks of "+run.Workflow+"/"+run.Origin); err != nil {
			return err
		}
		if err := t.lock(ctx, run.Chain()); err != nil {
			return err
		}
		if err := t.open(ctx, run.Workflow, run.Root, true); err != nil {
			return err
		}
		if err := t.allows(ctx, run, c.Barrier); err != nil {
			return err
		}
		var last int
		if err := t.row(ctx, "SELECT coalesce(max(number), 0) FROM checks WHERE workflow = $1 AND origin = $2 AND node = $3 AND visit = $4",
			run.Workflow, run.Origin, c.Node, c.Visit).Scan(&last); err != nil {
			return err
		}
		if last >= ledger.MaxChecks {
			return fmt.Errorf("%w: the node was checked %d times", ledger.ErrInvalid, last)
		}
		c.Workflow, c.Root, c.Origin, c.Number, c.MadeAt = run.Workflow, run.Root, run.Origin, last+1, t.now
		sealed, err := t.sealing(ctx, run.Chain())
		if err != nil {
			return err
		}
		doc, err := sealed.keep(c, nil)
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "INSERT INTO checks (workflow, origin, node, visit, number, chain, barrier, doc) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
			c.Workflow, c.Origin, c.Node, c.Visit, c.Number, run.Chain(), c.Barrier, doc); err != nil {
			return err
		}
		d := t.ofRun(run, ledger.CheckMade, key(ledger.CheckMade, c.About()))
		d.Node, d.Visit, d.Refs = c.Node, c.Visit, refs("input", c.InputDigest, "output", c.OutputDigest)
		_, err = t.state(ctx, d, c)
		return err
	})
	return c, err
}

// allows returns an error unless a barrier is "", or people have approved what waits there in
// a run of the same origin.
func (t *tx) allows(ctx context.Context, run ledger.Run, barrier string) error {
	if barrier == "" {
		return nil
	}
	var state, origin string
	err := t.row(ctx, "SELECT state, origin FROM barriers WHERE id = $1", barrier).Scan(&state, &origin)
	if errors.Is(err, sql.ErrNoRows) || err == nil && (origin != run.Origin || state != string(ledger.BarrierApproved)) {
		return fmt.Errorf("%w: nobody has approved what waits at the barrier %.120q", ledger.ErrConflict, barrier)
	}
	return err
}

// LastCheck implements [ledger.Effects].
func (s *Store) LastCheck(ctx context.Context, workflow, origin, node string, visit int, barrier string) (c ledger.Check, err error) {
	what := fmt.Sprintf("find the last check of %.120q", node)
	var doc string
	if err := s.one(ctx, what, `SELECT doc FROM checks WHERE workflow = $1 AND origin = $2 AND node = $3 AND visit = $4 AND (barrier = $5 OR $5 = '')
		ORDER BY number DESC LIMIT 1`, []any{workflow, origin, node, visit, barrier}, &doc); err != nil {
		return c, err
	}
	c, err = decode[ledger.Check](ctx, s.opener(), doc)
	return c, s.explain(what, err)
}
