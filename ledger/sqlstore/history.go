package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
)

// pastCall is a call with what is read of it elsewhere: the entries of its beginning and its end, and
// its task.
type pastCall struct {
	ledger.PastCall
	began, ended []byte
	doc          string
}

// Calls implements [ledger.Effects].
func (s *Store) Calls(ctx context.Context, operation string, since ledger.Time, page ledger.Page) ([]ledger.PastCall, error) {
	limit, offset := limits(page)
	from := int64(0)
	if since != (ledger.Time{}) {
		from = millis(since)
	}
	return openAll(ctx, s, "list calls", `SELECT i.id, i.state, i.attempt, d.at, i.state = 'settled' AND i.output_digest <> '', h.posted, h.currency, b.bytes, e.bytes, t.doc
		FROM decisions d JOIN invocations i ON i.id = d.invocation AND i.decision_id = d.id
		LEFT JOIN holds h ON h.id = i.hold_id AND h.status = 'posted'
		LEFT JOIN tasks t ON t.task_id = i.task_id AND i.state = 'settled'
		LEFT JOIN entries b ON b.chain = i.chain AND b.key = 'invocation.calling/' || i.id || '/' || i.attempt
		LEFT JOIN entries e ON e.chain = i.chain AND e.key = 'invocation.' || i.state || '/' || i.id || '/' || i.attempt AND i.state <> 'calling'
		WHERE d.operation = $1 AND d.at >= $2 ORDER BY d.at, d.id LIMIT $3 OFFSET $4`, []any{operation, from, limit, offset}, scanPastCall, openPastCall)
}

func scanPastCall(rows *sql.Rows) (c pastCall, err error) {
	var at int64
	var posted sql.NullInt64
	var currency, doc sql.NullString
	if err := rows.Scan(&c.Invocation, &c.State, &c.Attempt, &at, &c.Succeeded, &posted, &currency, &c.began, &c.ended, &doc); err != nil {
		return c, err
	}
	c.DecidedAt, c.doc = instant(at), doc.String
	if posted.Valid {
		if m, err := ledger.Minor(posted.Int64, ledger.Currency(currency.String)); err == nil {
			c.Posted = &m
		}
	}
	return c, nil
}

// openPastCall reads when a call began and ended, and how it failed. What cannot be read says nothing.
func openPastCall(ctx context.Context, o *opener, c pastCall) (ledger.PastCall, error) {
	c.ClaimedAt, c.EndedAt = said(c.began), said(c.ended)
	if c.Succeeded || c.doc == "" {
		return c.PastCall, nil
	}
	var result struct {
		Error struct{ Kind string } `json:"error"`
	}
	v, err := openTask(ctx, o, c.doc)
	if x, ok := v.(task.Executed); err == nil && ok && json.Unmarshal(x.Result, &result) == nil {
		c.Failure = result.Error.Kind
	}
	return c.PastCall, nil
}

// said is when an entry was stated, nil for none.
func said(entry []byte) *ledger.Time {
	e, err := ledger.DecodeEntry(entry)
	if err != nil {
		return nil
	}
	return &e.At
}
