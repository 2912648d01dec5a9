package policy

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// BundleFields and those below are the tables of a policy file. schemas/policy.json
// states the same for editors; a test compares the two.
var BundleFields = &fields.Table{What: "a policy bundle", Fields: []fields.Field{
	fields.Required("apiVersion", fields.FormText, "always `chimera/v1`"),
	fields.Required("kind", fields.FormText, "always `PolicyBundle`"),
	fields.Required("version", fields.FormText, "the bundle's version, such as \"2026-11-01\""),
	fields.Optional("thresholds", fields.FormMap, "the risks above which an action is not approved by itself"),
	fields.Optional("approval", fields.FormMap, "who must approve, and who may lift an escalation"),
	fields.Optional("caps", fields.FormMap, "the bounds of one run"),
	fields.Optional("allow", fields.FormList, "the list of effects that are allowed; irreversible ones need an entry"),
	fields.Optional("unmodelled", fields.FormList, "the list of operations, as `provider/operation`, that are accepted without a causal model"),
	fields.Optional("models", fields.FormList, "the list of files of causal models, by their paths from the folder of this file").Called("model", "causal_models"),
	fields.Optional("rules", fields.FormList, "the list of predicates that every action must meet"),
}}

// Fields that say which actions an entry is about; absent is all.
var (
	effectsField    = fields.Optional("effects", fields.FormList, "the list of effect classes that it is about; absent: all")
	agentsField     = fields.Optional("agents", fields.FormList, "the list of agents that it is about; absent: all")
	operationsField = fields.Optional("operations", fields.FormList, "the list of operations, as `provider/operation`, that it is about; absent: all")
)

var ThresholdsFields = &fields.Table{What: "a `thresholds` map", Fields: []fields.Field{
	fields.Optional("max_auto_launch_risk", fields.FormNumber, "the largest risk, from 0 to 1, of an action that is approved by itself"),
	fields.Optional("per", fields.FormList, "the list of thresholds for some agents or effect classes"),
}}

var ThresholdFields = &fields.Table{What: "a threshold", Fields: []fields.Field{
	effectsField, agentsField,
	fields.Required("max_auto_launch_risk", fields.FormNumber, "the largest risk, from 0 to 1, of an action that is approved by itself"),
}}

var ApprovalFields = &fields.Table{What: "an `approval` map", Fields: []fields.Field{
	fields.Optional("floor", fields.FormList, "the list of approvals that effects need whatever their plan says"),
	fields.Optional("review", fields.FormList, "the list of groups that must all review each call of a node with `trust_requirement: manual_review`; absent: no such call is made"),
	fields.Optional("lift", fields.FormMap, "a map from `budget_exceeded`, `causal_risk` or `policy:RULE` to the roles that may lift it"),
	fields.Optional("outcome", fields.FormList, "the list of groups that must all state what a call did, where nobody knows; absent: nobody is asked"),
	fields.Optional("may_sign", fields.FormList, "those of `requester`, `author` and `owner` who may approve, too; absent: none of them"),
	fields.Optional("delegation", fields.FormBool, "whether signers may let others sign for them; absent: true"),
}}

var FloorFields = &fields.Table{What: "an approval floor", Fields: append([]fields.Field{
	effectsField, agentsField, operationsField,
	fields.Required("groups", fields.FormList, "the list of groups that must all sign"),
}, FollowUpFields...)}

var GroupFields = &fields.Table{What: "an approval group", Fields: []fields.Field{
	fields.Required("role", fields.FormText, "the role that its signers hold"),
	fields.Required("min", fields.FormNumber, "the number of signatures"),
}}

var CapsFields = &fields.Table{What: "a `caps` map", Fields: []fields.Field{
	fields.Optional("invocations_per_run", fields.FormNumber, "the largest number of calls in one run"),
	fields.Optional("prob_cost_per_run", fields.FormText, "the most that prob nodes of one run may cost, such as \"50.00 USD\""),
}}

var AllowFields = &fields.Table{What: "an `allow` entry", Fields: []fields.Field{
	effectsField, agentsField, operationsField,
	fields.Optional("tainted", fields.FormBool, "whether tainted arguments and decisions are accepted without an approval"),
	fields.Optional("unattended", fields.FormBool, "whether irreversible effects need nobody's approval; absent: false"),
}}

var RuleFields = &fields.Table{What: "a rule", Fields: []fields.Field{
	fields.Required("id", fields.FormText, "the rule's name: letters, digits, `_` and `-`"),
	fields.Required("type", fields.FormText, "`hard`, which rejects, or `soft`, which escalates"),
	operationsField,
	fields.Optional("match", fields.FormText, "a CEL predicate over `action`: the rule is about it; absent: about all of its operations"),
	fields.Required("require", fields.FormText, "a CEL predicate over `action`: what must hold then"),
	fields.Optional("message", fields.FormText, "what is said where it does not hold"),
}}

