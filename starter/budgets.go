package main

import (
	"context"
	"fmt"
	"strings"
	"text/tabwriter"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/authority"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/trust"
)

// budgetParts are the sub-commands of chimera budgets.
func budgetParts() []command {
	return []command{
		{name: "set", operands: "AGENT", least: 1, most: 1, prepare: setBudgetCommand, summary: "set what an agent may spend, by a statement of the admins"},
		{name: "show", operands: "[AGENT]", most: 1, summary: "show what agents may spend, and what they have spent and hold",
			prepare: func(p *Program, _ *flag.FlagSet) action {
				return func(ctx context.Context, operands []string) error {
					return p.showBudgets(ctx, strings.Join(operands, ""))
				}
			}},
	}
}

func setBudgetCommand(p *Program, fs *flag.FlagSet) action {
	var keys texts
	limit := fs.String("limit", "", "`AMOUNT` and currency, such as \"100.00 USD\"")
	every := fs.String("every", string(ledger.Forever), "`PERIOD` that the limit is for: day, month or forever; days and months are those of UTC")
	parent := fs.String("parent", "", "`AGENT` whose budget of the same currency is charged too")
	fs.Var(&keys, "key", "admin's private `KEY`, a PEM file or a reference such as ${env:NAME}; may be given again (in dev mode, dev mode's)")
	out := fs.String("out", "", "`FILE` for the statement, where other admins are to sign it")
	return func(ctx context.Context, operands []string) error {
		if *limit == "" {
			return misuse("chimera budgets set needs --limit AMOUNT, such as --limit \"100.00 USD\"")
		}
		money, err := limitOf(*limit)
		switch {
		case err != nil:
			return misuse("--limit: %s", err).withHint("It is a decimal amount, a blank and an ISO 4217 code, such as \"100.00 USD\".")
		case !ledger.Every(*every).Valid():
			return misuse("--every is day, month or forever, not %q", *every).meant("--every ", *every, []string{"day", "month", "forever"}, "")
		}
		act := &trust.SetBudget{Agent: operands[0], Currency: money.Currency(), Parent: *parent, Every: ledger.Every(*every), Limit: money}
		return p.propose(ctx, trust.Acts{act}, keys, *out)
	}
}

// limitOf reads what an agent may spend: "100.00 USD".
func limitOf(text string) (ledger.Money, error) {
	amount, currency, _ := strings.Cut(text, " ")
	money, err := ledger.ParseMoney(amount, ledger.Currency(currency))
	if err == nil && money.Minor() < 0 {
		err = fmt.Errorf("%s is negative", money)
	}
	return money, err
}

// budgetOf reads a budget: "AGENT=AMOUNT CURRENCY", and perhaps "/PERIOD".
func budgetOf(text string) (*trust.SetBudget, error) {
	agent, rest, ok := strings.Cut(text, "=")
	if !ok || agent == "" {
		return nil, fmt.Errorf("%.100q names no agent", text)
	}
	limit, every, ok := strings.Cut(rest, "/")
	if !ok {
		every = string(ledger.Forever)
	}
	if !ledger.Every(every).Valid() {
		return nil, fmt.Errorf("%.40q is not day, month or forever", every)
	}
	money, err := limitOf(limit)
	return &trust.SetBudget{Agent: agent, Currency: money.Currency(), Every: ledger.Every(every), Limit: money}, err
}

// showBudgets lists the budgets of the store and of the admins' statements. It fails if
// they differ.
func (p *Program) showBudgets(ctx context.Context, agent string) error {
	over, _, err := p.authority(ctx)
	if err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	list, s, err := over.Budgets(bounded, agent)
	if err != nil {
		return untrusted(err)
	}
	if agent != "" && len(list) == 0 {
		return negative("%s has no budget", agent)
	}
	bad := 0
	for _, b := range list {
		if b.State != authority.Stated {
			bad++
		}
	}
	if p.json() {
		err = p.document(struct {
			OK         bool               `json:"ok"`
			Deployment string             `json:"deployment"`
			Statements int                `json:"statements"`
			Budgets    []authority.Budget `json:"budgets"`
		}{bad == 0, s.Deployment, s.N, list})
	} else {
		table := tabwriter.NewWriter(p.Stdout, 0, 0, 2, ' ', 0)
		_, _ = fmt.Fprintln(table, "AGENT\tLIMIT\tPERIOD\tSPENT\tHELD\tPARENT\tSTATE")
		for _, b := range list {
			_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", printable(b.Agent), b.Limit, b.Period, b.Posted, b.Pending, printable(b.Parent), b.State)
		}
		err = table.Flush()
	}
	if err != nil {
		return err
	}
	if bad > 0 {
		p.say("%s not in the store as the admins have stated it", plural(bad, "budget"))
		return &failure{code: exitNegative}
	}
	return nil
}
