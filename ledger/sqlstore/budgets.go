package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"chimera.ai/engine/ledger"
)

const selectBudget = "SELECT agent, currency, period, parent, lim, pending, posted FROM budgets"

func scanBudget(scan func(...any) error) (b ledger.Budget, err error) {
	var limit, pending, posted int64
	if err := scan(&b.Agent, &b.Currency, &b.Period, &b.Parent, &limit, &pending, &posted); err != nil {
		return b, err
	}
	b.Limit, err = ledger.Minor(limit, b.Currency)
	if err != nil {
		return b, err
	}
	if b.Pending, err = ledger.Minor(pending, b.Currency); err != nil {
		return b, err
	}
	b.Posted, err = ledger.Minor(posted, b.Currency)
	return b, err
}

// maxParents bounds the depth of the hierarchy of budgets.
const maxParents = 16

// line lists the budgets to which a hold of the agent is charged.
func (t *tx) line(ctx context.Context, agent string, c ledger.Currency, period string) ([]string, error) {
	var out []string
	for at := agent; at != ""; {
		if len(out) == maxParents {
			return nil, fmt.Errorf("%w: more than %d budgets have each other for parents", ledger.ErrConflict, maxParents)
		}
		var parent string
		err := t.row(ctx, "SELECT parent FROM budgets WHERE agent = $1 AND currency = $2 AND period = $3", at, string(c), period).Scan(&parent)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("%s has no budget in %s for the period %q: %w", at, c, period, ledger.ErrNotFound)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, at)
		at = parent
	}
	return out, nil
}

// SetBudget implements [ledger.Budgets].
func (s *Store) SetBudget(ctx context.Context, b ledger.Budget) error {
	return s.do(ctx, "set the budget of "+b.Agent, func(t *tx) error {
		if b.Limit.Currency() != b.Currency || b.Limit.Minor() < 0 {
			return fmt.Errorf("%w: %w: a limit of %s on a budget of %s", ledger.ErrInvalid, ledger.ErrAmount, b.Limit, b.Currency)
		}
		chain := ledger.BudgetChain(b.Currency)
		if err := t.lock(ctx, chain); err != nil {
			return err
		}
		have, err := scanBudget(t.row(ctx, selectBudget+" WHERE agent = $1 AND currency = $2 AND period = $3", b.Agent, string(b.Currency), b.Period).Scan)
		switch {
		case err == nil && have.Parent != b.Parent && !have.Pending.IsZero():
			return fmt.Errorf("%w: %s of it are held; its parent changes when nothing is", ledger.ErrConflict, have.Pending)
		case err == nil && have.Parent == b.Parent && have.Limit == b.Limit:
			return nil
		case err != nil && !errors.Is(err, sql.ErrNoRows):
			return err
		}
		if _, err := t.exec(ctx, `INSERT INTO budgets (agent, currency, period, parent, lim) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (agent, currency, period) DO UPDATE SET parent = excluded.parent, lim = excluded.lim`,
			b.Agent, string(b.Currency), b.Period, b.Parent, b.Limit.Minor()); err != nil {
			return err
		}
		if _, err := t.line(ctx, b.Agent, b.Currency, b.Period); err != nil {
			return err
		}
		n, err := t.next(ctx, chain)
		if err != nil {
			return err
		}
		_, err = t.state(ctx, ledger.Draft{Chain: chain, Key: key(ledger.BudgetSet, fmt.Sprintf("%s/%s/%d", b.Agent, b.Period, n)), Kind: ledger.BudgetSet, Agent: b.Agent},
			ledger.BudgetData{Agent: b.Agent, Currency: b.Currency, Parent: b.Parent, Period: b.Period, Limit: b.Limit})
		return err
	})
}

// Budget implements [ledger.Budgets].
func (s *Store) Budget(ctx context.Context, agent string, c ledger.Currency, period string) (ledger.Budget, error) {
	return scanBudget(func(into ...any) error {
		return s.one(ctx, fmt.Sprintf("find the budget of %.120q in %.10q", agent, string(c)),
			selectBudget+" WHERE agent = $1 AND currency = $2 AND period = $3", []any{agent, string(c), period}, into...)
	})
}

// ListBudgets implements [ledger.Budgets].
func (s *Store) ListBudgets(ctx context.Context, page ledger.Page) ([]ledger.Budget, error) {
	limit, offset := limits(page)
	return list(ctx, s, "list budgets", selectBudget+" ORDER BY agent, currency, period LIMIT $1 OFFSET $2", []any{limit, offset},
		func(rows *sql.Rows) (ledger.Budget, error) { return scanBudget(rows.Scan) })
}

const selectHold = "SELECT id, agent, currency, period, amount, status, overdraft, running, posted, expires_at FROM holds"

