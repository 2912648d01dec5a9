// Command cedar times a decision of the guardian beside one of Cedar, with equal rules, in
// turns: 1,000 rules about a hundred operations, of which ten are about the one that is
// decided on. Both get an action as JSON and give a decision.
//
// What each does for a decision is not the same: the guardian types and validates the
// inputs, makes a digest of the action and a record with every rule that was asked, and
// Cedar does none of that; Cedar looks at all policies, and the guardian at those of the
// operation.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cedar-policy/cedar-go"
	"github.com/cedar-policy/cedar-go/types"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/guardian"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

const (
	rules      = 1000
	operations = 100
	decisions  = 2000
	rounds     = 21
)

const inputs = `{"amount_minor": 5000, "to": "landlord"}`

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cedar:", err)
		os.Exit(1)
	}
}

func run() error {
	ours, err := newGuardian()
	if err != nil {
		return err
	}
	theirs, err := newCedar()
	if err != nil {
		return err
	}
	var took, took2, ratios []float64
	for range rounds {
		a, err := timed(ours)
		if err != nil {
			return fmt.Errorf("the guardian: %w", err)
		}
		b, err := timed(theirs)
		if err != nil {
			return fmt.Errorf("Cedar: %w", err)
		}
		took, took2, ratios = append(took, a), append(took2, b), append(ratios, b/a)
	}
	fmt.Printf("A decision beside %d rules, %d of them about the operation, in µs: guardian %.1f, Cedar %.1f; Cedar ÷ guardian %.2f [%.2f-%.2f]\n",
		rules, rules/operations, median(took), median(took2), median(ratios), quartile(ratios, 1), quartile(ratios, 3))
	return nil
}

// timed returns how long one of many decisions takes, in microseconds.
func timed(decide func() error) (float64, error) {
	begin := time.Now()
	for range decisions {
		if err := decide(); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(begin).Nanoseconds()) / 1000 / decisions, nil
}

func median(all []float64) float64 { return quartile(all, 2) }

func quartile(all []float64, n int) float64 {
	all = slices.Sorted(slices.Values(all))
	return all[(len(all)-1)*n/4]
}

func operation(i int) string { return fmt.Sprintf("bank/pay-%d", i%operations) }

func newGuardian() (func() error, error) {
	cat := &catalog.Catalog{}
	for i := range operations {
		cat.Templates = append(cat.Templates, catalog.Template{
			ProviderType: plan.Skill, Provider: "bank", Operation: strings.TrimPrefix(operation(i), "bank/"), Effect: plan.Committing,
			InputSchema: json.RawMessage(`{"type":"object","properties":{"amount_minor":{"type":"integer"},"to":{"type":"string"}},"required":["amount_minor","to"]}`),
		})
	}
	bundle := &policy.Bundle{Version: "1", Unmodelled: []string{operation(0)}}
	for i := range rules {
		bundle.Rules = append(bundle.Rules, policy.Rule{
			ID: fmt.Sprintf("r%d", i), Match: fmt.Sprintf("action.operation == %q", operation(i)),
			Require: fmt.Sprintf("action.inputs.amount_minor <= %d && action.inputs.to != \"nobody-%d\"", 500_000+i, i),
		})
	}
	gate, ds := guardian.New(bundle, cat)
	if gate == nil {
		return nil, fmt.Errorf("load the rules: %s", ds[0].Summary)
	}
	a := &guardian.Action{
		Agent: "agent-42", Plan: "sha256:0", Node: "pay", Operation: operation(0), Effect: plan.Committing,
		Inputs: json.RawMessage(inputs), Run: guardian.Run{Workflow: "w", Origin: "o", Path: "pay"},
	}
	facts := guardian.Facts{At: time.Now(), Calls: 1, Budget: guardian.Budget{State: guardian.NoBudget}}
	return func() error {
		r := gate.Decide(a, []byte("salt"), facts)
		if r.Decision != guardian.Approve || len(r.Rules) != rules/operations {
			return fmt.Errorf("%s, %s", r.Decision, r.Reason)
		}
		_, err := r.Encode()
		return err
	}, nil
}

// newCedar has the same rules: what is not forbidden is permitted.
func newCedar() (func() error, error) {
	var text strings.Builder
	text.WriteString("permit (principal, action, resource);\n")
	for i := range rules {
		fmt.Fprintf(&text, "forbid (principal, action == Action::%q, resource) unless { context.amount_minor <= %d && context.to != \"nobody-%d\" };\n",
			operation(i), 500_000+i, i)
	}
	policies, err := cedar.NewPolicySetFromBytes("rules.cedar", []byte(text.String()))
	if err != nil {
		return nil, err
	}
	agent, own, run := types.NewEntityUID("Agent", "agent-42"), types.NewEntityUID("Action", types.String(operation(0))), types.NewEntityUID("Run", "w")
	return func() error {
		var context types.Record
		if err := json.Unmarshal([]byte(inputs), &context); err != nil {
			return err
		}
		decision, why := cedar.Authorize(policies, types.EntityMap{}, cedar.Request{Principal: agent, Action: own, Resource: run, Context: context})
		if decision != cedar.Allow || len(why.Errors) > 0 {
			return fmt.Errorf("%s, %v", decision, why.Errors)
		}
		return nil
	}, nil
}
