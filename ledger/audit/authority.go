package audit

import (
	"context"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
	"chimera.ai/engine/trust"
)

// authority holds the admins' statements against the bootstrap of the trust file,
// and signers, agents, trusted tools and budgets of the log against them.
func (v *verifier) authority() {
	b := v.trust.Bootstrap
	if b == nil {
		if n := len(v.model.Authority); n > 0 {
			v.warn(BadAuthority, -1, "%d statements of admins are not verified: the trust file has no bootstrap", n)
		}
		return
	}
	statements := make([][]byte, len(v.model.Authority))
	for i, s := range v.model.Authority {
		statements[i] = s
	}
	state, problems := trust.VerifyStatements(b, statements)
	for _, p := range problems {
		v.problem(BadAuthority, -1, "%s", p)
	}
	if len(problems) > 0 {
		return
	}
	if !slices.Contains(state.LogKeys, trust.LogKey{Origin: v.trust.Origin, Key: v.trust.Log}) {
		v.problem(BadAuthority, -1, "the log's key in the trust file is not one that the admins have stated")
	}
	ctx, have := context.Background(), rows{v.model}
	check := func(_ any, err error) {
		if err != nil {
			v.problem(BadAuthority, -1, "%s", err)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(v.model.Signers)) {
		check(trust.Enrolled(ctx, have, state, id))
	}
	for _, id := range slices.Sorted(maps.Keys(v.model.Agents)) {
		check(trust.Known(ctx, have, state, id))
	}
	for _, id := range slices.Sorted(maps.Keys(v.model.Tools)) {
		check(trust.Trusted(ctx, have, state, id))
	}
	for _, k := range slices.SortedFunc(maps.Keys(v.model.Budgets), func(a, b model.BudgetKey) int {
		return strings.Compare(a.Agent+"\x00"+string(a.Currency)+"\x00"+a.Period, b.Agent+"\x00"+string(b.Currency)+"\x00"+b.Period)
	}) {
		check(trust.Limited(ctx, have, state, trust.BudgetKey(k)))
	}
}

// rows are what a log says, as a store would.
type rows struct{ *model.State }

func row[K comparable, V any](m map[K]V, k K) (V, error) {
	v, ok := m[k]
	if !ok {
		return v, ledger.ErrNotFound
	}
	return v, nil
}

func (r rows) Agent(_ context.Context, id string) (ledger.Agent, error) { return row(r.Agents, id) }

func (r rows) Signer(_ context.Context, id string) (ledger.Signer, error) { return row(r.Signers, id) }

func (r rows) Tool(_ context.Context, id string) (ledger.Tool, error) { return row(r.Tools, id) }

func (r rows) Budget(_ context.Context, agent string, c ledger.Currency, period string) (ledger.Budget, error) {
	return row(r.Budgets, model.BudgetKey{Agent: agent, Currency: c, Period: period})
}
