package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"chimera.ai/engine/ledger"
)

const selectRun = "SELECT doc FROM runs WHERE workflow = $1 AND root = $2"

// OpenRun implements [ledger.Runs].
func (s *Store) OpenRun(ctx context.Context, r ledger.Run) error {
	return s.do(ctx, "open run "+r.Workflow, func(t *tx) error {
		// The last slash of a chain's name stands before the root.
		if r.Workflow == "" || r.Root == "" || strings.Contains(r.Root, "/") {
			return fmt.Errorf("%w: %.80q and %.80q do not name a run", ledger.ErrInvalid, r.Workflow, r.Root)
		}
		if err := t.lock(ctx, r.Chain()); err != nil {
			return err
		}
		have, err := locked[ledger.Run](ctx, t, selectRun, r.Workflow, r.Root)
		switch {
		case err == nil:
			// A run whose subject was erased has no digest of its input any more.
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
		r.State, r.OpenedAt, r.ClosedAt = ledger.RunRunning, t.now, nil
		doc, err := text(t.kept(r))
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "INSERT INTO runs (workflow, root, opened_at, state, doc, subject_key) VALUES ($1, $2, $3, $4, $5, $6)",
			r.Workflow, r.Root, millis(r.OpenedAt), string(r.State), doc, id); err != nil {
			return err
		}
		_, err = t.state(ctx, t.ofRun(r, ledger.RunOpened, string(ledger.RunOpened)), r)
		return err
	})
}

// unused makes sure that no other run of the workflow id was opened with the
// run's start grant. A grant is for one workflow id, so no other run can be.
func (t *tx) unused(ctx context.Context, r ledger.Run) error {
	// Not the name of a run's chain, which has one part more.
	if err := t.lock(ctx, "run/"+r.Workflow); err != nil {
		return err
	}
	rows, err := t.rows(ctx, "SELECT doc FROM runs WHERE workflow = $1", r.Workflow)
	if err != nil {
		return err
	}
	all, err := collect(rows, document[ledger.Run])
	if err != nil {
		return err
	}
	for _, have := range all {
		if have.GrantDigest == r.GrantDigest && have.Origin != r.Origin {
			return fmt.Errorf("%w: the start grant has opened the run %s", ledger.ErrConflict, have.Root)
		}
	}
	return nil
}

// kept is what the tables beside the log keep of a run: all of it, unless its
// subject was erased.
func (t *tx) kept(r ledger.Run) ledger.Run {
	if k := t.keys[r.Chain()]; k != nil && k.gone {
		return bare(r)
	}
	return r
}

// ofRun is an entry of a run's chain.
func (t *tx) ofRun(r ledger.Run, kind ledger.Kind, key string) ledger.Draft {
	return ledger.Draft{
		Chain: r.Chain(), Key: key, Kind: kind, Agent: r.Agent, Plan: r.PlanDigest, Run: r.Workflow,
		Refs: refs("input", r.InputDigest, "output", r.OutputDigest),
	}
}

// CloseRun implements [ledger.Runs].
func (s *Store) CloseRun(ctx context.Context, end ledger.Run) error {
	return s.do(ctx, "close run "+end.Workflow, func(t *tx) error {
		switch end.State {
		case ledger.RunSucceeded, ledger.RunFailed, ledger.RunCancelled:
		default:
			return fmt.Errorf("%w: a run is not closed as %.40q", ledger.ErrInvalid, end.State)
		}
		if err := t.lock(ctx, end.Chain()); err != nil {
			return err
		}
		r, sealed, err := t.stands(ctx, end.Workflow, end.Root)
		if err != nil {
			return err
		}
		erased := sealed != nil && sealed.gone
		if r.State != ledger.RunRunning {
			if r.State != end.State || !erased && r.OutputDigest != end.OutputDigest {
				return fmt.Errorf("%w: it has ended as %s", ledger.ErrConflict, r.State)
			}
			if closed, err := t.closed(ctx, r); err != nil || closed {
				return err
			}
			// Effects were settled after its end: it is closed again behind them.
		} else {
			r.State, r.ClosedAt, r.OutputDigest, r.Failure = end.State, &t.now, end.OutputDigest, end.Failure
		}
		doc, err := text(t.kept(r))
		if err != nil {
			return err
		}
		if _, err := t.exec(ctx, "UPDATE runs SET state = $3, doc = $4 WHERE workflow = $1 AND root = $2", r.Workflow, r.Root, string(r.State), doc); err != nil {
			return err
		}
		n, err := t.next(ctx, r.Chain())
		if err != nil {
			return err
		}
		_, err = t.state(ctx, t.ofRun(r, ledger.RunClosed, key(ledger.RunClosed, strconv.FormatInt(n, 10))), r)
		return err
	})
}

