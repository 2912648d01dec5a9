package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"chimera.ai/engine/ledger"
)

const selectRun = "SELECT doc FROM runs WHERE workflow = $1 AND root = $2"

// OpenRun implements [ledger.Runs].
func (s *Store) OpenRun(ctx context.Context, r ledger.Run) error {
	return s.do(ctx, "open run "+r.Workflow, func(t *tx) error {
		// The root follows the last slash of a chain's name.
		if r.Workflow == "" || r.Root == "" || strings.Contains(r.Root, "/") {
			return fmt.Errorf("%w: %.80q and %.80q do not name a run", ledger.ErrInvalid, r.Workflow, r.Root)
		}
		if err := t.lock(ctx, r.Chain()); err != nil {
			return err
		}
		have, err := locked[ledger.Run](ctx, t, selectRun, r.Workflow, r.Root)
		switch {
		case err == nil:
			// A run whose subject was erased no longer has the digest of its input.
			if have.PlanDigest != r.PlanDigest || have.InputDigest != "" && have.InputDigest != r.InputDigest {
				return fmt.Errorf("%w: it was opened for another plan or input", ledger.ErrConflict)
			}
			if r.GrantDigest != "" && have.GrantDigest != r.GrantDigest {
				return fmt.Errorf("%w: it was opened with another start grant, or with none", ledger.ErrConflict)
			}
			return nil
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		if r.GrantDigest != "" {
			if err := t.unused(ctx, r); err != nil {
				return err
			}
		}
		sealed, err := t.subjectOf(ctx, r)
		if err != nil {
			return err
		}
		t.keys[r.Chain()] = sealed
		var id any
		if sealed != nil {
			id = sealed.id
		}
		r.State, r.OpenedAt, r.ClosedAt, r.OutputDigest, r.Failure, r.Value = ledger.RunRunning, t.now, nil, "", nil, nil
		doc, err := sealed.keep(r, bare(r))
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "INSERT INTO runs (workflow, root, origin, opened_at, state, doc, subject_key) VALUES ($1, $2, $3, $4, $5, $6, $7)",
			r.Workflow, r.Root, r.Origin, millis(r.OpenedAt), string(r.State), doc, id); err != nil {
			return err
		}
		_, err = t.state(ctx, t.ofRun(r, ledger.RunOpened, string(ledger.RunOpened)), r)
		return err
	})
}

// unused checks that no other run of the workflow id was opened with the run's
// start grant. A grant is for one workflow id, so no run of another can have been.
func (t *tx) unused(ctx context.Context, r ledger.Run) error {
	// This is not the name of a run's chain, which has one part more.
	if err := t.lock(ctx, "run/"+r.Workflow); err != nil {
		return err
	}
	rows, err := t.rows(ctx, "SELECT doc FROM runs WHERE workflow = $1", r.Workflow)
	if err != nil {
		return err
	}
	all, err := collect(rows, scanText)
	if err != nil {
		return err
	}
	o := t.opener()
	for _, raw := range all {
		have, err := decode[ledger.Run](ctx, o, raw)
		if err != nil {
			return err
		}
		if have.GrantDigest == r.GrantDigest && have.Origin != r.Origin {
			return fmt.Errorf("%w: the start grant has opened the run %s", ledger.ErrConflict, have.Root)
		}
	}
	return nil
}

// ofRun is an entry of a run's chain.
func (t *tx) ofRun(r ledger.Run, kind ledger.Kind, key string) ledger.Draft {
	return ledger.Draft{
		Chain: r.Chain(), Key: key, Kind: kind, Agent: r.Agent, Plan: r.PlanDigest, Run: r.Workflow,
		Refs: refs("input", r.InputDigest, "output", r.OutputDigest),
	}
}

// open checks that a run, whose chain is locked, was opened, so that its chain
// begins with that; that it still runs, if it must; and that its subject was not
// erased, since the tables beside the log would repeat what was erased, without
// knowing what was decided before.
func (t *tx) open(ctx context.Context, workflow, root string, running bool) error {
	var state ledger.RunState
	var id sql.NullString
	var sealed *sealKey
	err := t.row(ctx, "SELECT state, subject_key FROM runs WHERE workflow = $1 AND root = $2", workflow, root).Scan(&state, &id)
	if err == nil {
		sealed, err = t.sealedWith(ctx, ledger.RunChain(workflow, root), id)
	}
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return fmt.Errorf("the run %.80q of %.80q was not opened: %w", root, workflow, ledger.ErrNotFound)
	case err == nil && running && state != ledger.RunRunning:
		return fmt.Errorf("%w: the run has ended as %s", ledger.ErrConflict, state)
	case err == nil && sealed != nil && sealed.gone:
		return fmt.Errorf("whom the run is about was erased: %w", ledger.ErrGone)
	}
	return err
}