var (
	RuleTypes = []string{"hard", "soft"}
	// Interested are those who approve nothing unless the bundle says otherwise: who asked
	// for the run, who has signed its plan, and who answers for the agent.
	Interested = []string{"author", "owner", "requester"}

	OperationNames = fields.Operations
	Amounts        = fields.Grammar{Re: regexp.MustCompile(`^(0|[1-9][0-9]{0,17})(\.[0-9]{1,4})? [A-Z]{3}$`), Say: "a decimal amount, a blank and an ISO 4217 code, such as \"50.00 USD\""}
	Reasons        = fields.Grammar{Re: regexp.MustCompile(`^(budget_exceeded|causal_risk|policy:[0-9A-Za-z_][0-9A-Za-z_-]{0,62})$`), Say: "`budget_exceeded`, `causal_risk`, or `policy:` and the id of a rule"}
)

// Bounds of a policy file.
const (
	// MaxSigners bounds the min of an approval group, and MaxGroups the groups of an approval:
	// all of them are shown to those who sign.
	MaxSigners = 100
	MaxGroups  = 64
	// MaxRules bounds each list of a bundle: rules, allow, floor and the like.
	MaxRules = 10_000
	// MaxNames bounds each list of names within an entry.
	MaxNames = 10_000
	// MaxInvocations bounds caps.invocations_per_run.
	MaxInvocations = 1_000_000_000
)

// Parse reads a policy file (kind: PolicyBundle) of one document, YAML or JSON. A
// bundle may span several files: see [Merge]. The policy is nil if and only if the
// diagnostics contain an error. Parse is pure, and so does not read the files of models that the
// policy names: see [Bundle.Load].
func Parse(src diag.Source) (*Bundle, diag.Diagnostics) {
	u := embedded.NewExpressions(fields.NewReader(src), func(string) bool { return false })
	p := readPolicy(u)
	if p != nil {
		// Merging with nothing finds duplicates within the file. The rules whose
		// escalation it lifts may be in another file.
		_, ds := merge([]*Bundle{p})
		for _, d := range ds {
			u.Report(d)
		}
	}
	u.Found.Sort()
	if u.Found.HasErrors() {
		return nil, u.Found
	}
	return p, u.Found
}

func readPolicy(u *embedded.Expressions) *Bundle {
	root := u.Single("policy bundle", fields.Limits)
	if root == nil {
		return nil
	}
	r := u.Read(root, BundleFields, "")
	if r == nil {
		return nil
	}
	u.Fixed(r, "apiVersion", fields.APIVersion)
	u.Fixed(r, "kind", "PolicyBundle")
	p := &Bundle{Range: fields.Head(root)}
	if v := r.Get("version"); u.Name(v, "version", fields.Versions) {
		p.Version, p.Range = v.Text, v.Range()
	}
	readThresholds(u.Reader, p, r.Get("thresholds"))
	readBundleApproval(u.Reader, p, r.Get("approval"))
	readCaps(u.Reader, p, r.Get("caps"))
	for _, v := range entries(u.Reader, r.Get("allow"), "allow") {
		if a := u.Read(v, AllowFields, ""); a != nil {
			p.Allow = append(p.Allow, Allow{
				Match: readMatch(u.Reader, a), Tainted: fields.IsTrue(a.Get("tainted")), Unattended: fields.IsTrue(a.Get("unattended")), Range: fields.Head(v),
			})
		}
	}
	if v := r.Get("unmodelled"); v != nil {
		p.Unmodelled, p.UnmodelledAt = operationList(u.Reader, v, "unmodelled"), v.Range()
	}
	readModels(u.Reader, p, r.Get("models"))
	for _, v := range entries(u.Reader, r.Get("rules"), "rules") {
		readRule(u, p, v)
	}
	return p
}

// entries returns the items of a list of bounded length.
func entries(rep *fields.Reader, v *syntax.Value, name string) []*syntax.Value {
	if v == nil {
		return nil
	}
	return rep.AtMost(v.Items, MaxRules, name)
}

// namesIn reads a list of names. It refuses an empty list, which might be meant as
// "none", while an absent one means "all".
func namesIn(rep *fields.Reader, v *syntax.Value, name string) []*syntax.Value {
	if v == nil {
		return nil
	}
	if len(v.Items) == 0 {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("`%s` is empty", name),
			Detail: "Name at least one, or leave the field out.", Subject: v.Range(),
		})
	}
	return rep.AtMost(rep.Texts(v, name), MaxNames, name)
}

