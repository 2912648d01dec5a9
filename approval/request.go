package approval

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// RequestFormat is the format of requests.
const RequestFormat = "chimera.ai/approval/request/v1"

// ErrInvalid reports a request that is malformed.
var ErrInvalid = errors.New("not a request for approval")

// Kind is what a request asks.
type Kind string

// The kinds of requests.
const (
	// Approval asks whether the actions may be done.
	Approval Kind = ""
	// Outcome asks what the call of one action did, which nobody knows.
	Outcome Kind = "outcome"
)

// Request is what people are asked to approve: all actions that wait at one barrier; or what
// they are asked about a call that was made.
type Request struct {
	Format     string         `json:"format"`
	Kind       Kind           `json:"kind,omitempty"`
	Deployment string         `json:"deployment"`
	Audience   trust.Audience `json:"audience"`
	Namespace  string         `json:"namespace"`
	Workflow   string         `json:"workflow"`
	// Origin is that of the run: see [ledger.Run.Origin].
	Origin string `json:"origin"`
	// Barrier is the barrier's id, and Name its name in the plan.
	Barrier string `json:"barrier"`
	Name    string `json:"name"`
	// Plan is the digest of the compiled plan, PlanName its name@version.
	Plan     string `json:"plan"`
	PlanName string `json:"plan_name"`
	// Agent is on whose behalf the run acts, and Requester who has asked for it.
	Agent     string `json:"agent"`
	Requester string `json:"requester"`
	// Policy is the digest of the policy, as the ledger keeps it, that says whom Rule excludes,
	// and who states what a call did.
	Policy string `json:"policy"`
	Rule   Rule   `json:"rule"`
	// Actions are sorted by invocation.
	Actions []Action `json:"actions"`
	// Text is the digest of what people are shown, by that version of the renderer.
	Text     string `json:"text"`
	Renderer int    `json:"renderer"`
	// Checkpoint is the log's last one, so that signatures witness the log; or "".
	Checkpoint string      `json:"checkpoint,omitempty"`
	Opened     ledger.Time `json:"opened"`
	Expires    ledger.Time `json:"expires"`
	// Escalated reports that the groups of the rule's escalation must approve, too. It is
	// what the ledger says of the barrier by now, and no part of what is signed: see [Of].
	Escalated bool `json:"-"`
}

// Rule says whose approval is enough.
type Rule struct {
	// Groups must all be met; they are sorted by role.
	Groups []plan.Group `json:"groups"`
	// Excluded are the persons whose signatures do not count, sorted.
	Excluded []string `json:"excluded"`
	// Alone reports that nobody signs for another.
	Alone bool `json:"alone,omitempty"`
	// FollowUp is what follows while people have not approved. Its groups must be met, too,
	// once the barrier was escalated.
	FollowUp plan.FollowUp `json:"follow_up,omitzero"`
}

// Action is one action that waits.
type Action struct {
	Node       string           `json:"node"`
	Path       string           `json:"path"`
	Operation  string           `json:"operation"`
	Effect     plan.EffectClass `json:"effect"`
	Invocation string           `json:"invocation"`
	// Action is the digest of the action, salted: see guardian.Action.
	Action string `json:"action"`
	// Amount and Currency are what it is estimated to cost, or "".
	Amount   string `json:"amount,omitempty"`
	Currency string `json:"currency,omitempty"`
	// Decision is the guardian's, by which it waits, with the digests of the policy and of
	// the evidence; Hold is what reserves the money, or "".
	Decision string `json:"decision"`
	Policy   string `json:"policy"`
	Evidence string `json:"evidence"`
	Hold     string `json:"hold,omitempty"`
	// Lifts are the reasons of the guardian that are lifted by the approval.
	Lifts []string `json:"lifts,omitempty"`
	// Undo lists the effects that are approved with this one: they undo it, with arguments
	// that follow from its own and from its output. They are sorted by invocation.
	Undo []Undo `json:"undo,omitempty"`
	// Permitted is when the call was permitted that a request of the kind [Outcome] is about.
	Permitted ledger.Time `json:"permitted,omitzero"`
}

// Undo is an effect that undoes another.
type Undo struct {
	Node       string `json:"node"`
	Operation  string `json:"operation"`
	Invocation string `json:"invocation"`
}

// Interested are the persons who have an interest in a run; "" is nobody.
type Interested struct{ Requester, Author, Owner string }

// Excluded returns those of the persons who may not approve; may are those of
// policy.Interested whom a policy lets approve.
func (p Interested) Excluded(may []string) []string {
	out := []string{}
	for _, x := range []struct{ who, person string }{{"requester", p.Requester}, {"author", p.Author}, {"owner", p.Owner}} {
		if x.person != "" && !slices.Contains(may, x.who) {
			out = append(out, x.person)
		}
	}
	return out
}

// Encode returns the canonical JSON of the request.
func (r *Request) Encode() ([]byte, error) {
	r.Format = RequestFormat
	if err := r.check(); err != nil {
		return nil, err
	}
	return trust.Encode(r)
}

// ParseRequest reads a request in canonical JSON, and returns it with its digest.
func ParseRequest(raw []byte) (*Request, string, error) {
	r := new(Request)
	if err := trust.Decode(raw, r); err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if err := r.check(); err != nil {
		return nil, "", err
	}
	if again, err := trust.Encode(r); err != nil || !bytes.Equal(again, raw) {
		return nil, "", fmt.Errorf("%w: its JSON is not canonical", ErrInvalid)
	}
	return r, plan.DigestOf(raw), nil
}

