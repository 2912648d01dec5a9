package authority

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// Budget is a budget of the store or of the statements, and what is used of it in its
// present period.
type Budget struct {
	ledger.Budget
	State Standing `json:"state"`
}

// Budgets compares the rows of budgets with what the admins have stated. It returns the
// budgets of both, sorted by agent and currency, and the stated state. agent is "" for
// all agents.
func (a *Authority) Budgets(ctx context.Context, agent string) ([]Budget, trust.State, error) {
	s, err := a.State(ctx)
	if err != nil {
		return nil, s, err
	}
	list, err := budgets(ctx, a.Ledger, s, agent)
	return list, s, err
}

func budgets(ctx context.Context, store ledger.Store, s trust.State, agent string) ([]Budget, error) {
	const page = 1000
	all := map[trust.BudgetKey]Budget{}
	for offset := 0; ; offset += page {
		some, err := store.ListBudgets(ctx, ledger.Page{Limit: page, Offset: offset})
		if err != nil {
			return nil, err
		}
		for _, b := range some {
			all[trust.BudgetKey{Agent: b.Agent, Currency: b.Currency}] = Budget{b, Unstated}
		}
		if len(some) < page {
			break
		}
	}
	for k, said := range s.Budgets {
		if _, there := all[k]; !there {
			none, err := ledger.Minor(0, said.Currency)
			if err != nil {
				return nil, err
			}
			all[k] = Budget{ledger.Budget{Agent: said.Agent, Currency: said.Currency, Parent: said.Parent, Every: said.Every, Limit: said.Limit, Pending: none, Posted: none}, Missing}
			continue
		}
		row, err := trust.Limited(ctx, store, s, k)
		switch {
		case errors.Is(err, trust.ErrInvalid):
			all[k] = Budget{all[k].Budget, Altered}
		case err != nil:
			return nil, err
		default:
			all[k] = Budget{row, Stated}
		}
	}
	list := []Budget{}
	for _, k := range slices.SortedFunc(maps.Keys(all), func(a, b trust.BudgetKey) int {
		return strings.Compare(a.Agent+"\x00"+string(a.Currency), b.Agent+"\x00"+string(b.Currency))
	}) {
		if agent == "" || k.Agent == agent {
			list = append(list, all[k])
		}
	}
	return list, nil
}
