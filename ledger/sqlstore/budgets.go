package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"chimera.ai/engine/ledger"
)

const selectBudget = "SELECT agent, currency, every, parent, lim FROM budgets"

func scanBudget(scan func(...any) error) (b ledger.Budget, err error) {
	var limit int64
	if err := scan(&b.Agent, &b.Currency, &b.Every, &b.Parent, &limit); err != nil {
		return b, err
	}
	b.Limit, err = ledger.Minor(limit, b.Currency)
	return b, err
}

// selectUsed selects budgets with what is used of them in the periods $1 (a day), $2
// (a month) or $3.
const selectUsed = `SELECT b.agent, b.currency, b.every, b.parent, b.lim, COALESCE(u.pending, 0), COALESCE(u.posted, 0) FROM budgets b
	LEFT JOIN budget_use u ON u.agent = b.agent AND u.currency = b.currency AND u.period = CASE b.every WHEN 'day' THEN $1 WHEN 'month' THEN $2 ELSE $3 END`

// periods returns the arguments of selectUsed, and a function that scans its rows.
func (s *Store) periods(ctx context.Context) (args []any, scan func(func(...any) error) (ledger.Budget, error), err error) {
	var ms int64
	if err := s.one(ctx, "read the clock", s.d.Now, nil, &ms); err != nil {
		return nil, nil, err
	}
	now := instant(ms)
	for _, e := range []ledger.Every{ledger.Daily, ledger.Monthly, ledger.Forever} {
		args = append(args, e.Period(now))
	}
	return args, func(row func(...any) error) (ledger.Budget, error) {
		var pending, posted int64
		b, err := scanBudget(func(into ...any) error { return row(append(into, &pending, &posted)...) })
		if err != nil {
			return b, err
		}
		b.Period = b.Every.Period(now)
		if b.Pending, err = ledger.Minor(pending, b.Currency); err != nil {
			return b, err
		}
		b.Posted, err = ledger.Minor(posted, b.Currency)
		return b, err
	}, nil
}

// maxParents bounds the depth of the hierarchy of budgets.
const maxParents = 16

// line lists the budgets to which a hold of the agent is charged now.
func (t *tx) line(ctx context.Context, agent string, c ledger.Currency) ([]ledger.Charge, error) {
	var out []ledger.Charge
	for at := agent; at != ""; {
		if len(out) == maxParents {
			return nil, fmt.Errorf("%w: more than %d budgets have each other for parents", ledger.ErrConflict, maxParents)
		}
		b, err := scanBudget(t.row(ctx, selectBudget+" WHERE agent = $1 AND currency = $2", at, string(c)).Scan)
		if errors.Is(err, sql.ErrNoRows) {
			return nil, fmt.Errorf("%s has no budget in %s: %w", at, c, ledger.ErrNotFound)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, ledger.Charge{Agent: at, Period: b.Every.Period(t.now)})
		at = b.Parent
	}
	return out, nil
}

// SetBudget implements [ledger.Budgets].
func (s *Store) SetBudget(ctx context.Context, b ledger.Budget) error {
	return s.do(ctx, "set the budget of "+b.Agent, func(t *tx) error {
		if b.Limit.Currency() != b.Currency || b.Limit.Minor() < 0 {
			return fmt.Errorf("%w: %w: a limit of %s on a budget of %s", ledger.ErrInvalid, ledger.ErrAmount, b.Limit, b.Currency)
		}
		if !b.Every.Valid() {
			return fmt.Errorf("%w: a budget for each %.20q", ledger.ErrInvalid, string(b.Every))
		}
		chain := ledger.BudgetChain(b.Currency)
		if err := t.lock(ctx, chain); err != nil {
			return err
		}
		have, err := scanBudget(t.row(ctx, selectBudget+" WHERE agent = $1 AND currency = $2", b.Agent, string(b.Currency)).Scan)
		switch {
		case err == nil && have.Parent == b.Parent && have.Limit == b.Limit && have.Every == b.Every:
			return nil
		case err != nil && !errors.Is(err, sql.ErrNoRows):
			return err
		}
		if _, err := t.exec(ctx, `INSERT INTO budgets (agent, currency, every, parent, lim) VALUES ($1, $2, $3, $4, $5)
			ON CONFLICT (agent, currency) DO UPDATE SET every = excluded.every, parent = excluded.parent, lim = excluded.lim`,
			b.Agent, string(b.Currency), string(b.Every), b.Parent, b.Limit.Minor()); err != nil {
			return err
		}
		if _, err := t.line(ctx, b.Agent, b.Currency); err != nil {
			return err
		}
		n, err := t.next(ctx, chain)
		if err != nil {
			return err
		}
		_, err = t.state(ctx, ledger.Draft{Chain: chain, Key: key(ledger.BudgetSet, fmt.Sprintf("%s/%d", b.Agent, n)), Kind: ledger.BudgetSet, Agent: b.Agent},
			ledger.BudgetData{Agent: b.Agent, Currency: b.Currency, Parent: b.Parent, Every: b.Every, Limit: b.Limit})
		return err
	})
}