func (r *Request) check() error {
	switch {
	case r.Format != RequestFormat:
		return fmt.Errorf("%w: the format is %.80q, not %s", ErrInvalid, r.Format, RequestFormat)
	case len(r.Actions) == 0 || len(r.Actions) > ledger.MaxAwaited:
		return fmt.Errorf("%w: %d actions; there must be between 1 and %d", ErrInvalid, len(r.Actions), ledger.MaxAwaited)
	case r.Kind != Approval && (r.Kind != Outcome || len(r.Actions) != 1):
		return fmt.Errorf("%w: %d actions in a request of the kind %.40q", ErrInvalid, len(r.Actions), string(r.Kind))
	case r.Audience != trust.Prod && r.Audience != trust.Dev:
		return fmt.Errorf("%w: the audience is %.40q", ErrInvalid, string(r.Audience))
	case !r.Expires.Time().After(r.Opened.Time()):
		return fmt.Errorf("%w: it expires before it is opened", ErrInvalid)
	}
	for _, a := range r.Actions {
		if a.Permitted.Time().IsZero() == (r.Kind == Outcome) || len(a.Undo) > 0 && r.Kind == Outcome {
			return fmt.Errorf("%w: an action says when its call was permitted, if it was made, and else what undoes it", ErrInvalid)
		}
	}
	for i := 1; i < len(r.Actions); i++ {
		if r.Actions[i-1].Invocation >= r.Actions[i].Invocation {
			return fmt.Errorf("%w: the actions are not sorted, or not different", ErrInvalid)
		}
	}
	for i := range r.Actions {
		if err := ledger.CheckUndo(r.Actions[i].UndoneBy()); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	return r.Rule.check()
}

// maxPersons bounds the persons of one group, as plans and policies do.
const maxPersons = 100

// check checks the form of a rule.
func (r Rule) check() error {
	if len(r.Groups) == 0 || r.Excluded == nil {
		return fmt.Errorf("%w: nobody is asked, or it is not said who is excluded", ErrInvalid)
	}
	if err := r.FollowUp.Verify(); err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	for _, groups := range [][]plan.Group{r.Groups, r.FollowUp.To} {
		for i, g := range groups {
			if g.Min < 1 || g.Min > maxPersons || g.Role == "" {
				return fmt.Errorf("%w: a group of %d persons of the role %.80q", ErrInvalid, g.Min, g.Role)
			}
			if i > 0 && groups[i-1].Role >= g.Role {
				return fmt.Errorf("%w: the groups are not sorted, or not different", ErrInvalid)
			}
		}
	}
	for i, person := range r.Excluded {
		if !plan.IsPerson(person) {
			return fmt.Errorf("%w: %.80q, who is excluded, is not the id of a person", ErrInvalid, person)
		}
		if i > 0 && r.Excluded[i-1] >= person {
			return fmt.Errorf("%w: the excluded persons are not sorted, or not different", ErrInvalid)
		}
	}
	return nil
}

// UndoneBy lists the invocations of Undo, in their order.
func (a *Action) UndoneBy() []string {
	var out []string
	for _, u := range a.Undo {
		out = append(out, u.Invocation)
	}
	return out
}

// Covers returns the action that an invocation undoes whose approval is one of that, too, or
// nil.
func (r *Request) Covers(invocation string) *Action {
	for i := range r.Actions {
		if slices.Contains(r.Actions[i].UndoneBy(), invocation) {
			return &r.Actions[i]
		}
	}
	return nil
}

// Digests lists the digests of the actions, in their order.
func (r *Request) Digests() []string {
	out := make([]string, len(r.Actions))
	for i := range r.Actions {
		out[i] = r.Actions[i].Action
	}
	return out
}

// AtLeast returns an error unless the rule asks for all that another asks for: for as many
// persons of each role, with nobody's signature that does not count there, and no later for
// those whom the other escalates to. Reminders do not matter.
func (r Rule) AtLeast(other Rule) error {
	for _, x := range []struct{ have, want []plan.Group }{{r.Groups, other.Groups}, {r.FollowUp.To, other.FollowUp.To}} {
		have := map[string]int{}
		for _, g := range plan.Most(x.have, nil) {
			have[g.Role] = g.Min
		}
		for _, g := range plan.Most(x.want, nil) {
			if have[g.Role] < g.Min {
				return fmt.Errorf("it does not ask for %d of the role %.80q", g.Min, g.Role)
			}
		}
	}
	if after, most := r.FollowUp.EscalateAfterMS, other.FollowUp.EscalateAfterMS; most > 0 && after > most {
		return fmt.Errorf("it escalates after %d ms, not %d", after, most)
	}
	for _, person := range other.Excluded {
		if !r.Excludes(person) {
			return fmt.Errorf("it does not exclude %.80q", person)
		}
	}
	if other.Alone && !r.Alone {
		return errors.New("it lets people sign for others")
	}
	return nil
}

// Excludes reports whether a person's signature does not count.
func (r Rule) Excludes(person string) bool {
	return slices.Contains(r.Excluded, person)
}

// Join adds what another rule asks for: of each role the larger number, everybody's
// exclusions, and what follows, at the earliest times.
func (r Rule) Join(other Rule) Rule {
	out := Rule{Groups: []plan.Group{}, Excluded: []string{}, Alone: r.Alone || other.Alone, FollowUp: r.FollowUp.Join(other.FollowUp)}
	out.Groups = append(out.Groups, plan.Most(r.Groups, other.Groups)...)
	for _, person := range slices.Sorted(slices.Values(slices.Concat(r.Excluded, other.Excluded))) {
		if !out.Excludes(person) {
			out.Excluded = append(out.Excluded, person)
		}
	}
	return out
}
