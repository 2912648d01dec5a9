package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"chimera.ai/engine/ledger"
)

// CloseRun implements [ledger.Runs].
func (s *Store) CloseRun(ctx context.Context, end ledger.Run, last []ledger.Outcome) (r ledger.Run, stood bool, err error) {
	err = s.do(ctx, "close run "+end.Workflow, func(t *tx) error {
		switch {
		case !end.State.Ended():
			return fmt.Errorf("%w: a run is not closed as %.40q", ledger.ErrInvalid, end.State)
		case len(end.Value) > ledger.MaxRunValue:
			return fmt.Errorf("%w: the value of a run has %d bytes, more than %d", ledger.ErrInvalid, len(end.Value), ledger.MaxRunValue)
		case len(end.Value) > 0 && end.State != ledger.RunSucceeded:
			return fmt.Errorf("%w: a run that is closed as %s has no value", ledger.ErrInvalid, end.State)
		}
		if err := t.lock(ctx, end.Chain()); err != nil {
			return err
		}
		have, sealed, err := t.stands(ctx, end.Workflow, end.Root)
		if err == nil {
			have, err = t.begun(ctx, have)
		}
		if err != nil {
			return err
		}
		// A run whose subject was erased no longer has the digest of its input.
		if end.PlanDigest != "" && have.PlanDigest != end.PlanDigest ||
			end.InputDigest != "" && have.InputDigest != "" && have.InputDigest != end.InputDigest {
			return fmt.Errorf("%w: it was opened for another plan or input", ledger.ErrConflict)
		}
		if have.State != ledger.RunRunning {
			r, stood = have, true
			if closed, err := t.closed(ctx, have); err != nil || closed {
				return err
			}
			// Effects were settled after its end, so it is closed again after them.
			return t.end(ctx, have, nil, 0)
		}
		drafts, fresh, err := t.outcomes(ctx, have, sealed, last)
		if err != nil {
			return err
		}
		at := t.now
		have.State, have.ClosedAt, have.OutputDigest, have.Failure = end.State, &at, end.OutputDigest, end.Failure
		if err := t.end(ctx, have, drafts, fresh); err != nil {
			return err
		}
		kept := have
		if sealed != nil && sealed.gone {
			kept = bare(have)
		}
		// In the form in which it is read later.
		plain, err := text(kept)
		if err != nil {
			return err
		}
		if r = (ledger.Run{}); json.Unmarshal([]byte(plain), &r) != nil {
			return fmt.Errorf("%w: it cannot be read again", ledger.ErrInvalid)
		}
		doc, err := sealed.keep(have, bare(have))
		if err != nil {
			return err
		}
		var value any // NULL
		if len(end.Value) > 0 && (sealed == nil || !sealed.gone) {
			r.Value = end.Value
			if value, err = sealed.keepBytes(end.Value); err != nil {
				return err
			}
		}
		_, err = t.exec(ctx, "UPDATE runs SET state = $3, doc = $4, closed_at = $5, value = $6 WHERE workflow = $1 AND root = $2",
			r.Workflow, r.Root, string(r.State), doc, millis(at), value)
		return err
	})
	return r, stood, err
}

// end states the end of a run, after its last outcomes, of which so many are new.
func (t *tx) end(ctx context.Context, r ledger.Run, outcomes []ledger.Draft, fresh int64) error {
	n, err := t.next(ctx, r.Chain())
	if err != nil {
		return err
	}
	r.Value = nil // it is not stated
	d := t.ofRun(r, ledger.RunClosed, key(ledger.RunClosed, strconv.FormatInt(n+fresh, 10)))
	if d.Data, err = json.Marshal(r); err != nil {
		return err
	}
	_, err = t.append(ctx, append(outcomes, d)...)
	return err
}

// begun returns a run that was read from the table as the log has it. What the log says again
// of a run is what it has said, since whoever may close runs may change the table too. Of how
// the run began, the table's word remains once the log's is pruned or erased: nobody can
// compare them then.
func (t *tx) begun(ctx context.Context, r ledger.Run) (ledger.Run, error) {
	from, err := t.saidRun(ctx, r, "kind = 'run.opened' ORDER BY n")
	if err != nil || from == nil {
		return r, err
	}
	if r.State != ledger.RunRunning {
		end, err := t.saidRun(ctx, r, "kind = 'run.closed' ORDER BY n DESC")
		if err != nil {
			return r, err
		}
		if end != nil {
			from = end
		}
	}
	if from.State == ledger.RunRunning {
		from.State, from.ClosedAt, from.OutputDigest, from.Failure = r.State, r.ClosedAt, r.OutputDigest, r.Failure
	}
	from.Value = r.Value
	return *from, nil
}

// saidRun returns what an entry in the chain of a run says of it, the first of those that which
// selects, or nil if there is none, or nobody can read it any more.
func (t *tx) saidRun(ctx context.Context, r ledger.Run, which string) (*ledger.Run, error) {
	var raw []byte
	err := t.row(ctx, "SELECT bytes FROM entries WHERE chain = $1 AND "+which+" LIMIT 1", r.Chain()).Scan(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	e, err := ledger.DecodeEntry(raw)
	if err != nil {
		return nil, err
	}
	if raw, err = t.opener().body(ctx, e.Body); errors.Is(err, ledger.ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	body, err := ledger.DecodeBody(raw)
	if err != nil {
		return nil, err
	}
	out := new(ledger.Run)
	return out, json.Unmarshal(body.Data, out)
}

// closed reports whether the run's chain ends with its end.
func (t *tx) closed(ctx context.Context, r ledger.Run) (bool, error) {
	var kind string
	err := t.row(ctx, "SELECT kind FROM entries WHERE chain = $1 ORDER BY n DESC LIMIT 1", r.Chain()).Scan(&kind)
	return kind == string(ledger.RunClosed), err
}

// OpenRuns implements [ledger.Runs].
func (s *Store) OpenRuns(ctx context.Context, workflow, root string, limit int) ([]ledger.Run, error) {
	limit, _ = limits(ledger.Page{Limit: limit})
	type row struct{ workflow, root, doc string }
	// Whatever the document says, the run is that of the row: the next page begins behind it.
	return openAll(ctx, s, "list open runs", "SELECT workflow, root, doc FROM runs WHERE state = 'running' AND (workflow, root) > ($1, $2) ORDER BY workflow, root LIMIT $3",
		[]any{workflow, root, limit}, func(rows *sql.Rows) (r row, err error) { return r, rows.Scan(&r.workflow, &r.root, &r.doc) },
		func(ctx context.Context, o *opener, r row) (ledger.Run, error) {
			v, err := passing(s, decode[ledger.Run])(ctx, o, r.doc)
			if errors.Is(err, sql.ErrNoRows) {
				err = nil
			}
			v.Workflow, v.Root = r.workflow, r.root
			return v, err
		})
}