// Budget implements [ledger.Budgets].
func (s *Store) Budget(ctx context.Context, agent string, c ledger.Currency) (ledger.Budget, error) {
	args, scan, err := s.periods(ctx)
	if err != nil {
		return ledger.Budget{}, err
	}
	return scan(func(into ...any) error {
		return s.one(ctx, fmt.Sprintf("find the budget of %.120q in %.10q", agent, string(c)),
			selectUsed+" WHERE b.agent = $4 AND b.currency = $5", append(args, agent, string(c)), into...)
	})
}

// ListBudgets implements [ledger.Budgets].
func (s *Store) ListBudgets(ctx context.Context, page ledger.Page) ([]ledger.Budget, error) {
	args, scan, err := s.periods(ctx)
	if err != nil {
		return nil, err
	}
	limit, offset := limits(page)
	return list(ctx, s, "list budgets", selectUsed+" ORDER BY b.agent, b.currency LIMIT $4 OFFSET $5", append(args, limit, offset),
		func(rows *sql.Rows) (ledger.Budget, error) { return scan(rows.Scan) })
}

const selectHold = "SELECT id, agent, currency, charges, amount, status, overdraft, running, posted, expires_at, call FROM holds"

func scanHold(scan func(...any) error) (h ledger.Hold, err error) {
	var currency ledger.Currency
	var amount, expires int64
	var posted sql.NullInt64
	var charges string
	var call sql.NullString
	if err := scan(&h.ID, &h.Agent, &currency, &charges, &amount, &h.Status, &h.Overdraft, &h.Running, &posted, &expires, &call); err != nil {
		return h, err
	}
	if call.Valid {
		if err := json.Unmarshal([]byte(call.String), &h.Call); err != nil {
			return h, fmt.Errorf("read the call of hold %s: %w", h.ID, err)
		}
	}
	if err := json.Unmarshal([]byte(charges), &h.Charges); err != nil {
		return h, fmt.Errorf("read the charges of hold %s: %w", h.ID, err)
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
			if out.Agent != h.Agent || out.Amount != h.Amount || out.Overdraft != h.Overdraft {
				return fmt.Errorf("%w: there is another hold of that id", ledger.ErrConflict)
			}
			return nil
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		line, why, err := t.afford(ctx, h.Agent, h.Amount, h.Overdraft, h.Call)
		switch {
		case err != nil:
			return err
		case why != "":
			return fmt.Errorf("%w: %s", ledger.ErrBudget, why)
		}
		out = h
		out.Charges, out.ExpiresAt = line, ledger.At(h.ExpiresAt.Time())
		out, err = t.hold(ctx, out)
		return err
	})
	return out, err
}

// afford takes an amount from the budgets of an agent, if it has any, or says why it does
// not fit.
func (t *tx) afford(ctx context.Context, agent string, amount ledger.Money, overdraft bool, call *ledger.HeldCall) (line []ledger.Charge, why string, err error) {
	if call != nil {
		if why, err = t.capped(ctx, amount, overdraft, call); err != nil || why != "" {
			return nil, why, err
		}
		budgets, own, err := t.budgets(ctx, agent, amount.Currency())
		switch {
		case err != nil:
			return nil, "", err
		case budgets == 0:
			return []ledger.Charge{}, "", nil
		case own == 0:
			return nil, fmt.Sprintf("%s has no budget in %s", agent, amount.Currency()), nil
		}
	}
	line, full, err := t.reserve(ctx, agent, amount, overdraft)
	if full != "" {
		why = fmt.Sprintf("%s does not fit in the budget of %s", amount, full)
	}
	return line, why, err
}

