package guardian

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"time"

	"chimera.ai/engine/approval"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/policy"
)

// Version is the version of the rules of evaluation. A record names it, since another
// version may decide otherwise.
const Version = 3

// Word is a decision.
type Word string

// The decisions.
const (
	Approve  Word = "APPROVE"
	Escalate Word = "ESCALATE"
	Reject   Word = "REJECT"
)

// Reasons that are not about one rule. The package's documentation says when each is
// given.
const (
	PolicyClear     = "policy_clear"
	MalformedAction = "malformed_action"
	NoRule          = "no_rule"
	NotAllowed      = "not_allowed"
	NoApproval      = "no_approval"
	Tainted         = "tainted"
	NoReview        = "no_review"
	CapInvocations  = "cap:invocations_per_run"
	ApprovalNeeded  = "approval_needed"
	HumanApproved   = "human_approved"
	BudgetExceeded  = "budget_exceeded"
	BudgetError     = "budget_error"
	CausalRisk      = "causal_risk"
	SimulationError = "simulation_error"
	// ByRule begins the reason of a rule; its id follows.
	ByRule = "policy:"
)

// Facts are what a decision depends on besides action, bundle and catalog.
type Facts struct {
	// At is the time of the decision.
	At time.Time
	// Calls counts the calls of the run that have been decided, this one included.
	Calls int64
	// Asks lists the approvals that the plan asks for, and FollowUp is what follows while they
	// are not given.
	Asks     []plan.Group
	FollowUp plan.FollowUp
	// Review reports that the plan asks for a human review of the call.
	Review bool
	// Approved reports that people have approved this action, knowing of the reasons in
	// Lifted.
	Approved bool
	Lifted   []string
	Budget   Budget
	// Simulation is what is known of the risk. If it is nil, the models of the bundle say that.
	Simulation *Simulation
	// Shadow reports that nothing follows from the decision.
	Shadow bool
}

// Mode says whether a decision counts.
type Mode string

// The modes.
const (
	Enforce Mode = "enforce"
	Shadow  Mode = "shadow"
)

// Budget is what became of the money for an action.
type Budget struct {
	State BudgetState `json:"state"`
	// Hold is the id of the hold, if the state is [Held].
	Hold string `json:"hold,omitempty"`
	// Detail says more, for people.
	Detail string `json:"detail,omitempty"`
}

// BudgetState says whether there is money for an action. The zero value says that
// nobody has asked, or that the answer was an error.
type BudgetState string

// The states.
const (
	// NoBudget: the agent has no budget.
	NoBudget BudgetState = "none"
	Held     BudgetState = "held"
	Exceeded BudgetState = "exceeded"
	// Unpriced: the agent has a budget, and the cost is not known.
	Unpriced BudgetState = "unpriced"
)

// Simulation is what a causal model predicts for an action.
type Simulation struct {
	ID string `json:"sim_id"`
	// Model is the digest of the model, Seed that of its random numbers.
	Model string `json:"model_digest"`
	Seed  string `json:"seed,omitempty"`
	// Risk is the probability that a bound is broken: a JSON number from 0 to 1.
	Risk    string `json:"risk"`
	Summary string `json:"summary,omitempty"`
	// Prediction is all that the model says. It is nil where only a risk is given.
	Prediction *causal.Prediction `json:"prediction,omitempty"`
}