// RecordOutcomes implements [ledger.Runs].
func (s *Store) RecordOutcomes(ctx context.Context, workflow, root string, outcomes []ledger.Outcome) error {
	return s.do(ctx, "record outcomes of "+workflow, func(t *tx) error {
		if err := t.lock(ctx, ledger.RunChain(workflow, root)); err != nil {
			return err
		}
		r, sealed, err := t.stands(ctx, workflow, root)
		if err != nil {
			return err
		}
		drafts, fresh, err := t.outcomes(ctx, r, sealed, outcomes)
		if err != nil {
			return err
		}
		if fresh > 0 && r.State != ledger.RunRunning {
			return fmt.Errorf("%w: the run has ended as %s", ledger.ErrConflict, r.State)
		}
		// It finds existing ones, and compares them with the new ones.
		_, err = t.append(ctx, drafts...)
		return err
	})
}

// outcomes writes the rows of a run's outcomes that do not exist yet, and returns
// their number and the entries of all.
func (t *tx) outcomes(ctx context.Context, r ledger.Run, sealed *sealKey, outcomes []ledger.Outcome) (drafts []ledger.Draft, fresh int64, err error) {
	rows := make([]any, 0, 6*len(outcomes))
	drafts = make([]ledger.Draft, 0, len(outcomes)+1)
	for _, o := range outcomes {
		switch o.Kind {
		case ledger.NodeSucceeded, ledger.NodeFailed, ledger.NodeSkipped:
		default:
			return nil, 0, fmt.Errorf("%w: %s is no outcome of a node", ledger.ErrInvalid, o.Kind)
		}
		doc, err := text(o)
		if err != nil {
			return nil, 0, err
		}
		d := t.ofRun(r, o.Kind, fmt.Sprintf("node/%s/%d/%d", o.Node, o.Visit, o.Element))
		d.Node, d.Visit, d.Element, d.Refs = o.Node, o.Visit, o.Element, refs("input", o.InputDigest, "output", o.OutputDigest)
		d.Data = json.RawMessage(doc)
		drafts = append(drafts, d)
		if sealed != nil {
			if doc, err = sealed.keep(o, bareOutcome(o)); err != nil {
				return nil, 0, err
			}
		}
		rows = append(rows, r.Workflow, r.Root, o.Node, o.Visit, o.Element, doc)
	}
	fresh, err = t.insert(ctx, "INSERT INTO outcomes (workflow, root, node, visit, element, doc) VALUES ", " ON CONFLICT DO NOTHING", 6, rows)
	if fresh < int64(len(drafts)) {
		t.careful = true // some have their entries
	}
	return drafts, fresh, err
}

// Run implements [ledger.Runs].
func (s *Store) Run(ctx context.Context, workflow, root string) (r ledger.Run, err error) {
	what := fmt.Sprintf("find run %.120q", workflow)
	query, args := "SELECT doc, value, subject_key FROM runs WHERE workflow = $1 AND root = $2", []any{workflow, root}
	if root == "" {
		query, args = "SELECT doc, value, subject_key FROM runs WHERE workflow = $1 ORDER BY serial DESC LIMIT 1", args[:1]
	}
	var doc string
	var value []byte
	var id sql.NullString
	if err := s.one(ctx, what, query, args, &doc, &value, &id); err != nil {
		return r, err
	}
	r, err = decodeRun(ctx, s.opener(), doc, value, id)
	return r, s.explain(what, err)
}

// decodeRun opens a run with its value.
func decodeRun(ctx context.Context, o *opener, doc string, value []byte, id sql.NullString) (r ledger.Run, err error) {
	if r, err = decode[ledger.Run](ctx, o, doc); err != nil {
		return r, err
	}
	if r.Value = value; id.Valid {
		if r.Value, err = o.openBytes(ctx, value); errors.Is(err, ledger.ErrSealed) {
			err = nil
		}
	}
	return r, err
}

// ListRuns implements [ledger.Runs].
func (s *Store) ListRuns(ctx context.Context, page ledger.Page) ([]ledger.Run, error) {
	limit, offset := limits(page)
	return proper[ledger.Run](ctx, s, "list runs", "SELECT doc FROM runs ORDER BY serial DESC LIMIT $1 OFFSET $2", []any{limit, offset})
}

// Outcomes implements [ledger.Runs].
func (s *Store) Outcomes(ctx context.Context, workflow, root string, page ledger.Page) ([]ledger.Outcome, error) {
	limit, offset := limits(page)
	return documents[ledger.Outcome](ctx, s, "list outcomes", "SELECT doc FROM outcomes WHERE workflow = $1 AND root = $2 ORDER BY serial LIMIT $3 OFFSET $4",
		[]any{workflow, root, limit, offset})
}
