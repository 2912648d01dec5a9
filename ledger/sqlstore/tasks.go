package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

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

// drafted stores a new task of a run, whose chain is locked.
func (t *tx) drafted(ctx context.Context, run ledger.Run, d task.Draft) error {
	doc, err := text(d)
	if err != nil {
		return err
	}
	if _, err := task.ParseDraft([]byte(doc)); err != nil {
		return fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
	}
	if _, err := t.exec(ctx, "INSERT INTO tasks (task_id, chain, state, created_at, doc) VALUES ($1, $2, $3, $4, $5)",
		d.TaskID, run.Chain(), string(d.State), d.CreatedAt.UnixMilli(), doc); err != nil {
		return err
	}
	_, err = t.state(ctx, draftOf(ledger.TaskDrafted, run.Chain(), d), d)
	return err
}

// signed signs a task that was drafted.
func (t *tx) signed(ctx context.Context, run ledger.Run, d task.Draft, by task.Signature) error {
	signed, err := d.Sign(by)
	if err != nil {
		return fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
	}
	doc, err := text(signed)
	if err != nil {
		return err
	}
	if _, err := t.exec(ctx, "UPDATE tasks SET state = $2, doc = $3 WHERE task_id = $1", d.TaskID, string(signed.State), doc); err != nil {
		return err
	}
	_, err = t.state(ctx, draftOf(ledger.TaskSigned, run.Chain(), d), signed)
	return err
}

// executed executes the task of an invocation's last decision, unless whom it is about
// was erased, and the task with that.
func (t *tx) executed(ctx context.Context, r row, result json.RawMessage) error {
	have, chain, err := t.stored(ctx, r.DecisionID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	was, ok := have.(task.Signed)
	if !ok {
		return fmt.Errorf("%w: task %s is %s", ledger.ErrConflict, r.DecisionID, have.Base().State)
	}
	if result == nil {
		result = json.RawMessage("{}")
	}
	at := t.now
	if at.Time().Before(was.Signature.SignedAt) {
		// The signer's clock is ahead of the database's. Times have whole milliseconds.
		at = ledger.At(was.Signature.SignedAt.Add(time.Millisecond - 1))
	}
	if result, err = canonical(result); err != nil {
		return err
	}
	record, err := t.state(ctx, draftOf(ledger.TaskExecuted, chain, was.Draft), ledger.ExecutedData{TaskID: was.TaskID, ExecutedAt: at, Result: result})
	if err != nil {
		return err
	}
	out, err := was.Execute(result, ledger.Reference(t.origin, record.Hash), at.Time())
	if err != nil {
		return fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
	}
	doc, err := text(out)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, "UPDATE tasks SET state = $2, doc = $3 WHERE task_id = $1", was.TaskID, string(out.State), doc)
	return err
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