// Record is a decision with all that it rests on.
type Record struct {
	Decision Word   `json:"decision"`
	Reason   string `json:"reason"`
	// Objections are all reasons against the action, in the order of the steps; the
	// first is Reason.
	Objections []Objection `json:"objections"`
	// Rules are those that are about the action, by id.
	Rules []RuleResult `json:"rules"`
	// Groups are the persons who must approve the action, by role: those that the plan and
	// the bundle ask for, and those who may lift what was objected. People are asked only if
	// Awaits: then they may lift every objection.
	Groups []plan.Group `json:"groups,omitempty"`
	Awaits bool         `json:"awaits,omitempty"`
	// FollowUp is what follows while they have not approved, by the plan and the bundle.
	FollowUp plan.FollowUp `json:"follow_up,omitzero"`
	// Lifted are the objections that people have lifted.
	Lifted []Objection `json:"lifted,omitempty"`
	// InputDigest is the digest of the action, PolicyDigest that of the bundle.
	InputDigest  string      `json:"input_digest"`
	PolicyDigest string      `json:"policy_digest"`
	Budget       Budget      `json:"budget"`
	Simulation   *Simulation `json:"simulation,omitempty"`
	// Threshold is the risk up to which the action is approved.
	Threshold string `json:"threshold,omitempty"`
	Calls     int64  `json:"calls"`
	Approved  bool   `json:"approved"`
	// Engine is the version of the rules of evaluation and of expressions.
	Engine string `json:"engine"`
	Mode   Mode   `json:"mode"`
}

// Objection is a reason against an action.
type Objection struct {
	Decision Word   `json:"decision"`
	Reason   string `json:"reason"`
	// Detail says more, for people.
	Detail string `json:"detail,omitempty"`
}

// RuleResult says what a rule that is about an action found.
type RuleResult struct {
	ID   string `json:"id"`
	Soft bool   `json:"soft"`
	Held bool   `json:"held"`
	// Error says why the rule could not be evaluated, or is "".
	Error string `json:"error,omitempty"`
}

// Encode returns the canonical bytes of the record. Equal records have equal bytes.
func (r *Record) Encode() ([]byte, error) {
	raw, err := canonical(r)
	if err != nil {
		return nil, fmt.Errorf("encode decision: %w", err)
	}
	return raw, nil
}

// Decide judges an action. salt goes into the digest of the action: see
// [Action.Digest].
func (g *Gate) Decide(a *Action, salt []byte, facts Facts) *Record {
	d := &decision{gate: g, action: a, salt: salt, facts: facts}
	d.record = Record{
		Objections: []Objection{}, Rules: []RuleResult{}, PolicyDigest: g.digest,
		Budget: facts.Budget, Calls: facts.Calls, Approved: facts.Approved,
		Engine: fmt.Sprintf("guardian/%d expr/%d", Version, plan.ExprVersion), Mode: Enforce,
	}
	if facts.Shadow {
		d.record.Mode = Shadow
	}
	if d.form() {
		d.policy()
	}
	d.budget()
	d.risk()
	d.people()
	d.record.Decision, d.record.Reason = Approve, PolicyClear
	switch {
	case len(d.record.Objections) > 0:
		first := d.record.Objections[0]
		d.record.Decision, d.record.Reason = first.Decision, first.Reason
	case len(d.record.Lifted) > 0:
		d.record.Reason = HumanApproved
	}
	return &d.record
}

// people says who must approve the action, and takes back the objections that they have
// lifted. Nobody lifts a rejection.
func (d *decision) people() {
	needed := d.asked()
	ask := func(role string, n int) { needed[role] = max(needed[role], n) }
	if len(needed) > 0 {
		why := "people must approve it"
		switch {
		case d.action.Listed != nil:
			why += ": the words of the tool's definition are not those that the plan pins"
		case d.facts.Review:
			why += ": the plan asks for a human review of each call"
		}
		d.object(Escalate, ApprovalNeeded, why)
	}
	awaits := len(d.record.Objections) > 0
	for _, o := range d.record.Objections {
		roles := d.lifters(o.Reason)
		for _, role := range roles {
			ask(role, 1)
		}
		awaits = awaits && o.Decision == Escalate && (len(roles) > 0 || o.Reason == ApprovalNeeded)
	}
	if allowed, _, _ := d.allowed(); allowed && len(needed) == 0 && !d.facts.Approved && d.gate.Attended(d.action) {
		d.object(Reject, NoApproval, "nobody is asked to approve the irreversible effect: name groups in the plan or in approval.floor, or say unattended: true in the entry of `allow`")
	}
	d.record.Groups = groupsOf(needed)
	if len(d.record.Groups) > 0 {
		d.record.FollowUp = d.followUp()
	}
	if d.facts.Approved && awaits {
		d.record.Objections = slices.DeleteFunc(d.record.Objections, func(o Objection) bool {
			lifted := o.Reason == ApprovalNeeded || slices.Contains(d.facts.Lifted, o.Reason)
			if lifted {
				d.record.Lifted = append(d.record.Lifted, o)
			}
			return lifted
		})
	}
	d.record.Awaits = awaits && len(d.record.Objections) > 0
}

