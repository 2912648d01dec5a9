// Package policy reads the operator's policy bundle (kind: PolicyBundle): rules,
// thresholds, approvals, caps and what is allowed, as values. It decides nothing.
package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/internal/embedded"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
)

// Bundle holds the statements of the operator's bundle. The compiler reads Allow;
// the rest is for decisions about single actions, and only its form and its
// expressions have been checked. A nil bundle allows no irreversible effect.
type Bundle struct {
	Version string
	// Thresholds are risks above which an action is not approved automatically.
	Thresholds []Threshold
	// Floor lists the least approvals that effects need, whatever a plan says.
	Floor []Floor
	// Review lists the groups that review each call of a node with the trust requirement
	// manual_review. If there are none, no such call is made.
	Review []Group `json:",omitempty"`
	// Lift says who may lift an escalation, sorted by file place.
	Lift []Lift
	// Outcome lists the groups that state what a call did, where nobody knows. If there are
	// none, nobody is asked.
	Outcome []Group `json:",omitempty"`
	// MaySign are those of [Interested] who may approve, too.
	MaySign []string `json:",omitempty"`
	// NoDelegation reports that each signer signs alone.
	NoDelegation bool `json:",omitempty"`
	// Caps bound one run.
	Caps Caps
	// Allow lists what irreversible effects are allowed, and which tainted
	// inputs and decisions are accepted.
	Allow []Allow
	// Unmodelled are the operations, as "provider/operation", whose effects are
	// accepted without a causal model.
	Unmodelled []string
	// UnmodelledAt is the place of the list; of several files, of the first.
	UnmodelledAt diag.Range `json:"-"`
	// Models are the causal models, each of which is about other operations. Those that a policy file
	// names are there once [Bundle.Load] has read them.
	Models []*causal.Model `json:",omitempty"`
	// ModelFiles are the files that the models are in, in their order.
	ModelFiles []ModelFile `json:"-"`
	Rules      []Rule
	// Range is the place of the version. It is invalid for a policy made by
	// code.
	Range diag.Range `json:"-"`
}

// Match says which actions an entry is about. An empty list matches all.
type Match struct {
	Effects []plan.EffectClass
	Agents  []string
	// Operations are "provider/operation".
	Operations []string
}

// Allow is one entry of a policy's allow list.
type Allow struct {
	Match
	// Tainted reports that tainted arguments and decisions need no approval.
	Tainted bool
	// Unattended reports that irreversible effects need nobody's approval.
	Unattended bool       `json:",omitempty"`
	Range      diag.Range `json:"-"`
}

// Threshold is a bound of risk; the one without a Match holds for all actions
// that no other matches.
type Threshold struct {
	Match
	// MaxAutoLaunchRisk is a probability, a JSON number in [0, 1].
	MaxAutoLaunchRisk json.Number
	Range             diag.Range `json:"-"`
}

// Floor is an approval that every matching effect needs.
type Floor struct {
	Match
	Groups []Group
	// FollowUp is what follows while people have not approved.
	FollowUp plan.FollowUp `json:",omitzero"`
	Range    diag.Range    `json:"-"`
}

// Group asks for signatures of Min persons who hold a role.
type Group struct {
	Role string
	Min  int
}

// Lift names the roles that may lift an escalation for a reason: budget_exceeded,
// causal_risk, or policy:ID of a soft rule.
type Lift struct {
	Reason string
	Roles  []string
	Range  diag.Range `json:"-"`
}

// Caps bounds one run. Zero and nil mean no bound.
type Caps struct {
	InvocationsPerRun int64
	ProbCostPerRun    *Money
	// InvocationsAt and ProbCostAt are their places.
	InvocationsAt, ProbCostAt diag.Range `json:"-"`
}

// Money is an exact amount.
type Money struct {
	// Amount is a decimal number such as "50.00".
	Amount string
	// Currency is an ISO 4217 code.
	Currency string
}

// Rule is a predicate over actions.
type Rule struct {
	ID string
	// Soft reports that the rule escalates if it fails. A hard rule rejects.
	Soft bool
	// Operations are those that the rule is about, as "provider/operation". None
	// means all.
	Operations []string
	// Match and Require are CEL predicates over `action`: an action of these
	// operations for which Match is true, or is "", has to meet Require.
	Match, Require string
	Message        string
	Range          diag.Range `json:"-"`
	// match and require are their places, operations the list of operations; nil
	// for a rule made by code.
	match, require, operations *syntax.Value
}

