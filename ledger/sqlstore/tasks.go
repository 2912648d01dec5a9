package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
)

// stored reads a task with the chain that it belongs to.
func (t *tx) stored(ctx context.Context, id string) (task.Task, string, error) {
	var chain, doc string
	if err := t.row(ctx, "SELECT chain, doc FROM tasks WHERE task_id = $1", id).Scan(&chain, &doc); err != nil {
		return nil, "", err
	}
	v, err := task.Parse([]byte(doc))
	return v, chain, err
}

// draftOf returns an entry about a task. Its chain is run/WORKFLOW/ROOT.
func draftOf(kind ledger.Kind, chain string, d task.Draft) ledger.Draft {
	workflow, _, _ := ledger.RunOf(chain)
	return ledger.Draft{Chain: chain, Key: key(kind, d.TaskID), Kind: kind, Agent: d.AgentID, Run: workflow, Task: d.TaskID}
}

// DraftTask implements [ledger.Tasks].
func (s *Store) DraftTask(ctx context.Context, workflow, root string, d task.Draft) error {
	return s.do(ctx, "draft task "+d.TaskID, func(t *tx) error {
		doc, err := text(d)
		if err != nil {
			return err
		}
		if _, err := task.ParseDraft([]byte(doc)); err != nil {
			return fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
		}
		chain := ledger.RunChain(workflow, root)
		if err := t.lock(ctx, chain); err != nil {
			return err
		}
		have, at, err := t.stored(ctx, d.TaskID)
		switch {
		case err == nil:
			base := have.Base()
			base.State = task.StateDraft
			if again, err := text(base); err != nil || again != doc || at != chain {
				return fmt.Errorf("%w: there is another task of that id", ledger.ErrConflict)
			}
			return nil
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		if err := t.open(ctx, workflow, root, false); err != nil {
			return err
		}
		if _, err := t.exec(ctx, "INSERT INTO tasks (task_id, chain, state, created_at, doc) VALUES ($1, $2, $3, $4, $5)",
			d.TaskID, chain, string(d.State), d.CreatedAt.UnixMilli(), doc); err != nil {
			return err
		}
		_, err = t.state(ctx, draftOf(ledger.TaskDrafted, chain, d), d)
		return err
	})
}

// SignTask implements [ledger.Tasks].
func (s *Store) SignTask(ctx context.Context, signed task.Signed) error {
	return s.do(ctx, "sign task "+signed.TaskID, func(t *tx) error {
		doc, err := text(signed)
		if err != nil {
			return err
		}
		if _, err := task.ParseSigned([]byte(doc)); err != nil {
			return fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
		}
		have, chain, err := t.claim(ctx, signed.TaskID)
		if err != nil {
			return err
		}
		was, ok := have.(task.Draft)
		if !ok {
			if again, err := text(have); err == nil && again == doc {
				return nil
			}
			return fmt.Errorf("%w: it is %s", ledger.ErrConflict, have.Base().State)
		}
		want, err := was.Sign(signed.Signature)
		if err != nil {
			return err
		}
		if again, err := text(want); err != nil || again != doc {
			return fmt.Errorf("%w: it is not what was drafted", ledger.ErrConflict)
		}
		if _, err := t.exec(ctx, "UPDATE tasks SET state = $2, doc = $3 WHERE task_id = $1", signed.TaskID, string(signed.State), doc); err != nil {
			return err
		}
		_, err = t.state(ctx, draftOf(ledger.TaskSigned, chain, signed.Draft), signed)
		return err
	})
}

// claim reads a task once its chain is locked.
func (t *tx) claim(ctx context.Context, id string) (task.Task, string, error) {
	_, chain, err := t.stored(ctx, id)
	if err != nil {
		return nil, "", err
	}
	if err := t.lock(ctx, chain); err != nil {
		return nil, "", err
	}
	return t.stored(ctx, id)
}

// ExecuteTask implements [ledger.Tasks].
func (s *Store) ExecuteTask(ctx context.Context, id string, result json.RawMessage) (out task.Executed, err error) {
	err = s.do(ctx, "execute task "+id, func(t *tx) error {
		have, chain, err := t.claim(ctx, id)
		if err != nil {
			return err
		}
		switch was := have.(type) {
		case task.Executed:
			same, err := equalJSON(was.Result, result)
			if err != nil || !same {
				return errors.Join(fmt.Errorf("%w: it was executed with another result", ledger.ErrConflict), err)
			}
			out = was
			return nil
		case task.Signed:
			at := t.now
			if at.Time().Before(was.Signature.SignedAt) {
				// The signer's clock is ahead of the database's.
				at = ledger.At(was.Signature.SignedAt)
				if at.Time().Before(was.Signature.SignedAt) {
					at = ledger.At(was.Signature.SignedAt.Add(999_999))
				}
			}
			raw, err := canonical(result)
			if err != nil {
				return err
			}
			record, err := t.state(ctx, draftOf(ledger.TaskExecuted, chain, was.Draft), ledger.ExecutedData{TaskID: id, ExecutedAt: at, Result: raw})
			if err != nil {
				return err
			}
			if out, err = was.Execute(raw, ledger.Reference(t.origin, record.Hash), at.Time()); err != nil {
				return fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
			}
			doc, err := text(out)
			if err != nil {
				return err
			}
			_, err = t.exec(ctx, "UPDATE tasks SET state = $2, doc = $3 WHERE task_id = $1", id, string(out.State), doc)
			return err
		}
		return fmt.Errorf("%w: it is not signed", ledger.ErrConflict)
	})
	return out, err
}

func scanTask(rows *sql.Rows) (task.Task, error) {
	var doc string
	if err := rows.Scan(&doc); err != nil {
		return nil, err
	}
	return task.Parse([]byte(doc))
}

// Task implements [ledger.Tasks].
func (s *Store) Task(ctx context.Context, id string) (task.Task, error) {
	found, err := list(ctx, s, "find task", "SELECT doc FROM tasks WHERE task_id = $1", []any{id}, scanTask)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("find task %.120q: %w", id, ledger.ErrNotFound)
	}
	return found[0], nil
}

// ListTasks implements [ledger.Tasks].
func (s *Store) ListTasks(ctx context.Context, state task.State, page ledger.Page) ([]task.Task, error) {
	limit, offset := limits(page)
	return list(ctx, s, "list tasks", "SELECT doc FROM tasks WHERE state = $1 OR $1 = '' ORDER BY serial DESC LIMIT $2 OFFSET $3",
		[]any{string(state), limit, offset}, scanTask)
}