// asked is how many persons must approve the action whatever is objected, by role.
func (d *decision) asked() map[string]int {
	needed := map[string]int{}
	for _, g := range d.facts.Asks {
		needed[g.Role] = max(needed[g.Role], g.Min)
	}
	groups, _ := d.floor()
	for _, g := range slices.Concat(groups, d.reviewers()) {
		needed[g.Role] = max(needed[g.Role], g.Min)
	}
	return needed
}

// groupsOf lists groups by role.
func groupsOf(needed map[string]int) (groups []plan.Group) {
	for _, role := range slices.Sorted(maps.Keys(needed)) {
		groups = append(groups, plan.Group{Role: role, Min: needed[role]})
	}
	return groups
}

// Asked says who must approve an action whatever is objected to it: the groups that its plan
// asks for, and those of the bundle's floor. The inputs of the action do not matter.
func (g *Gate) Asked(a *Action, asks []plan.Group, followUp plan.FollowUp) approval.Rule {
	d := &decision{gate: g, action: a, facts: Facts{Asks: asks, FollowUp: followUp}}
	r := approval.Rule{Groups: groupsOf(d.asked())}
	if len(r.Groups) > 0 {
		r.FollowUp = d.followUp()
	}
	return r
}

// Attended reports whether at least one person must approve an action, whoever is asked: it is
// irreversible, and no entry of `allow` that is about it is unattended.
func (g *Gate) Attended(a *Action) bool {
	_, _, unattended := (&decision{gate: g, action: a}).allowed()
	return a.Effect == plan.Irreversible && !unattended
}

// followUp is what follows while people have not approved.
func (d *decision) followUp() plan.FollowUp {
	_, followUp := d.floor()
	return d.facts.FollowUp.Join(followUp)
}

// floor lists the approvals that the bundle asks of the action, whatever its plan says, and
// what follows while they are not given.
func (d *decision) floor() (groups []policy.Group, followUp plan.FollowUp) {
	for i := range d.gate.bundle.Floor {
		if f := &d.gate.bundle.Floor[i]; d.matches(&f.Match) {
			groups, followUp = append(groups, f.Groups...), followUp.Join(f.FollowUp)
		}
	}
	return groups, followUp
}

// review reports whether people must review the call: the plan asks for that, or the words of its tool
// have changed.
func (d *decision) review() bool { return d.facts.Review || d.action.Listed != nil }

// reviewers lists who reviews the call by the bundle, where it must be reviewed.
func (d *decision) reviewers() []policy.Group {
	if !d.review() {
		return nil
	}
	return d.gate.bundle.Review
}

// Lifters lists the roles that may lift an escalation for a reason.
func (g *Gate) Lifters(reason string) []string {
	return (&decision{gate: g}).lifters(reason)
}

// lifters are the roles that may lift an escalation for a reason.
func (d *decision) lifters(reason string) []string {
	for i := range d.gate.bundle.Lift {
		if l := &d.gate.bundle.Lift[i]; l.Reason == reason {
			return l.Roles
		}
	}
	return nil
}

// decision takes the steps for one action.
type decision struct {
	gate      *Gate
	action    *Action
	salt      []byte
	facts     Facts
	operation *operation
	vars      expr.Vars
	// inputs are the decoded inputs of the action.
	inputs any
	record Record
}

func (d *decision) object(w Word, reason, detail string) {
	d.record.Objections = append(d.record.Objections, Objection{w, reason, detail})
}

// form checks that the action is one that the catalog knows, with inputs that its
// operation takes.
func (d *decision) form() bool {
	err := d.understand()
	if err != nil {
		d.object(Reject, MalformedAction, err.Error())
	}
	return err == nil
}