// InMatch returns the place of a byte of Match, InRequire of one of Require, and
// InOperations that of one of the operations. Each is the place of the rule if that
// was made by code.
func (r *Rule) InMatch(offset int) diag.Range { return r.point(r.match, offset) }

// InRequire is described with [Rule.InMatch].
func (r *Rule) InRequire(offset int) diag.Range { return r.point(r.require, offset) }

// InOperations is described with [Rule.InMatch].
func (r *Rule) InOperations(name string) diag.Range {
	if r.operations != nil {
		for _, x := range r.operations.Items {
			if x.Text == name {
				return x.Range()
			}
		}
	}
	return r.Range
}

func (r *Rule) point(v *syntax.Value, offset int) diag.Range {
	if v == nil {
		return r.Range
	}
	return embedded.Point(v, offset)
}

// Merge returns the one bundle of several files. All have the same version; a rule,
// a cap, a reason to lift and the threshold for all actions may each be in only one
// of them. Nil bundles are left out; the result is nil if all are, or if the
// diagnostics contain an error.
//
// A reason to lift names a soft rule of the bundle, since a hard one rejects. The models that a file
// names must have been read: see [Bundle.Load]. An operation has one model.
func Merge(files ...*Bundle) (*Bundle, diag.Diagnostics) {
	merged, ds := merge(files)
	ds = append(ds, merged.lifts()...)
	for _, p := range files {
		ds = append(ds, p.Unloaded()...)
		ds = append(ds, merged.doubted(p)...)
	}
	ds.Sort()
	if ds.HasErrors() {
		return nil, ds
	}
	return merged, ds
}

// Digest identifies the contents of a bundle, in whatever order and however they are
// spread over files: "sha256:" and 64 hex digits, or "" for a nil policy.
func (p *Bundle) Digest() string {
	if p == nil {
		return ""
	}
	c := *p
	c.Thresholds, c.Floor, c.Lift = byJSON(p.Thresholds), byJSON(p.Floor), byJSON(p.Lift)
	c.Outcome = byJSON(p.Outcome)
	c.Review = byJSON(p.Review)
	c.MaySign = slices.Sorted(slices.Values(p.MaySign))
	c.Allow, c.Unmodelled, c.Rules = byJSON(p.Allow), byJSON(p.Unmodelled), byJSON(p.Rules)
	if c.Models = nil; len(p.Models) > 0 {
		c.Models = byJSON(p.Models)
	}
	text, err := json.Marshal(c)
	switch {
	case err != nil:
		// Only a threshold or a model made by code can be invalid JSON.
		text = []byte(err.Error())
	case p.Unloaded() != nil:
		text = append(text, "\x00its models are not there"...) // nobody activates it by mistake
	}
	return plan.DigestOf(append([]byte("policy-bundle/1\x00"), text...))
}

// byJSON returns the entries in the order of their JSON.
func byJSON[T any](entries []T) []T {
	return slices.SortedFunc(slices.Values(entries), func(a, b T) int {
		// An entry that is no JSON makes the digest fail, not the order.
		x, _ := json.Marshal(a)
		y, _ := json.Marshal(b)
		return bytes.Compare(x, y)
	})
}

// lifts reports reasons that no soft rule gives.
func (p *Bundle) lifts() diag.Diagnostics {
	if p == nil {
		return nil
	}
	var ds diag.Diagnostics
	soft := map[string]bool{}
	var names []string
	for _, r := range p.Rules {
		if soft[r.ID] = r.Soft; r.Soft {
			names = append(names, liftRule+r.ID)
		}
	}
	// Suggestions are for people: the first few are enough.
	left := maxLiftHints
	for _, l := range p.Lift {
		id, isRule := strings.CutPrefix(l.Reason, liftRule)
		if !isRule || soft[id] {
			continue
		}
		d := diag.Diagnostic{
			Code: diag.EffectOperator, Summary: fmt.Sprintf("the bundle has no rule %s to lift", fields.Quote(id)),
			Detail: "`lift` names the soft rules whose escalation people may lift.", Subject: l.Range,
		}
		if _, hard := soft[id]; hard {
			d.Summary = fmt.Sprintf("the rule %s is hard, so nobody lifts it", fields.Quote(id))
			d.Detail = "A hard rule rejects. `lift` names soft rules, which escalate."
			d.Severity = diag.Warning
		} else if left > 0 {
			left--
			d.Suggestion = syntax.Nearest(l.Reason, names)
		}
		if d.Severity == "" {
			d.Severity = diag.Error
		}
		ds.Add(d)
	}
	return ds
}

