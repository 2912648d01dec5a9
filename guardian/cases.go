package guardian

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// CasesFields and those below are the tables of a file of cases.
var CasesFields = &fields.Table{What: "a file of cases", Fields: []fields.Field{
	fields.Required("apiVersion", fields.FormText, "always `chimera/v1`"),
	fields.Required("kind", fields.FormText, "always `PolicyTest`"),
	fields.Required("cases", fields.FormList, "the list of actions, and what the policy says of each"),
}}

var CaseFields = &fields.Table{What: "a case", Fields: []fields.Field{
	fields.Required("name", fields.FormText, "what the case shows"),
	fields.Required("action", fields.FormMap, "the call that is judged"),
	fields.Optional("given", fields.FormMap, "what is known besides"),
	fields.Required("expect", fields.FormText, "the decision: `APPROVE`, `ESCALATE` or `REJECT`"),
	fields.Optional("reason", fields.FormText, "its reason, such as `policy:RULE`"),
}}

var CaseActionFields = &fields.Table{What: "an action", Fields: []fields.Field{
	fields.Required("operation", fields.FormText, "`provider/operation`"),
	fields.Optional("agent", fields.FormText, "on whose behalf the call is made"),
	fields.Optional("inputs", fields.FormAny, "the input of the call; absent: {}"),
	fields.Optional("effect", fields.FormText, "the effect class; absent: that of the catalog"),
	fields.Optional("cost", fields.FormText, "what the call costs, such as \"0.50 USD\"; absent: it is not known"),
	fields.Optional("tainted", fields.FormList, "the list of input ports that depend on what nobody vouches for"),
	fields.Optional("tainted_decision", fields.FormBool, "whether that the call is made depends on what nobody vouches for"),
}}

var CaseGivenFields = &fields.Table{What: "a `given` map", Fields: []fields.Field{
	fields.Optional("at", fields.FormText, "the time of the decision in RFC 3339; absent: 2026-01-01T12:00:00Z, a Thursday"),
	fields.Optional("calls", fields.FormNumber, "the number of effects that the run has asked for, this one included; absent: 1"),
	fields.Optional("budget", fields.FormText, "`none`, `held`, `exceeded` or `unpriced`; absent: `none`"),
	fields.Optional("risk", fields.FormNumber, "the risk, from 0 to 1; absent: what the causal model of the operation says, if there is one"),
	fields.Optional("asks", fields.FormList, "the list of roles whose approval the plan asks for"),
	fields.Optional("review", fields.FormBool, "whether the plan asks for a human review of the call (`manual_review`)"),
	fields.Optional("approved", fields.FormBool, "whether people have approved the action"),
	fields.Optional("lifted", fields.FormList, "the list of reasons, such as `budget_exceeded`, that people have lifted with their approval"),
}}

// Decisions and BudgetStates are the words of `expect` and `budget`.
var (
	Decisions    = []string{string(Approve), string(Escalate), string(Reject)}
	BudgetStates = []string{string(NoBudget), string(Held), string(Exceeded), string(Unpriced)}
)

// MaxCases bounds the cases of a file.
const MaxCases = 10_000

// Case is an action, and what a policy is expected to say of it.
type Case struct {
	Name   string
	Action Action
	Facts  Facts
	// Decision and Reason are what is expected; Reason is "" if any will do.
	Decision Word
	Reason   string
	// Range is the place of the name.
	Range diag.Range
}

// ParseCases reads a file of cases (kind: PolicyTest), YAML or JSON, of one document.
// The catalog says what effect an operation has. The cases are nil if the diagnostics
// contain an error.
func ParseCases(src diag.Source, cat *catalog.Catalog) ([]Case, diag.Diagnostics) {
	rep := fields.NewReader(src)
	cases := readCases(rep, cat)
	rep.Found.Sort()
	if rep.Found.HasErrors() {
		return nil, rep.Found
	}
	return cases, rep.Found
}

func readCases(rep *fields.Reader, cat *catalog.Catalog) []Case {
	root := rep.Single("file of cases", fields.Limits)
	if root == nil {
		return nil
	}
	top := rep.Read(root, CasesFields, "")
	if top == nil {
		return nil
	}
	rep.Fixed(top, "apiVersion", fields.APIVersion)
	rep.Fixed(top, "kind", "PolicyTest")
	list := top.Get("cases")
	if list == nil {
		return nil
	}
	known := effects(cat)
	var out []Case
	for _, v := range rep.AtMost(list.Items, MaxCases, "cases") {
		r := rep.Read(v, CaseFields, "")
		if r == nil {
			continue
		}
		c := Case{Range: fields.Head(v), Decision: Word(rep.Word(r.Get("expect"), "expect", Decisions))}
		if name := r.Get("name"); name != nil {
			c.Name, c.Range = rep.Bounded(name, "name"), name.Range()
		}
		if reason := r.Get("reason"); reason != nil {
			c.Reason = reason.Text
		}
		readAction(rep, &c, r.Get("action"), known)
		readGiven(rep, &c, r.Get("given"))
		out = append(out, c)
	}
	return out
}