func nameList(rep *fields.Reader, v *syntax.Value, name string, g fields.Grammar) []string {
	var out []string
	for _, x := range namesIn(rep, v, name) {
		if rep.Name(x, name, g) {
			out = append(out, x.Text)
		}
	}
	return out
}

// operationList reads a list of operations. It refuses patterns, which would match nothing.
func operationList(rep *fields.Reader, v *syntax.Value, name string) []string {
	var out []string
	for _, x := range namesIn(rep, v, name) {
		if !rep.Name(x, name, OperationNames) {
			continue
		}
		if strings.ContainsAny(x.Text, "*?[") {
			rep.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("`%s` holds a pattern: %s", name, fields.Quote(x.Text)),
				Detail: "A policy names operations exactly. List each of them.", Subject: x.Range(),
			})
			continue
		}
		out = append(out, x.Text)
	}
	return out
}

// readMatch reads which actions an entry is about, from those fields that its table
// has.
func readMatch(rep *fields.Reader, r *fields.Record) Match {
	var m Match
	for _, f := range r.Table.Fields {
		switch f.Name {
		case effectsField.Name:
			for _, x := range namesIn(rep, r.Get(f.Name), f.Name) {
				if w := rep.Word(x, f.Name, fields.EffectClasses); w != "" {
					m.Effects = append(m.Effects, plan.EffectClass(w))
				}
			}
		case agentsField.Name:
			m.Agents = nameList(rep, r.Get(f.Name), f.Name, fields.AgentNames)
		case operationsField.Name:
			m.Operations = operationList(rep, r.Get(f.Name), f.Name)
		}
	}
	return m
}

func readThresholds(rep *fields.Reader, p *Bundle, v *syntax.Value) {
	if v == nil {
		return
	}
	r := rep.Read(v, ThresholdsFields, "")
	if risk, at := risk(rep, r); risk != "" {
		p.Thresholds = append(p.Thresholds, Threshold{MaxAutoLaunchRisk: risk, Range: at})
	}
	for _, x := range entries(rep, r.Get("per"), "per") {
		t := rep.Read(x, ThresholdFields, "")
		if t == nil {
			continue
		}
		m := readMatch(rep, t)
		if !t.Has("effects") && !t.Has("agents") {
			rep.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: "the threshold does not say what it is about",
				Detail: "Give it `effects` or `agents`. The one for all actions stands directly under `thresholds`.", Subject: fields.Head(x),
			})
		}
		if risk, _ := risk(rep, t); risk != "" {
			p.Thresholds = append(p.Thresholds, Threshold{Match: m, MaxAutoLaunchRisk: risk, Range: fields.Head(x)})
		}
	}
}

// risk reads max_auto_launch_risk, or returns "".
func risk(rep *fields.Reader, r *fields.Record) (json.Number, diag.Range) {
	v := r.Get("max_auto_launch_risk")
	if v == nil {
		return "", diag.Range{}
	}
	if x := fields.Number(v); x == nil || x.Sign() < 0 || x.Cmp(big.NewRat(1, 1)) > 0 {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("`max_auto_launch_risk` is out of range: %s", fields.Quote(v.Text)),
			Detail: "It is a probability from 0 to 1, such as 0.05 for 5 %.", Subject: v.Range(),
		})
		return "", diag.Range{}
	}
	return json.Number(v.Text), v.Range()
}

func readBundleApproval(rep *fields.Reader, p *Bundle, v *syntax.Value) {
	if v == nil {
		return
	}
	r := rep.Read(v, ApprovalFields, "")
	for _, x := range entries(rep, r.Get("floor"), "floor") {
		f := rep.Read(x, FloorFields, "")
		if f == nil {
			continue
		}
		floor := Floor{Match: readMatch(rep, f), Groups: readGroups(rep, f.Get("groups"), "groups"), Range: fields.Head(x)}
		var first []plan.Group
		for _, g := range floor.Groups {
			first = append(first, plan.Group(g))
		}
		floor.FollowUp = ReadFollowUp(rep, f, first)
		p.Floor = append(p.Floor, floor)
	}
	p.Outcome = readGroups(rep, r.Get("outcome"), "outcome")
	p.Review = readGroups(rep, r.Get("review"), "review")
	for _, x := range rep.Texts(r.Get("may_sign"), "may_sign") {
		if w := rep.Word(x, "may_sign", Interested); w != "" {
			p.MaySign = append(p.MaySign, w)
		}
	}
	if x := r.Get("delegation"); x != nil {
		p.NoDelegation = !fields.IsTrue(x)
	}
	lift := r.Get("lift")
	if lift == nil {
		return
	}
	for i := range lift.Fields {
		key, val := lift.Fields[i].Key, lift.Fields[i].Value
		if !rep.Name(key, "lift", Reasons) {
			continue
		}
		if val.Kind != syntax.List {
			rep.Report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("%s is a list of roles, not %s", fields.Quote(key.Text), fields.KindOf(val)), Subject: val.Range(), Context: key.Range(),
			})
			continue
		}
		p.Lift = append(p.Lift, Lift{Reason: key.Text, Roles: nameList(rep, val, key.Text, fields.RoleNames), Range: key.Range()})
	}
}