func scanHold(scan func(...any) error) (h ledger.Hold, err error) {
	var currency ledger.Currency
	var amount, expires int64
	var posted sql.NullInt64
	if err := scan(&h.ID, &h.Agent, &currency, &h.Period, &amount, &h.Status, &h.Overdraft, &h.Running, &posted, &expires); err != nil {
		return h, err
	}
	if h.Amount, err = ledger.Minor(amount, currency); err != nil {
		return h, err
	}
	if posted.Valid {
		p, err := ledger.Minor(posted.Int64, currency)
		if err != nil {
			return h, err
		}
		h.Posted = &p
	}
	h.ExpiresAt = instant(expires)
	return h, nil
}

// OpenHold implements [ledger.Budgets].
func (s *Store) OpenHold(ctx context.Context, h ledger.Hold) (out ledger.Hold, err error) {
	err = s.do(ctx, "open hold "+h.ID, func(t *tx) error {
		c := h.Amount.Currency()
		if c == "" || h.Amount.Minor() < 0 {
			return fmt.Errorf("%w: %w: a hold of %s", ledger.ErrInvalid, ledger.ErrAmount, h.Amount)
		}
		chain := ledger.BudgetChain(c)
		if err := t.lock(ctx, chain); err != nil {
			return err
		}
		out, err = scanHold(t.row(ctx, selectHold+" WHERE id = $1", h.ID).Scan)
		switch {
		case err == nil:
			if out.Agent != h.Agent || out.Amount != h.Amount || out.Period != h.Period || out.Overdraft != h.Overdraft {
				return fmt.Errorf("%w: there is another hold of that id", ledger.ErrConflict)
			}
			return nil
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		line, err := t.line(ctx, h.Agent, c, h.Period)
		if err != nil {
			return err
		}
		for _, agent := range line {
			// One statement checks and takes: what fits is held. The last condition keeps an
			// overdraft within the range of the column.
			n, err := t.exec(ctx, `UPDATE budgets SET pending = pending + $4 WHERE agent = $1 AND currency = $2 AND period = $3
				AND ($5 OR lim - posted - pending >= $4) AND 9223372036854775807 - $4 - pending >= posted`,
				agent, string(c), h.Period, h.Amount.Minor(), h.Overdraft)
			if err != nil {
				return err
			}
			if n == 0 {
				return fmt.Errorf("%w: %s does not fit in the budget of %s", ledger.ErrBudget, h.Amount, agent)
			}
		}
		out = h
		out.Status, out.Running, out.Posted = ledger.TxPending, false, nil
		out.ExpiresAt = ledger.At(h.ExpiresAt.Time())
		if _, err := t.exec(ctx, `INSERT INTO holds (id, agent, currency, period, amount, status, overdraft, running, expires_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
			out.ID, out.Agent, string(c), out.Period, out.Amount.Minor(), string(out.Status), out.Overdraft, false, millis(out.ExpiresAt)); err != nil {
			return err
		}
		kind := ledger.TxHold
		if out.Overdraft {
			kind = ledger.TxOverdraft
		}
		if _, err := t.exec(ctx, `INSERT INTO financial_ledger (tx_id, agent_id, tx_type, amount, currency, status, created_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, out.ID, out.Agent, string(kind), out.Amount.Amount(), string(c), string(out.Status), millis(t.now)); err != nil {
			return err
		}
		_, err = t.state(ctx, ledger.Draft{Chain: chain, Key: key(ledger.HoldOpened, out.ID), Kind: ledger.HoldOpened, Agent: out.Agent}, out)
		return err
	})
	return out, err
}

// move ends or marks a pending hold, in a transaction of its own. One that is
// already in that state is returned unchanged.
func (s *Store) move(ctx context.Context, what, id string, to ledger.TxStatus, kind ledger.Kind, spent *ledger.Money) (out ledger.Hold, err error) {
	err = s.do(ctx, what+" "+id, func(t *tx) error {
		h, err := scanHold(t.row(ctx, selectHold+" WHERE id = $1", id).Scan)
		if err != nil {
			return err
		}
		if err := t.lock(ctx, ledger.BudgetChain(h.Amount.Currency())); err != nil {
			return err
		}
		if h, err = scanHold(t.row(ctx, selectHold+" WHERE id = $1", id).Scan); err != nil {
			return err
		}
		out, err = t.move(ctx, h, to, kind, spent)
		return err
	})
	return out, err
}

// move changes a hold whose chain is locked.
func (t *tx) move(ctx context.Context, h ledger.Hold, to ledger.TxStatus, kind ledger.Kind, spent *ledger.Money) (ledger.Hold, error) {
	if h.Status != ledger.TxPending {
		if h.Status == to && (spent == nil || h.Posted != nil && *spent == *h.Posted) {
			return h, nil
		}
		return h, fmt.Errorf("%w: it is %s", ledger.ErrConflict, h.Status)
	}
	if kind == ledger.HoldRunning && h.Running {
		return h, nil
	}
	posted := int64(0)
	if spent != nil {
		c, err := spent.Cmp(h.Amount)
		if err != nil {
			return h, fmt.Errorf("%w: %w", ledger.ErrInvalid, err)
		}
		if c > 0 || spent.Minor() < 0 {
			return h, fmt.Errorf("%w: %w: %s of a hold of %s", ledger.ErrInvalid, ledger.ErrAmount, *spent, h.Amount)
		}
		posted = spent.Minor()
		h.Posted = spent
	}
	currency := h.Amount.Currency()
	if to != ledger.TxPending {
		line, err := t.line(ctx, h.Agent, currency, h.Period)
		if err != nil {
			return h, err
		}
		for _, agent := range line {
			if _, err := t.exec(ctx, "UPDATE budgets SET pending = pending - $4, posted = posted + $5 WHERE agent = $1 AND currency = $2 AND period = $3",
				agent, string(currency), h.Period, h.Amount.Minor(), posted); err != nil {
				return h, err
			}
		}
		if _, err := t.exec(ctx, "UPDATE financial_ledger SET status = $2 WHERE tx_id = $1", h.ID, string(to)); err != nil {
			return h, err
		}
	}
	h.Status = to
	h.Running = h.Running || kind == ledger.HoldRunning
	var stored any
	if spent != nil {
		stored = posted
	}
	if _, err := t.exec(ctx, "UPDATE holds SET status = $2, running = $3, posted = $4 WHERE id = $1", h.ID, string(h.Status), h.Running, stored); err != nil {
		return h, err
	}
	_, err := t.state(ctx, ledger.Draft{Chain: ledger.BudgetChain(currency), Key: key(kind, h.ID), Kind: kind, Agent: h.Agent},
		ledger.HoldData{ID: h.ID, Posted: spent})
	return h, err
}

// RunHold implements [ledger.Budgets].
func (s *Store) RunHold(ctx context.Context, id string) error {
	_, err := s.move(ctx, "mark hold", id, ledger.TxPending, ledger.HoldRunning, nil)
	return err
}

// PostHold implements [ledger.Budgets].
func (s *Store) PostHold(ctx context.Context, id string, spent ledger.Money) (ledger.Hold, error) {
	return s.move(ctx, "post hold", id, ledger.TxPosted, ledger.HoldPosted, &spent)
}

// VoidHold implements [ledger.Budgets].
func (s *Store) VoidHold(ctx context.Context, id string) (ledger.Hold, error) {
	return s.move(ctx, "void hold", id, ledger.TxVoided, ledger.HoldVoided, nil)
}

// ExpireHolds implements [ledger.Budgets].
func (s *Store) ExpireHolds(ctx context.Context) (n int, err error) {
	var now int64
	if err := s.one(ctx, "expire holds", s.d.Now, nil, &now); err != nil {
		return 0, err
	}
	due, err := list(ctx, s, "expire holds", selectHold+" WHERE status = 'pending' AND NOT running AND expires_at < $1 ORDER BY expires_at, id LIMIT 1000", []any{now},
		func(rows *sql.Rows) (ledger.Hold, error) { return scanHold(rows.Scan) })
	if err != nil {
		return 0, err
	}
	for _, h := range due {
		expired := false
		err := s.do(ctx, "expire hold "+h.ID, func(t *tx) error {
			if err := t.lock(ctx, ledger.BudgetChain(h.Amount.Currency())); err != nil {
				return err
			}
			h, err := scanHold(t.row(ctx, selectHold+" WHERE id = $1", h.ID).Scan)
			expired = err == nil && h.Status == ledger.TxPending && !h.Running
			if !expired {
				return err
			}
			_, err = t.move(ctx, h, ledger.TxExpired, ledger.HoldExpired, nil)
			return err
		})
		if err != nil {
			return n, err
		}
		if expired {
			n++
		}
	}
	return n, nil
}

// Hold implements [ledger.Budgets].
func (s *Store) Hold(ctx context.Context, id string) (ledger.Hold, error) {
	return scanHold(func(into ...any) error {
		return s.one(ctx, fmt.Sprintf("find hold %.120q", id), selectHold+" WHERE id = $1", []any{id}, into...)
	})
}

// Transactions implements [ledger.Budgets].
func (s *Store) Transactions(ctx context.Context, agent string, page ledger.Page) ([]ledger.Transaction, error) {
	limit, offset := limits(page)
	return list(ctx, s, "list transactions", `SELECT tx_id, agent_id, tx_type, amount, currency, status, created_at FROM financial_ledger
		WHERE agent_id = $1 ORDER BY serial DESC LIMIT $2 OFFSET $3`, []any{agent, limit, offset},
		func(rows *sql.Rows) (v ledger.Transaction, err error) {
			var at int64
			err = rows.Scan(&v.TxID, &v.AgentID, &v.TxType, &v.Amount, &v.Currency, &v.Status, &at)
			v.CreatedAt, v.Invocation = instant(at), v.TxID
			return v, err
		})
}