const (
	// liftRule begins a reason to lift that names a rule.
	liftRule     = "policy:"
	maxLiftHints = 20
)

// merge is Merge of files that may not be all of the bundle.
func merge(files []*Bundle) (*Bundle, diag.Diagnostics) {
	var merged *Bundle
	var ds diag.Diagnostics
	seen := map[string]diag.Range{}
	once := func(what string, at diag.Range) {
		if first, taken := seen[what]; taken {
			ds.Add(twice(what, at, first))
			return
		}
		seen[what] = at
	}
	for _, p := range files {
		if p == nil {
			continue
		}
		if merged == nil {
			merged = &Bundle{Version: p.Version, Range: p.Range}
		}
		if p.Version != merged.Version {
			ds.Add(diag.Diagnostic{
				Code: diag.PlanSchema, Summary: fmt.Sprintf("the bundle is of version %s, not %s", fields.Quote(merged.Version), fields.Quote(p.Version)),
				Detail:  "The files of one bundle carry one version.",
				Subject: p.Range, Context: merged.Range, Suggestion: merged.Version,
			})
		}
		for _, t := range p.Thresholds {
			if t.all() {
				once("the threshold for all actions", t.Range)
			}
		}
		for _, l := range p.Lift {
			once("the reason to lift "+fields.Quote(l.Reason), l.Range)
		}
		for _, r := range p.Rules {
			once("the rule "+fields.Quote(r.ID), r.Range)
		}
		if p.Caps.InvocationsPerRun > 0 {
			once("the cap `invocations_per_run`", p.Caps.InvocationsAt)
			merged.Caps.InvocationsPerRun, merged.Caps.InvocationsAt = p.Caps.InvocationsPerRun, p.Caps.InvocationsAt
		}
		if p.Caps.ProbCostPerRun != nil {
			once("the cap `prob_cost_per_run`", p.Caps.ProbCostAt)
			money := *p.Caps.ProbCostPerRun
			merged.Caps.ProbCostPerRun, merged.Caps.ProbCostAt = &money, p.Caps.ProbCostAt
		}
		merged.Thresholds = append(merged.Thresholds, p.Thresholds...)
		merged.Floor = append(merged.Floor, p.Floor...)
		merged.Review = append(merged.Review, p.Review...)
		merged.Lift = append(merged.Lift, p.Lift...)
		merged.Outcome = append(merged.Outcome, p.Outcome...)
		merged.MaySign = append(merged.MaySign, p.MaySign...)
		merged.NoDelegation = merged.NoDelegation || p.NoDelegation
		merged.Allow = append(merged.Allow, p.Allow...)
		if merged.Unmodelled = append(merged.Unmodelled, p.Unmodelled...); merged.UnmodelledAt == (diag.Range{}) {
			merged.UnmodelledAt = p.UnmodelledAt
		}
		for i, m := range p.Models {
			at := p.ModelAt(i)
			for _, name := range m.Operations {
				once("a model of "+fields.Quote(name), at)
			}
			if merged.Models = append(merged.Models, m); len(merged.Models) == MaxModels+1 {
				ds.Add(diag.Diagnostic{
					Code: diag.PlanLimits, Summary: fmt.Sprintf("the bundle has more than %d models", MaxModels), Subject: at,
				})
			}
			merged.ModelFiles = append(merged.ModelFiles, ModelFile{Range: at})
			if i < len(p.ModelFiles) {
				merged.ModelFiles[len(merged.ModelFiles)-1].Path = p.ModelFiles[i].Path
			}
		}
		merged.Rules = append(merged.Rules, p.Rules...)
	}
	ds.Sort()
	if ds.HasErrors() {
		return nil, ds
	}
	return merged, ds
}

func twice(what string, at, first diag.Range) diag.Diagnostic {
	return diag.Diagnostic{
		Code: diag.PlanDuplicateID, Summary: what + " is in the bundle already",
		Detail: "Two of them would contradict each other.", Subject: at, Context: first,
	}
}

// Has reports whether a call is among those that m is about: an empty list is all.
func (m *Match) Has(effect plan.EffectClass, agent, operation string) bool {
	return listed(m.Effects, effect) && listed(m.Agents, agent) && listed(m.Operations, operation)
}

func listed[T comparable](list []T, v T) bool { return len(list) == 0 || slices.Contains(list, v) }

// all reports whether every action matches.
func (m *Match) all() bool { return len(m.Effects)+len(m.Agents)+len(m.Operations) == 0 }