// closed reports whether the run's chain ends with its end.
func (t *tx) closed(ctx context.Context, r ledger.Run) (bool, error) {
	var kind string
	err := t.row(ctx, "SELECT kind FROM entries WHERE chain = $1 ORDER BY n DESC LIMIT 1", r.Chain()).Scan(&kind)
	return kind == string(ledger.RunClosed), err
}

// open makes sure that a run, whose chain is locked, was opened, so that its
// chain begins with that; that it still runs, if it must; and that its subject was
// not erased: the tables beside the log would tell again what they have forgotten,
// and not know what was judged before.
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
		var rows []any
		drafts := make([]ledger.Draft, 0, len(outcomes))
		for _, o := range outcomes {
			switch o.Kind {
			case ledger.NodeSucceeded, ledger.NodeFailed, ledger.NodeSkipped:
			default:
				return fmt.Errorf("%w: %s is no outcome of a node", ledger.ErrInvalid, o.Kind)
			}
			doc, err := text(o)
			if err != nil {
				return err
			}
			d := t.ofRun(r, o.Kind, fmt.Sprintf("node/%s/%d/%d", o.Node, o.Visit, o.Element))
			d.Node, d.Visit, d.Element, d.Refs = o.Node, o.Visit, o.Element, refs("input", o.InputDigest, "output", o.OutputDigest)
			d.Data = json.RawMessage(doc)
			drafts = append(drafts, d)
			if sealed != nil && sealed.gone {
				if doc, err = text(bareOutcome(o)); err != nil {
					return err
				}
			}
			rows = append(rows, workflow, root, o.Node, o.Visit, o.Element, doc)
		}
		fresh, err := t.insert(ctx, "INSERT INTO outcomes (workflow, root, node, visit, element, doc) VALUES ", " ON CONFLICT DO NOTHING", 6, rows)
		if err != nil {
			return err
		}
		if fresh > 0 && r.State != ledger.RunRunning {
			return fmt.Errorf("%w: the run has ended as %s", ledger.ErrConflict, r.State)
		}
		// It finds those that are there, and holds them against what is said now.
		_, err = t.append(ctx, drafts...)
		return err
	})
}

// Run implements [ledger.Runs].
func (s *Store) Run(ctx context.Context, workflow, root string) (ledger.Run, error) {
	what := fmt.Sprintf("find run %.120q", workflow)
	if root == "" {
		return find[ledger.Run](ctx, s, what, "SELECT doc FROM runs WHERE workflow = $1 ORDER BY serial DESC LIMIT 1", workflow)
	}
	return find[ledger.Run](ctx, s, what, selectRun, workflow, root)
}

// ListRuns implements [ledger.Runs].
func (s *Store) ListRuns(ctx context.Context, page ledger.Page) ([]ledger.Run, error) {
	limit, offset := limits(page)
	return list(ctx, s, "list runs", "SELECT doc FROM runs ORDER BY serial DESC LIMIT $1 OFFSET $2", []any{limit, offset}, document[ledger.Run])
}

// Outcomes implements [ledger.Runs].
func (s *Store) Outcomes(ctx context.Context, workflow, root string, page ledger.Page) ([]ledger.Outcome, error) {
	limit, offset := limits(page)
	return list(ctx, s, "list outcomes", "SELECT doc FROM outcomes WHERE workflow = $1 AND root = $2 ORDER BY serial LIMIT $3 OFFSET $4",
		[]any{workflow, root, limit, offset}, document[ledger.Outcome])
}
