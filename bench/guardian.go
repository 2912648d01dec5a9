package main

import (
	"encoding/json"
	"fmt"
	"time"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// The bar for one decision, in microseconds, and what is decided: an action of one of
// a hundred operations, beside rules for all of them.
const (
	barDecision   = 50
	ruleCount     = 1000
	ruledOps      = 100
	decisionsEach = 5000
)

// decisions prints how long a decision takes beside 1,000 rules, and its record.
func decisions(rounds int) error {
	cat := &catalog.Catalog{}
	for i := range ruledOps {
		cat.Templates = append(cat.Templates, catalog.Template{
			ProviderType: plan.Skill, Provider: "bank", Operation: fmt.Sprintf("pay-%d", i), Effect: plan.Committing,
			InputSchema: json.RawMessage(`{"type":"object","properties":{"amount_minor":{"type":"integer"},"to":{"type":"string"}},"required":["amount_minor","to"]}`),
		})
	}
	bundle := &policy.Bundle{Version: "1"}
	for i := range ruleCount {
		name := cat.Templates[i%ruledOps].Name()
		bundle.Rules = append(bundle.Rules, policy.Rule{
			ID: fmt.Sprintf("r%d", i), Match: fmt.Sprintf("action.operation == %q", name),
			Require: fmt.Sprintf("action.inputs.amount_minor <= %d && action.inputs.to != \"nobody-%d\"", 500_000+i, i),
		})
	}
	bundle.Unmodelled = []string{cat.Templates[0].Name()}
	begin := time.Now()
	gate, ds := guardian.New(bundle, cat)
	if gate == nil {
		return fmt.Errorf("load %d rules: %s", ruleCount, ds[0].Detail)
	}
	loaded := time.Since(begin)
	a := &guardian.Action{
		Agent: "agent-42", Plan: "sha256:0", Node: "pay", Operation: cat.Templates[0].Name(), Effect: plan.Committing,
		Inputs: json.RawMessage(`{"amount_minor": 5000, "to": "landlord"}`), Run: guardian.Run{Workflow: "w", Origin: "o", Path: "pay"},
	}
	facts := guardian.Facts{At: begin, Calls: 1, Budget: guardian.Budget{State: guardian.NoBudget}}
	var took figures
	for range rounds {
		begin := time.Now()
		for range decisionsEach {
			r := gate.Decide(a, []byte("salt"), facts)
			if r.Decision != guardian.Approve || len(r.Rules) != ruleCount/ruledOps {
				return fmt.Errorf("decide: %s %s", r.Decision, r.Reason)
			}
			if _, err := r.Encode(); err != nil {
				return err
			}
		}
		took = append(took, float64(time.Since(begin).Microseconds())/decisionsEach)
	}
	fmt.Printf("Decisions beside %d rules, %d of them about the operation, with their records: µs %s   of the bar (%d µs) %4.2f\n",
		ruleCount, ruleCount/ruledOps, took.row("%6.1f"), barDecision, took.median()/barDecision)
	fmt.Printf("(the rules took %d ms to load and to type)\n\n", loaded.Milliseconds())
	return nil
}
