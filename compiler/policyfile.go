package compiler

import (
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

var bundleFields = &table{what: "a policy bundle", fields: []field{
	{"apiVersion", formText, true, "always `chimera/v1`"},
	{"kind", formText, true, "always `PolicyBundle`"},
	{"version", formText, true, "the bundle's version, such as \"2026-11-01\""},
	{"thresholds", formMap, false, "the risks above which an action is not approved by itself"},
	{"approval", formMap, false, "who must approve, and who may lift an escalation"},
	{"caps", formMap, false, "the bounds of one run"},
	{"allow", formList, false, "the list of effects that are allowed; irreversible ones need an entry"},
	{"unmodelled", formList, false, "the list of operations, as `provider/operation`, that are accepted without a causal model"},
	{"rules", formList, false, "the list of predicates that every action must meet"},
}}

// Fields that say which actions an entry is about; absent is all.
var (
	effectsField    = field{"effects", formList, false, "the list of effect classes that it is about; absent: all"}
	agentsField     = field{"agents", formList, false, "the list of agents that it is about; absent: all"}
	operationsField = field{"operations", formList, false, "the list of operations, as `provider/operation`, that it is about; absent: all"}
)

var thresholdsFields = &table{what: "a `thresholds` map", fields: []field{
	{"max_auto_launch_risk", formNumber, false, "the largest risk, from 0 to 1, of an action that is approved by itself"},
	{"per", formList, false, "the list of thresholds for some agents or effect classes"},
}}

var thresholdFields = &table{what: "a threshold", fields: []field{
	effectsField, agentsField,
	{"max_auto_launch_risk", formNumber, true, "the largest risk, from 0 to 1, of an action that is approved by itself"},
}}

var bundleApprovalFields = &table{what: "an `approval` map", fields: []field{
	{"floor", formList, false, "the list of approvals that effects need whatever their plan says"},
	{"lift", formMap, false, "a map from `budget_exceeded`, `causal_risk` or `policy:RULE` to the roles that may lift it"},
}}

var floorFields = &table{what: "an approval floor", fields: []field{
	effectsField, agentsField, operationsField,
	{"groups", formList, true, "the list of groups that must all sign"},
}}

var capsFields = &table{what: "a `caps` map", fields: []field{
	{"invocations_per_run", formNumber, false, "the largest number of calls in one run"},
	{"prob_cost_per_run", formText, false, "the most that prob nodes of one run may cost, such as \"50.00 USD\""},
}}

var allowFields = &table{what: "an `allow` entry", fields: []field{
	effectsField, agentsField, operationsField,
	{"tainted", formBool, false, "whether tainted arguments and decisions are accepted without an approval"},
}}

var ruleFields = &table{what: "a rule", fields: []field{
	{"id", formText, true, "the rule's name: letters, digits, `_` and `-`"},
	{"type", formText, true, "`hard`, which rejects, or `soft`, which escalates"},
	{"match", formText, true, "a CEL predicate over `action`: the rule is about it"},
	{"require", formText, true, "a CEL predicate over `action`: what must hold then"},
	{"message", formText, false, "what is said where it does not hold"},
}}

var (
	ruleTypes = []string{"hard", "soft"}

	operationNames = grammar{regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z._-]{0,127}/[!-~]{1,128}$`), "a provider, `/` and an operation, such as mail/send"}
	amounts        = grammar{regexp.MustCompile(`^(0|[1-9][0-9]{0,17})(\.[0-9]{1,4})? [A-Z]{3}$`), "a decimal amount, a blank and an ISO 4217 code, such as \"50.00 USD\""}
	reasons        = grammar{regexp.MustCompile(`^(budget_exceeded|causal_risk|policy:[0-9A-Za-z_][0-9A-Za-z_-]{0,62})$`), "`budget_exceeded`, `causal_risk`, or `policy:` and the id of a rule"}
)

// Bounds of a policy file.
const (
	// MaxRules bounds each list of a bundle: rules, allow, floor and the like.
	MaxRules = 10_000
	// MaxNames bounds each list of names within an entry.
	MaxNames = 10_000
	// MaxInvocations bounds caps.invocations_per_run.
	MaxInvocations = 1_000_000_000
)

// ParsePolicy reads a policy file (kind: PolicyBundle), YAML or JSON, of one
// document. A bundle may span several files: see [MergePolicies]. The policy is
// nil exactly if the diagnostics hold an error. It is pure.
func ParsePolicy(src Source) (*Policy, diag.Diagnostics) {
	u := newUnit(src, nil, nil)
	p := u.readPolicy()
	if p != nil {
		// Merging with nothing finds what the file says twice. The rules whose
		// escalation it lifts may stand in another file.
		_, ds := mergePolicies([]*Policy{p})
		for _, d := range ds {
			u.report(d)
		}
	}
	u.ds.Sort()
	if u.ds.HasErrors() {
		return nil, u.ds
	}
	return p, u.ds
}

func (u *unit) readPolicy() *Policy {
	root := u.single("policy bundle")
	if root == nil {
		return nil
	}
	r := u.read(root, bundleFields, "")
	if r == nil {
		return nil
	}
	u.constant(r, "apiVersion", apiVersion)
	u.constant(r, "kind", "PolicyBundle")
	p := &Policy{Range: head(root)}
	if v := r.get("version"); u.name(v, "version", versions) {
		p.Version, p.Range = v.Text, v.Range()
	}
	u.readThresholds(p, r.get("thresholds"))
	u.readBundleApproval(p, r.get("approval"))
	u.readCaps(p, r.get("caps"))
	for _, v := range u.entries(r.get("allow"), "allow") {
		if a := u.read(v, allowFields, ""); a != nil {
			p.Allow = append(p.Allow, Allow{Match: u.readMatch(a), Tainted: isTrue(a.get("tainted")), Range: head(v)})
		}
	}
	p.Unmodelled = u.operationList(r.get("unmodelled"), "unmodelled")
	for _, v := range u.entries(r.get("rules"), "rules") {
		u.readRule(p, v)
	}
	return p
}

// entries gives the items of a list of bounded length.
func (rep *reporter) entries(v *syntax.Value, name string) []*syntax.Value {
	if v == nil {
		return nil
	}
	return rep.atMost(v.Items, MaxRules, name)
}

func (rep *reporter) atMost(items []*syntax.Value, most int, name string) []*syntax.Value {
	if len(items) <= most {
		return items
	}
	rep.report(diag.Diagnostic{
		Code: diag.PlanLimits, Summary: fmt.Sprintf("`%s` has %d entries", name, len(items)),
		Detail: fmt.Sprintf("It has at most %d.", most), Subject: head(items[most]),
	})
	return items[:most]
}

// names reads a list of names. An empty list is refused: it could be meant as
// "none", and an absent one means "all".
func (rep *reporter) names(v *syntax.Value, name string) []*syntax.Value {
	if v == nil {
		return nil
	}
	if len(v.Items) == 0 {
		rep.report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("`%s` is empty", name),
			Detail: "Name at least one, or leave the field out.", Subject: v.Range(),
		})
	}
	return rep.atMost(rep.texts(v, name), MaxNames, name)
}

func (rep *reporter) operationList(v *syntax.Value, name string) []string {
	return rep.nameList(v, name, operationNames)
}

func (rep *reporter) nameList(v *syntax.Value, name string, g grammar) []string {
	var out []string
	for _, x := range rep.names(v, name) {
		if rep.name(x, name, g) {
			out = append(out, x.Text)
		}
	}
	return out
}

// readMatch reads which actions an entry is about, as far as its table has the
// fields.
func (rep *reporter) readMatch(r *record) Match {
	var m Match
	for _, f := range r.table.fields {
		switch f.name {
		case effectsField.name:
			for _, x := range rep.names(r.get(f.name), f.name) {
				if w := rep.word(x, f.name, effectClasses); w != "" {
					m.Effects = append(m.Effects, plan.EffectClass(w))
				}
			}
		case agentsField.name:
			m.Agents = rep.nameList(r.get(f.name), f.name, agents)
		case operationsField.name:
			m.Operations = rep.operationList(r.get(f.name), f.name)
		}
	}
	return m
}

func (rep *reporter) readThresholds(p *Policy, v *syntax.Value) {
	if v == nil {
		return
	}
	r := rep.read(v, thresholdsFields, "")
	if risk, at := rep.risk(r); risk != "" {
		p.Thresholds = append(p.Thresholds, Threshold{MaxAutoLaunchRisk: risk, Range: at})
	}
	for _, x := range rep.entries(r.get("per"), "per") {
		t := rep.read(x, thresholdFields, "")
		if t == nil {
			continue
		}
		m := rep.readMatch(t)
		if !t.has("effects") && !t.has("agents") {
			rep.report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: "the threshold does not say what it is about",
				Detail: "Give it `effects` or `agents`. The one for all actions stands directly under `thresholds`.", Subject: head(x),
			})
		}
		if risk, _ := rep.risk(t); risk != "" {
			p.Thresholds = append(p.Thresholds, Threshold{Match: m, MaxAutoLaunchRisk: risk, Range: head(x)})
		}
	}
}

// risk reads max_auto_launch_risk, or gives "".
func (rep *reporter) risk(r *record) (json.Number, diag.Range) {
	v := r.get("max_auto_launch_risk")
	if v == nil {
		return "", diag.Range{}
	}
	if x := number(v); x == nil || x.Sign() < 0 || x.Cmp(big.NewRat(1, 1)) > 0 {
		rep.report(diag.Diagnostic{
			Code: diag.PlanLimits, Summary: fmt.Sprintf("`max_auto_launch_risk` is out of range: %s", quote(v.Text)),
			Detail: "It is a probability, from 0 to 1.", Subject: v.Range(),
		})
		return "", diag.Range{}
	}
	return json.Number(v.Text), v.Range()
}

func (rep *reporter) readBundleApproval(p *Policy, v *syntax.Value) {
	if v == nil {
		return
	}
	r := rep.read(v, bundleApprovalFields, "")
	for _, x := range rep.entries(r.get("floor"), "floor") {
		f := rep.read(x, floorFields, "")
		if f == nil {
			continue
		}
		p.Floor = append(p.Floor, Floor{Match: rep.readMatch(f), Groups: rep.readGroups(f.get("groups")), Range: head(x)})
	}
	lift := r.get("lift")
	if lift == nil {
		return
	}
	for i := range lift.Fields {
		key, val := lift.Fields[i].Key, lift.Fields[i].Value
		if !rep.name(key, "lift", reasons) {
			continue
		}
		if val.Kind != syntax.List {
			rep.report(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("%s is a list of roles, not %s", quote(key.Text), kindName(val)), Subject: val.Range(), Context: key.Range(),
			})
			continue
		}
		p.Lift = append(p.Lift, Lift{Reason: key.Text, Roles: rep.nameList(val, key.Text, roles), Range: key.Range()})
	}
}

func (rep *reporter) readGroups(v *syntax.Value) []Group {
	if v == nil {
		return nil
	}
	if len(v.Items) == 0 {
		rep.report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: "`groups` is empty", Detail: "Name at least one group.", Subject: v.Range(),
		})
	}
	var out []Group
	for _, x := range rep.atMost(v.Items, MaxSigners, "groups") {
		g := rep.read(x, groupFields, "")
		role := g.get("role")
		count, ok := rep.whole(g.get("min"), "min", 1, MaxSigners)
		if !rep.name(role, "role", roles) || !ok {
			continue
		}
		if slices.ContainsFunc(out, func(o Group) bool { return o.Role == role.Text }) {
			rep.report(diag.Diagnostic{
				Code: diag.PlanDuplicateID, Summary: fmt.Sprintf("a group of role %s is there already", quote(role.Text)), Subject: role.Range(),
			})
		}
		out = append(out, Group{role.Text, int(count)})
	}
	return out
}

func (rep *reporter) readCaps(p *Policy, v *syntax.Value) {
	if v == nil {
		return
	}
	r := rep.read(v, capsFields, "")
	if n, ok := rep.whole(r.get("invocations_per_run"), "invocations_per_run", 1, MaxInvocations); ok {
		p.Caps.InvocationsPerRun, p.Caps.InvocationsAt = n, r.get("invocations_per_run").Range()
	}
	x := r.get("prob_cost_per_run")
	if x == nil {
		return
	}
	if !amounts.re.MatchString(x.Text) {
		rep.report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: fmt.Sprintf("`prob_cost_per_run` is not an amount: %s", quote(x.Text)),
			Detail: "It is " + amounts.say + ".", Subject: x.Range(),
		})
		return
	}
	amount, currency, _ := strings.Cut(x.Text, " ")
	p.Caps.ProbCostPerRun, p.Caps.ProbCostAt = &Money{amount, currency}, x.Range()
}

func (u *unit) readRule(p *Policy, v *syntax.Value) {
	id := ""
	if x := v.Get("id"); x != nil && x.Kind == syntax.String {
		id = x.Text
	}
	r := u.read(v, ruleFields, id)
	if r == nil {
		return
	}
	rule := Rule{Range: head(v)}
	if x := r.get("id"); u.name(x, "id", nodeIDs) {
		rule.ID, rule.Range = x.Text, x.Range()
	}
	rule.Soft = u.word(r.get("type"), "type", ruleTypes) == "soft"
	rule.Match = u.rulePredicate(r.get("match"))
	rule.Require = u.rulePredicate(r.get("require"))
	if x := r.get("message"); x != nil {
		u.text(x, "message")
		rule.Message = x.Text
	}
	if rule.ID != "" {
		p.Rules = append(p.Rules, rule)
	}
}

// rulePredicate checks a predicate over an action and gives its text.
func (u *unit) rulePredicate(v *syntax.Value) string {
	if v == nil {
		return ""
	}
	if strings.TrimSpace(v.Text) == "" {
		u.report(diag.Diagnostic{Code: diag.PlanSyntax, Summary: "the expression is empty", Subject: v.Range()})
		return ""
	}
	u.predicate(v, expr.Action, "", "")
	return v.Text
}
