package activities

import (
	"context"
	"errors"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// limited returns an error unless the store has the budgets of an agent as the admins have stated
// them. Those that it has not, it is given: whoever publishes a statement need not be somebody
// who may write them. cost is what is to be held, or nil.
func (g *Guardian) limited(ctx context.Context, s trust.State, agent string, cost *ledger.Money) error {
	differ := func(err error) bool { return errors.Is(err, ledger.ErrNotFound) || errors.Is(err, trust.ErrInvalid) }
	err := g.compare(ctx, s, agent)
	for round := 0; differ(err) && round < 3; round++ {
		// Those of an older statement must not replace others.
		now, again := g.Authority.State(ctx)
		if again != nil {
			return distrust(again)
		}
		s = now
		if err = trust.SetBudgets(ctx, g.Store, s); err == nil {
			err = g.compare(ctx, s, agent)
		}
	}
	if err == nil && cost != nil {
		if _, ok := s.Budgets[trust.BudgetKey{Agent: agent, Currency: cost.Currency()}]; !ok {
			_, err = g.Store.Budget(ctx, agent, cost.Currency())
			if err == nil {
				return contract.Errorf(contract.Blocked, "the store has a budget of %.100q in %s, which the admins have not stated", agent, cost.Currency())
			}
			if errors.Is(err, ledger.ErrNotFound) {
				err = nil
			}
		}
	}
	if differ(err) {
		return contract.Errorf(contract.Blocked, "the budgets of %.100q: %w", agent, err)
	}
	if err != nil {
		return refusal(err)
	}
	return nil
}

// compare returns an error unless the budgets that count for an agent are in the store as a state
// has them.
func (g *Guardian) compare(ctx context.Context, s trust.State, agent string) error {
	for _, k := range s.Line(agent) {
		if _, err := trust.Limited(ctx, g.Store, s, k); err != nil {
			return err
		}
	}
	return nil
}