// readGroups reads a list of groups, the field of a name.
func readGroups(rep *fields.Reader, v *syntax.Value, name string) []Group {
	if v == nil {
		return nil
	}
	if len(v.Items) == 0 {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("`%s` is empty", name), Detail: "Name at least one group.", Subject: v.Range(),
		})
	}
	var out []Group
	for _, x := range rep.AtMost(v.Items, MaxGroups, name) {
		g := rep.Read(x, GroupFields, "")
		role := g.Get("role")
		count, ok := rep.Whole(g.Get("min"), "min", 1, MaxSigners)
		if !rep.Name(role, "role", fields.RoleNames) || !ok {
			continue
		}
		if slices.ContainsFunc(out, func(o Group) bool { return o.Role == role.Text }) {
			rep.Report(diag.Diagnostic{
				Code: diag.PlanDuplicateID, Summary: fmt.Sprintf("a group of role %s is there already", fields.Quote(role.Text)), Subject: role.Range(),
			})
		}
		out = append(out, Group{role.Text, int(count)})
	}
	return out
}

func readCaps(rep *fields.Reader, p *Bundle, v *syntax.Value) {
	if v == nil {
		return
	}
	r := rep.Read(v, CapsFields, "")
	if n, ok := rep.Whole(r.Get("invocations_per_run"), "invocations_per_run", 1, MaxInvocations); ok {
		p.Caps.InvocationsPerRun, p.Caps.InvocationsAt = n, r.Get("invocations_per_run").Range()
	}
	x := r.Get("prob_cost_per_run")
	if x == nil {
		return
	}
	if !Amounts.Re.MatchString(x.Text) {
		rep.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("`prob_cost_per_run` is not an amount: %s", fields.Quote(x.Text)),
			Detail: "It is " + Amounts.Say + ".", Subject: x.Range(),
		})
		return
	}
	amount, currency, _ := strings.Cut(x.Text, " ")
	p.Caps.ProbCostPerRun, p.Caps.ProbCostAt = &Money{amount, currency}, x.Range()
}

func readRule(u *embedded.Expressions, p *Bundle, v *syntax.Value) {
	id := ""
	if x := v.Get("id"); x != nil && x.Kind == syntax.String {
		id = x.Text
	}
	r := u.Read(v, RuleFields, id)
	if r == nil {
		return
	}
	rule := Rule{Range: fields.Head(v)}
	if x := r.Get("id"); u.Name(x, "id", fields.NodeIDs) {
		rule.ID, rule.Range = x.Text, x.Range()
	}
	rule.Soft = u.Word(r.Get("type"), "type", RuleTypes) == "soft"
	rule.match, rule.require, rule.operations = r.Get("match"), r.Get("require"), r.Get("operations")
	rule.Operations = operationList(u.Reader, rule.operations, operationsField.Name)
	rule.Match = rulePredicate(u, rule.match)
	rule.Require = rulePredicate(u, rule.require)
	if !r.Has("match") && !r.Has("operations") {
		u.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: "the rule does not say what it is about",
			Detail: "Give it `operations` or `match`. A rule about every action has `match: \"true\"`.", Subject: fields.Head(v), Suggestion: `match: "true"`,
		})
	}
	rule.Message = u.Bounded(r.Get("message"), "message")
	if rule.ID != "" {
		p.Rules = append(p.Rules, rule)
	}
}

// rulePredicate checks a predicate over an action and returns its text.
func rulePredicate(u *embedded.Expressions, v *syntax.Value) string {
	if v == nil {
		return ""
	}
	if strings.TrimSpace(v.Text) == "" {
		u.Report(diag.Diagnostic{Code: diag.PlanSyntax, Summary: "the expression is empty", Subject: v.Range()})
		return ""
	}
	u.Predicate(v, expr.Action, "", "")
	return v.Text
}
