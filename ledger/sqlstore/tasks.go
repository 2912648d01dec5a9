package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	v, err := openTask(ctx, t.opener(), doc)
	return v, chain, err
}

// openTask opens and reads a stored task.
func openTask(ctx context.Context, o *opener, doc string) (task.Task, error) {
	raw, err := o.open(ctx, doc)
	if err != nil {
		return nil, err
	}
	return task.Parse(raw)
}

// keepTask returns what the table stores of a task of a chain.
func (t *tx) keepTask(ctx context.Context, chain string, v task.Task) (string, error) {
	sealed, err := t.sealing(ctx, chain)
	if err != nil {
		return "", err
	}
	return sealed.keep(v, nil)
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
	if doc, err = t.keepTask(ctx, run.Chain(), d); err != nil {
		return err
	}
	if _, err := t.exec(ctx, "INSERT INTO tasks (task_id, chain, state, created_at, doc) VALUES ($1, $2, $3, $4, $5)",
		d.TaskID, run.Chain(), string(d.State), d.CreatedAt.UnixMilli(), doc); err != nil {
		return err
	}
	_, err = t.state(ctx, draftOf(ledger.TaskDrafted, run.Chain(), d), d)
	return err
}

// awaited is a task that waits for its signature, or has it, with the chain that it belongs
// to.
type awaited struct {
	task.Draft
	chain  string
	signed bool
}

// awaitedAt returns the chains of the tasks of an authorization's invocation: that of the
// last decision, and the one that waits at its barrier.
func (t *tx) awaitedAt(ctx context.Context, a ledger.Authorization, last string) ([]string, error) {
	if a.Barrier == "" {
		return t.chainsOf(ctx, []ledger.Awaited{{Decision: last}})
	}
	b, err := t.barrier(ctx, a.Barrier)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, fmt.Errorf("%w: there is no barrier %.120q", ledger.ErrConflict, a.Barrier)
	}
	if err != nil {
		return nil, err
	}
	waiting := slices.DeleteFunc(b.Actions, func(x ledger.Awaited) bool { return x.Invocation != a.ID })
	return t.chainsOf(ctx, append(waiting, ledger.Awaited{Decision: last}))
}

// chainsOf returns the chains of the tasks of actions that wait. A run that was reset
// continues with what an earlier one has drafted.
func (t *tx) chainsOf(ctx context.Context, actions []ledger.Awaited) (out []string, err error) {
	for _, x := range actions {
		var chain string
		err := t.row(ctx, "SELECT chain FROM tasks WHERE task_id = $1", x.Decision).Scan(&chain)
		if errors.Is(err, sql.ErrNoRows) {
			continue // it was erased
		}
		if err != nil {
			return nil, err
		}
		out = append(out, chain)
	}
	return out, nil
}

// undersigned returns the task of an action that people have approved at a barrier, or nil if
// nobody was asked, or only about the effect that it undoes.
func (t *tx) undersigned(ctx context.Context, a ledger.Authorization, action string) (*awaited, error) {
	if a.Barrier == "" {
		return nil, nil
	}
	b, err := t.barrier(ctx, a.Barrier)
	if errors.Is(err, sql.ErrNoRows) || err == nil && b.State != ledger.BarrierApproved {
		return nil, fmt.Errorf("%w: barrier %s is not approved", ledger.ErrConflict, a.Barrier)
	}
	if err != nil {
		return nil, err
	}
	for _, x := range b.Actions {
		if x.Invocation != a.ID || x.Action != action {
			continue
		}
		have, chain, err := t.stored(ctx, x.Decision)
		if err != nil {
			return nil, err
		}
		out := &awaited{chain: chain}
		switch v := have.(type) {
		case task.Draft:
			out.Draft = v
		case task.Signed:
			out.Draft, out.signed = v.Draft, true
		default:
			return nil, fmt.Errorf("%w: task %s is %s", ledger.ErrConflict, x.Decision, have.Base().State)
		}
		return out, nil
	}
	if _, ok := b.Covers(a.ID); ok {
		return nil, nil // nobody was asked about it by itself
	}
	return nil, fmt.Errorf("%w: at barrier %s another action was approved", ledger.ErrConflict, a.Barrier)
}

// taskOf is the id of a task, or "".
func taskOf(d *awaited) string {
	if d == nil {
		return ""
	}
	return d.TaskID
}

// superseded closes the draft of an earlier decision about an action, if it is one.
func (t *tx) superseded(ctx context.Context, id string) error {
	have, chain, err := t.stored(ctx, id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if d, ok := have.(task.Draft); err == nil && ok {
		err = t.dropped(ctx, awaited{Draft: d, chain: chain}, "the action was decided on anew")
	}
	return err
}

// taskClosed is the state in the table of a draft that nobody will sign any more.
const taskClosed = "closed"

// dropped closes a draft, whose chain is locked.
func (t *tx) dropped(ctx context.Context, d awaited, reason string) error {
	if d.signed {
		return nil
	}
	n, err := t.exec(ctx, "UPDATE tasks SET state = $2 WHERE task_id = $1 AND state = $3", d.TaskID, taskClosed, string(task.StateDraft))
	if err != nil || n == 0 {
		return err
	}
	_, err = t.state(ctx, draftOf(ledger.TaskClosed, d.chain, d.Draft), ledger.TaskClosedData{TaskID: d.TaskID, Reason: reason})
	return err
}

// signed signs a task that was drafted.
func (t *tx) signed(ctx context.Context, d *awaited, by task.Signature) error {
	signed, err := d.Sign(by)
	if err != nil {
		return fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
	}
	doc, err := t.keepTask(ctx, d.chain, signed)
	if err != nil {
		return err
	}
	n, err := t.exec(ctx, "UPDATE tasks SET state = $2, doc = $3 WHERE task_id = $1 AND state = $4", d.TaskID, string(signed.State), doc, string(task.StateDraft))
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: task %s is closed", ledger.ErrConflict, d.TaskID)
	}
	if err != nil {
		return err
	}
	_, err = t.state(ctx, draftOf(ledger.TaskSigned, d.chain, d.Draft), signed)
	return err
}

// executed executes the task of an invocation, unless whom it is about
// was erased, and the task with that.
func (t *tx) executed(ctx context.Context, r row, result json.RawMessage) error {
	have, chain, err := t.stored(ctx, r.TaskID)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	was, ok := have.(task.Signed)
	if !ok {
		return fmt.Errorf("%w: task %s is %s", ledger.ErrConflict, r.TaskID, have.Base().State)
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
	doc, err := t.keepTask(ctx, chain, out)
	if err != nil {
		return err
	}
	_, err = t.exec(ctx, "UPDATE tasks SET state = $2, doc = $3 WHERE task_id = $1", was.TaskID, string(out.State), doc)
	return err
}

// Task implements [ledger.Tasks].
func (s *Store) Task(ctx context.Context, id string) (task.Task, error) {
	found, err := openAll(ctx, s, "find task", "SELECT doc FROM tasks WHERE task_id = $1", []any{id}, scanText, openTask)
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
	return openAll(ctx, s, "list tasks", "SELECT doc FROM tasks WHERE state = $1 OR $1 = '' ORDER BY serial DESC LIMIT $2 OFFSET $3",
		[]any{string(state), limit, offset}, scanText, passing(s, openTask))
}