func (d *decision) understand() error {
	if err := d.action.check(); err != nil {
		return err
	}
	doc, err := d.action.document()
	if err != nil {
		return err
	}
	if d.record.InputDigest, err = d.action.Digest(d.salt); err != nil {
		return err
	}
	d.vars, d.inputs = variables(doc, d.facts.At), doc["inputs"]
	pinned, _ := doc["pinned"].(string)
	o := d.gate.operations[d.action.Operation]
	pure := d.action.Effect == plan.Pure
	switch {
	case pure && !d.facts.Review:
		return errors.New("it has no effect, and the plan asks for no review")
	case o == nil && pure:
		return fmt.Errorf("the catalog has no operation %.200q", d.action.Operation)
	case o == nil, o.template.Effect == plan.Pure && !pure:
		return fmt.Errorf("the catalog has no operation %.200q with an effect", d.action.Operation)
	case o.template.Fingerprint != cmp.Or(pinned, d.action.Fingerprint):
		return fmt.Errorf("its fingerprint is not that of the catalog's %s", o.template.Name())
	case d.action.Effect.Weaker(o.template.Effect):
		return fmt.Errorf("its effect class is %s, and by the catalog %s is %s", d.action.Effect, o.template.Name(), o.template.Effect)
	case o.fault != nil:
		return fmt.Errorf("the catalog's input schema of %s: %w", o.template.Name(), o.fault)
	}
	if o.input != nil {
		if err := o.input.Validate(doc["inputs"]); err != nil {
			return fmt.Errorf("the inputs do not fit %s: %w", o.template.Name(), err)
		}
	}
	d.operation = o
	return nil
}

// policy evaluates the rules, and what else the bundle says of the action.
func (d *decision) policy() {
	var soft []Objection
	for _, r := range d.operation.rules {
		result, about := d.evaluate(r)
		if !about {
			continue
		}
		d.record.Rules = append(d.record.Rules, result)
		switch {
		case result.Error != "":
			d.object(Reject, ByRule+r.ID, "the rule cannot be evaluated: "+result.Error)
		case result.Held:
		case r.Soft:
			soft = append(soft, Objection{Escalate, ByRule + r.ID, r.Message})
		default:
			d.object(Reject, ByRule+r.ID, r.Message)
		}
	}
	if len(d.record.Rules) == 0 && d.action.Effect != plan.Pure {
		d.object(Reject, NoRule, "no rule of the bundle is about the action")
	}
	allowed, tainted, _ := d.allowed()
	if d.action.Effect == plan.Irreversible && !allowed {
		d.object(Reject, NotAllowed, "`allow` has no entry for the irreversible effect")
	}
	floor, _ := d.floor()
	if (d.action.Taint.Decision || len(d.action.Taint.Ports) > 0) && !tainted && len(d.facts.Asks)+len(floor)+len(d.reviewers()) == 0 {
		d.object(Reject, Tainted, "it depends on what nobody vouches for, and no entry of `allow` accepts that")
	}
	if d.review() && len(d.reviewers()) == 0 {
		why := "the plan asks for a human review, and the policy names nobody who reviews: add approval: {review: [{role: ROLE, min: 1}]} to it"
		if d.action.Listed != nil {
			why = "the words of the tool's definition are not those that the plan pins, and the policy names nobody who reviews: add approval: {review: [{role: ROLE, min: 1}]} to it"
		}
		d.object(Reject, NoReview, why)
	}
	if most := d.gate.bundle.Caps.InvocationsPerRun; most > 0 && d.facts.Calls > most {
		d.object(Reject, CapInvocations, fmt.Sprintf("the run has made %d calls, and %d are allowed", d.facts.Calls-1, most))
	}
	d.record.Objections = append(d.record.Objections, soft...)
}