func readAction(rep *fields.Reader, c *Case, v *syntax.Value, effects map[string]plan.EffectClass) {
	// What a case does not say is the same for all.
	c.Action = Action{
		Plan: "sha256:" + strings.Repeat("0", 64), Node: "node", Inputs: json.RawMessage("{}"), Taint: Taint{Ports: []string{}},
		Run: Run{Workflow: "test", Origin: "test", Path: "node"},
	}
	if v == nil {
		return
	}
	r := rep.Read(v, CaseActionFields, "")
	if x := r.Get("operation"); rep.Name(x, "operation", policy.OperationNames) {
		c.Action.Operation, c.Action.Effect = x.Text, effects[x.Text]
	}
	if x := r.Get("agent"); x != nil && rep.Name(x, "agent", fields.AgentNames) {
		c.Action.Agent = x.Text
	}
	if x := r.Get("inputs"); x != nil {
		raw, err := plan.Canonical(x.Any())
		if err != nil {
			rep.Report(diag.Diagnostic{Code: diag.PlanSchema, Summary: "`inputs` is not JSON", Detail: fields.Sentence(err.Error()), Subject: x.Range()})
		}
		c.Action.Inputs = raw
	}
	if x := r.Get("effect"); x != nil {
		c.Action.Effect = plan.EffectClass(rep.Word(x, "effect", fields.EffectClasses))
	}
	if x := r.Get("cost"); x != nil {
		amount, currency, _ := strings.Cut(x.Text, " ")
		cost, err := ledger.ParseMoney(amount, ledger.Currency(currency))
		if err != nil {
			rep.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("`cost` is not an amount: %s", fields.Quote(x.Text)),
				Detail: "It is " + policy.Amounts.Say + ".", Subject: x.Range(),
			})
		}
		c.Action.Cost = &cost
	}
	for _, x := range rep.Texts(r.Get("tainted"), "tainted") {
		c.Action.Taint.Ports = append(c.Action.Taint.Ports, x.Text)
	}
	slices.Sort(c.Action.Taint.Ports)
	c.Action.Taint.Decision = fields.IsTrue(r.Get("tainted_decision"))
}

func readGiven(rep *fields.Reader, c *Case, v *syntax.Value) {
	c.Facts = Facts{At: time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC), Calls: 1, Budget: Budget{State: NoBudget}}
	if v == nil {
		return
	}
	r := rep.Read(v, CaseGivenFields, "")
	if x := r.Get("at"); x != nil {
		at, err := time.Parse(time.RFC3339, x.Text)
		if err != nil {
			rep.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("`at` is not a time: %s", fields.Quote(x.Text)),
				Detail: "It is a time of RFC 3339, such as 2026-01-01T12:00:00Z.", Subject: x.Range(),
			})
		}
		c.Facts.At = at
	}
	if n, ok := rep.Whole(r.Get("calls"), "calls", 1, policy.MaxInvocations); ok {
		c.Facts.Calls = n
	}
	if w := rep.Word(r.Get("budget"), "budget", BudgetStates); w != "" {
		c.Facts.Budget.State = BudgetState(w)
		if c.Facts.Budget.State == Held {
			c.Facts.Budget.Hold = "test"
		}
	}
	if x := r.Get("risk"); x != nil {
		if probability(x.Text) == nil {
			rep.Report(diag.Diagnostic{Code: diag.PlanLimits, Summary: fmt.Sprintf("`risk` is out of range: %s", fields.Quote(x.Text)), Detail: "It is a probability, from 0 to 1.", Subject: x.Range()})
		}
		c.Facts.Simulation = &Simulation{ID: "test", Model: "test", Risk: x.Text}
	}
	for _, x := range rep.Texts(r.Get("asks"), "asks") {
		c.Facts.Asks = append(c.Facts.Asks, plan.Group{Role: x.Text, Min: 1})
	}
	c.Facts.Review = fields.IsTrue(r.Get("review"))
	c.Facts.Approved = fields.IsTrue(r.Get("approved"))
	for _, x := range rep.Texts(r.Get("lifted"), "lifted") {
		c.Facts.Lifted = append(c.Facts.Lifted, x.Text)
	}
}
