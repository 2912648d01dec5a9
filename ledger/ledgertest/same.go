package ledgertest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
	"chimera.ai/engine/task"
)

// everything is the largest page.
var everything = ledger.Page{Limit: 10_000}

// Same holds what the store answers against the model. What is vague there,
// since bodies are gone, is not compared.
func Same(t testing.TB, s ledger.Store, m *model.State) {
	t.Helper()
	ctx := context.Background()
	vague := func(thing string) bool { return m.Vague[thing] }
	plans := whole(t, func(p ledger.Page) ([]ledger.Plan, error) { return s.ListPlans(ctx, p) })
	require.Len(t, plans, len(m.Plans))
	for _, p := range plans {
		require.Equal(t, m.Plans[p.Name+"@"+p.Version], p)
	}
	runs := whole(t, func(p ledger.Page) ([]ledger.Run, error) { return s.ListRuns(ctx, p) })
	known := 0
	for _, r := range runs {
		if vague("run:" + r.Chain()) {
			continue
		}
		known++
		require.Contains(t, m.Runs, r.Chain())
		require.Equal(t, m.Runs[r.Chain()].Run, r)
		outcomes, err := s.Outcomes(ctx, r.Workflow, r.Root, everything)
		require.NoError(t, err)
		require.Equal(t, m.Runs[r.Chain()].Outcomes, outcomes)
	}
	require.Len(t, m.Runs, known)
	tasks := whole(t, func(p ledger.Page) ([]task.Task, error) { return s.ListTasks(ctx, "", p) })
	known = 0
	for _, v := range tasks {
		if id := v.Base().TaskID; !vague("task:" + id) {
			known++
			require.Equal(t, m.Tasks[id], v)
		}
	}
	require.Len(t, m.Tasks, known)
	directory(t, s, m)
	money(t, s, m)
	for k, want := range m.Checks {
		if !vague("checks:" + k.Workflow) {
			have, err := s.LastCheck(ctx, k.Workflow, k.Origin, k.Node, k.Visit, "")
			require.NoError(t, err)
			require.Equal(t, want, have)
		}
	}
	for id, want := range m.Decisions {
		have, err := s.Decision(ctx, id)
		require.NoError(t, err)
		require.Equal(t, want, have)
	}
	for id, want := range m.Barriers {
		have, err := s.Barrier(ctx, id)
		require.NoError(t, err)
		if !want.State.Closed() {
			have.Refused = 0 // it is still counted
		}
		require.Equal(t, want, have)
	}
	for id, want := range m.Approvals {
		list, err := s.Approvals(ctx, want.Barrier, everything)
		require.NoError(t, err)
		found := false
		for _, have := range list {
			if have.ID == id {
				found = true
				require.Equal(t, want, have)
			}
		}
		require.True(t, found, id)
		if vague("used:" + id) {
			continue
		}
		used, err := s.Consumptions(ctx, id)
		require.NoError(t, err)
		require.Equal(t, m.Consumptions(id), used)
	}
	for id, want := range m.Invocations {
		have, err := s.Invocation(ctx, id)
		require.NoError(t, err)
		have.Output = nil // the log has its digest
		require.Equal(t, want, have)
	}
	for id, want := range m.Hypotheses {
		have, err := s.Hypothesis(ctx, id)
		require.NoError(t, err)
		require.Equal(t, want, have)
	}
	authority, err := s.Authority(ctx)
	require.NoError(t, err)
	require.Equal(t, m.Authority, authority)
}

// whole returns what all pages of a list hold.
func whole[T any](t testing.TB, list func(ledger.Page) ([]T, error)) []T {
	var all []T
	for {
		some, err := list(ledger.Page{Limit: everything.Limit, Offset: len(all)})
		require.NoError(t, err)
		if all = append(all, some...); len(some) < everything.Limit {
			return all
		}
	}
}

// directory compares agents, signers and tools.
func directory(t testing.TB, s ledger.Store, m *model.State) {
	t.Helper()
	ctx := context.Background()
	agents, err := s.ListAgents(ctx, everything)
	require.NoError(t, err)
	require.Len(t, agents, len(m.Agents))
	for _, v := range agents {
		require.Equal(t, m.Agents[v.AgentID], v)
	}
	signers, err := s.ListSigners(ctx, everything)
	require.NoError(t, err)
	require.Len(t, signers, len(m.Signers))
	for _, v := range signers {
		require.Equal(t, m.Signers[v.ID], v)
	}
	tools, err := s.ListTools(ctx, everything)
	require.NoError(t, err)
	require.Len(t, tools, len(m.Tools))
	for _, v := range tools {
		require.Equal(t, m.Tools[v.ToolID], v)
	}
}

// money compares budgets, holds and transactions.
func money(t testing.TB, s ledger.Store, m *model.State) {
	t.Helper()
	ctx := context.Background()
	budgets, err := s.ListBudgets(ctx, everything)
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(budgets), len(m.Budgets))
	for _, v := range budgets {
		k := model.BudgetKey{Agent: v.Agent, Currency: v.Currency}
		b := m.Budgets[k]
		require.Equal(t, b, ledger.BudgetData{Agent: v.Agent, Currency: v.Currency, Parent: v.Parent, Every: v.Every, Limit: v.Limit})
		of := model.UseKey{BudgetKey: k, Period: v.Period}
		if used := m.Uses[of]; !m.Vague[of.Thing()] {
			require.Equal(t, used.Pending.Minor(), v.Pending.Minor())
			require.Equal(t, used.Posted.Minor(), v.Posted.Minor())
		}
	}
	rows := map[string]ledger.Transaction{}
	agents := map[string]bool{}
	for _, h := range m.Holds {
		agents[h.Agent] = true
	}
	for agent := range agents {
		for page := everything; ; page.Offset += page.Limit {
			list, err := s.Transactions(ctx, agent, page)
			require.NoError(t, err)
			for _, x := range list {
				rows[x.TxID] = x
			}
			if len(list) < page.Limit {
				break
			}
		}
	}
	for id, want := range m.Holds {
		have, err := s.Hold(ctx, id)
		require.NoError(t, err)
		require.Equal(t, want, have)
		row := rows[id]
		require.Equal(t, want.Status, row.Status)
		require.Equal(t, want.Amount.Amount(), row.Amount)
		require.Equal(t, want.Amount.Currency(), row.Currency)
		require.Equal(t, want.Overdraft, row.TxType == ledger.TxOverdraft)
	}
}