// evaluate evaluates a rule. about is false if the rule does not match the action.
func (d *decision) evaluate(r rule) (result RuleResult, about bool) {
	result = RuleResult{ID: r.ID, Soft: r.Soft}
	if r.match != nil {
		matched, err := r.match.EvalBool(d.vars)
		if err != nil {
			result.Error = err.Error()
			return result, true
		}
		if !matched {
			return result, false
		}
	}
	held, err := r.require.EvalBool(d.vars)
	if err != nil {
		result.Error = err.Error()
	}
	result.Held = err == nil && held
	return result, true
}

// allowed reports whether `allow` lists the action, whether with tainted inputs, and whether
// without anybody's approval.
func (d *decision) allowed() (allowed, tainted, unattended bool) {
	for i := range d.gate.bundle.Allow {
		if a := &d.gate.bundle.Allow[i]; d.matches(&a.Match) {
			allowed, tainted, unattended = true, tainted || a.Tainted, unattended || a.Unattended
		}
	}
	return allowed, tainted, unattended
}

func (d *decision) matches(m *policy.Match) bool {
	return m.Has(d.action.Effect, d.action.Agent, d.action.Operation)
}

// budget objects if there is no money, or if that is not known.
func (d *decision) budget() {
	b := d.facts.Budget
	switch b.State {
	case NoBudget:
	case Held:
		if b.Hold == "" {
			d.object(Reject, BudgetError, "the hold has no id")
		}
	case Exceeded:
		d.object(Escalate, BudgetExceeded, b.Detail)
	case Unpriced:
		if d.action.Effect == plan.Pure {
			return // it is free: what has a price has an estimate
		}
		d.object(Escalate, BudgetExceeded, "its cost is not known, and its agent has a budget")
	default:
		d.object(Reject, BudgetError, b.Detail)
	}
}

// risk objects to an action that is riskier than the bundle allows, or whose risk is
// not known.
func (d *decision) risk() {
	s, err := d.foresee()
	var outside *causal.OutsideError
	switch operation := d.action.Operation; {
	case errors.As(err, &outside) && d.gate.unmodelled[operation]:
		return
	case outside != nil:
		d.object(Escalate, CausalRisk, "the causal model is not valid for the call: "+excerpt.Clip(outside.Error(), maxWhy))
		return
	case err != nil:
		d.object(Reject, SimulationError, "nothing can be predicted: "+excerpt.Clip(err.Error(), maxWhy))
		return
	case s == nil && d.action.Effect != plan.Pure && !d.gate.unmodelled[operation] && d.gate.models[operation] == nil:
		d.object(Escalate, CausalRisk, "no causal model says what it leads to")
		return
	case s == nil:
		return
	}
	d.record.Simulation = s
	threshold := d.threshold()
	d.record.Threshold = threshold
	risk := probability(s.Risk)
	switch {
	case risk == nil:
		d.object(Reject, SimulationError, fmt.Sprintf("the risk is %.40q, which is no probability", s.Risk))
	case risk.Cmp(probability(threshold)) > 0:
		d.object(Escalate, CausalRisk, s.Summary)
	}
}

// threshold is the risk up to which the action is approved: the least of the
// thresholds for it, else the one for all actions, else 0. Of equal ones it is the first by
// notation, wherever the bundle lists them.
func (d *decision) threshold() string {
	general, own := "0", ""
	for i := range d.gate.bundle.Thresholds {
		t := &d.gate.bundle.Thresholds[i]
		most := string(t.MaxAutoLaunchRisk)
		switch x := probability(most); {
		case !d.matches(&t.Match):
			continue
		case x == nil:
			own = "0"
		case len(t.Effects)+len(t.Agents)+len(t.Operations) == 0:
			general = most
		case own == "" || cmp.Or(x.Cmp(probability(own)), cmp.Compare(most, own)) < 0:
			own = most
		}
	}
	return cmp.Or(own, general)
}

// probability reads a JSON number from 0 to 1, or returns nil.
func probability(text string) *big.Rat {
	x := fields.Rat(text)
	if x == nil || x.Sign() < 0 || x.Cmp(big.NewRat(1, 1)) > 0 {
		return nil
	}
	return x
}