// capped says why an amount does not fit in what calls of the runs of one origin may cost
// together, or returns "". The chain of the currency is locked.
func (t *tx) capped(ctx context.Context, amount ledger.Money, overdraft bool, call *ledger.HeldCall) (why string, err error) {
	if !call.Prob || call.Most == nil || overdraft {
		return "", nil
	}
	if call.Most.Currency() != amount.Currency() {
		return fmt.Sprintf("a cost of %s, where prob nodes of a run may cost %s (prob_cost_per_run)", amount, *call.Most), nil
	}
	var used int64
	if err := t.row(ctx, `SELECT COALESCE(SUM(CASE status WHEN 'pending' THEN amount WHEN 'posted' THEN posted ELSE 0 END), 0) FROM holds
		WHERE origin = $1 AND prob AND currency = $2`, call.Origin, string(amount.Currency())).Scan(&used); err != nil {
		return "", err
	}
	if used > call.Most.Minor() || amount.Minor() > call.Most.Minor()-used {
		spent, err := ledger.Minor(used, amount.Currency())
		return fmt.Sprintf("%s and the %s before do not fit in what prob nodes of the run may cost, %s (prob_cost_per_run)", amount, spent, *call.Most), err
	}
	return "", nil
}

// budgets counts the budgets of an agent, and those in a currency.
func (t *tx) budgets(ctx context.Context, agent string, c ledger.Currency) (all, own int, err error) {
	err = t.row(ctx, "SELECT count(*), count(CASE WHEN currency = $2 THEN 1 END) FROM budgets WHERE agent = $1", agent, string(c)).Scan(&all, &own)
	return all, own, err
}

// reserve takes an amount from the budgets of an agent and its parents, whose chain is
// locked, all or none: full is the agent whose budget has too little left, or "".
func (t *tx) reserve(ctx context.Context, agent string, amount ledger.Money, overdraft bool) (line []ledger.Charge, full string, err error) {
	c := amount.Currency()
	if line, err = t.line(ctx, agent, c); err != nil {
		return nil, "", err
	}
	for i, at := range line {
		if _, err := t.exec(ctx, `INSERT INTO budget_use (agent, currency, period, pending, posted) VALUES ($1, $2, $3, 0, 0)
			ON CONFLICT (agent, currency, period) DO NOTHING`, at.Agent, string(c), at.Period); err != nil {
			return nil, "", err
		}
		// One statement checks and takes: what fits is held. The last condition keeps an
		// overdraft within the range of the column.
		n, err := t.exec(ctx, `UPDATE budget_use SET pending = pending + $4 WHERE agent = $1 AND currency = $2 AND period = $3
			AND ($5 OR (SELECT lim FROM budgets WHERE agent = $1 AND currency = $2) - posted - pending >= $4)
			AND 9223372036854775807 - $4 - pending >= posted`,
			at.Agent, string(c), at.Period, amount.Minor(), overdraft)
		if err != nil {
			return nil, "", err
		}
		if n == 0 {
			return nil, at.Agent, t.free(ctx, amount, line[:i])
		}
	}
	return line, "", nil
}

// free gives back what reserve has taken.
func (t *tx) free(ctx context.Context, amount ledger.Money, line []ledger.Charge) error {
	return t.charge(ctx, amount, 0, line)
}

// charge takes an amount from what is pending in the budgets, and adds to what is posted.
func (t *tx) charge(ctx context.Context, amount ledger.Money, posted int64, line []ledger.Charge) error {
	for _, at := range line {
		if _, err := t.exec(ctx, "UPDATE budget_use SET pending = pending - $4, posted = posted + $5 WHERE agent = $1 AND currency = $2 AND period = $3",
			at.Agent, string(amount.Currency()), at.Period, amount.Minor(), posted); err != nil {
			return err
		}
	}
	return nil
}

// hold records a hold whose amount is reserved.
func (t *tx) hold(ctx context.Context, h ledger.Hold) (ledger.Hold, error) {
	charges, err := text(h.Charges)
	if err != nil {
		return h, err
	}
	c := h.Amount.Currency()
	h.Status, h.Running, h.Posted = ledger.TxPending, h.WithoutEffect(), nil
	var call any // NULL
	of := ledger.HeldCall{}
	if h.Call != nil {
		if call, err = text(h.Call); err != nil {
			return h, err
		}
		of = *h.Call
	}
	if _, err := t.exec(ctx, `INSERT INTO holds (id, agent, currency, charges, amount, status, overdraft, running, expires_at, call, root, origin, prob)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		h.ID, h.Agent, string(c), charges, h.Amount.Minor(), string(h.Status), h.Overdraft, h.Running, millis(h.ExpiresAt), call, of.Root, of.Origin, of.Prob); err != nil {
		return h, err
	}
	kind := ledger.TxHold
	if h.Overdraft {
		kind = ledger.TxOverdraft
	}
	if _, err := t.exec(ctx, `INSERT INTO financial_ledger (tx_id, agent_id, tx_type, amount, currency, status, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`, h.ID, h.Agent, string(kind), h.Amount.Amount(), string(c), string(h.Status), millis(t.now)); err != nil {
		return h, err
	}
	_, err = t.state(ctx, ledger.Draft{Chain: ledger.BudgetChain(c), Key: key(ledger.HoldOpened, h.ID), Kind: ledger.HoldOpened, Agent: h.Agent}, h)
	return h, err
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
	h.Status = to
	h.Running = h.Running || kind == ledger.HoldRunning
	if err := t.moved(ctx, h, posted); err != nil {
		return h, err
	}
	_, err := t.state(ctx, ledger.Draft{Chain: ledger.BudgetChain(h.Amount.Currency()), Key: key(kind, h.ID), Kind: kind, Agent: h.Agent},
		ledger.HoldData{ID: h.ID, Posted: spent})
	return h, err
}

// moved stores a hold that was pending, and what it takes from its budgets if it ends.
func (t *tx) moved(ctx context.Context, h ledger.Hold, posted int64) error {
	var spent any // NULL
	if h.Posted != nil {
		spent = posted
	}
	if t.d.Move != nil {
		ok, err := t.d.Move(ctx, t.tx, h.ID, h.Status, h.Running, spent)
		if err == nil && !ok {
			err = fmt.Errorf("%w: the hold is not pending", ledger.ErrConflict)
		}
		return err
	}
	if h.Status != ledger.TxPending {
		if err := t.charge(ctx, h.Amount, posted, h.Charges); err != nil {
			return err
		}
		if _, err := t.exec(ctx, "UPDATE financial_ledger SET status = $2 WHERE tx_id = $1", h.ID, string(h.Status)); err != nil {
			return err
		}
	}
	_, err := t.exec(ctx, "UPDATE holds SET status = $2, running = $3, posted = $4 WHERE id = $1", h.ID, string(h.Status), h.Running, spent)
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
	unposted, err := list(ctx, s, "list unposted holds", selectHold+` WHERE status = 'pending' AND running AND root <> '' AND expires_at < $1
		AND NOT EXISTS (SELECT 1 FROM runs WHERE runs.origin = holds.origin AND runs.state = 'running') ORDER BY expires_at, id LIMIT 1000`,
		[]any{now - ledger.CallSkew.Milliseconds()}, func(rows *sql.Rows) (ledger.Hold, error) { return scanHold(rows.Scan) })
	if err != nil {
		return 0, err
	}
	var failed []error // one that cannot be ended holds up no other
	for _, h := range slices.Concat(due, unposted) {
		expired := false
		err := s.do(ctx, "expire hold "+h.ID, func(t *tx) error {
			if err := t.lock(ctx, ledger.BudgetChain(h.Amount.Currency())); err != nil {
				return err
			}
			h, err := scanHold(t.row(ctx, selectHold+" WHERE id = $1", h.ID).Scan)
			if expired = err == nil && h.Status == ledger.TxPending && (!h.Running || h.WithoutEffect()); !expired {
				return err
			}
			if h.WithoutEffect() {
				_, err = t.move(ctx, h, ledger.TxPosted, ledger.HoldPosted, &h.Amount)
				return err
			}
			_, err = t.move(ctx, h, ledger.TxExpired, ledger.HoldExpired, nil)
			return err
		})
		if errors.Is(err, ledger.ErrUnavailable) {
			return n, err
		}
		if err != nil {
			failed = append(failed, err)
		} else if expired {
			n++
		}
	}
	return n, errors.Join(failed...)
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
			v.CreatedAt, v.Hold = instant(at), v.TxID
			return v, err
		})
}
