package approval

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// RequestFormat is the format of requests.
const RequestFormat = "chimera.ai/approval/request/v1"

// ErrInvalid reports a request that is malformed.
var ErrInvalid = errors.New("not a request for approval")

// Request is what people are asked to approve: all actions that wait at one barrier.
type Request struct {
	Format     string         `json:"format"`
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
	Rule      Rule   `json:"rule"`
	// Actions are sorted by invocation.
	Actions []Action `json:"actions"`
	// Text is the digest of what people are shown, by that version of the renderer.
	Text     string `json:"text"`
	Renderer int    `json:"renderer"`
	// Checkpoint is the log's last one, so that signatures witness the log; or "".
	Checkpoint string      `json:"checkpoint,omitempty"`
	Opened     ledger.Time `json:"opened"`
	Expires    ledger.Time `json:"expires"`
}

// Rule says whose approval is enough.
type Rule struct {
	// Groups must all be met; they are sorted by role.
	Groups []plan.Group `json:"groups"`
	// Excluded are the persons whose signatures do not count, sorted.
	Excluded []string `json:"excluded"`
	// Alone reports that nobody signs for another.
	Alone bool `json:"alone,omitempty"`
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
	return r, plan.DigestOf(raw), nil
}

func (r *Request) check() error {
	switch {
	case r.Format != RequestFormat:
		return fmt.Errorf("%w: the format is %.80q, not %s", ErrInvalid, r.Format, RequestFormat)
	case len(r.Actions) == 0 || len(r.Actions) > ledger.MaxAwaited:
		return fmt.Errorf("%w: %d actions; there must be between 1 and %d", ErrInvalid, len(r.Actions), ledger.MaxAwaited)
	case len(r.Rule.Groups) == 0:
		return fmt.Errorf("%w: nobody is asked", ErrInvalid)
	case !slices.IsSortedFunc(r.Rule.Groups, func(a, b plan.Group) int { return strings.Compare(a.Role, b.Role) }):
		return fmt.Errorf("%w: the groups are not sorted", ErrInvalid)
	case !slices.IsSortedFunc(r.Actions, func(a, b Action) int { return strings.Compare(a.Invocation, b.Invocation) }):
		return fmt.Errorf("%w: the actions are not sorted", ErrInvalid)
	}
	for _, g := range r.Rule.Groups {
		if g.Min < 1 || g.Role == "" {
			return fmt.Errorf("%w: a group of %d persons of the role %.80q", ErrInvalid, g.Min, g.Role)
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
// persons of each role, with nobody's signature that does not count there.
func (r Rule) AtLeast(other Rule) error {
	for _, g := range other.Groups {
		at := slices.IndexFunc(r.Groups, func(x plan.Group) bool { return x.Role == g.Role })
		if at < 0 || r.Groups[at].Min < g.Min {
			return fmt.Errorf("%w: it does not ask for %d of the role %.80q", ErrInvalid, g.Min, g.Role)
		}
	}
	for _, person := range other.Excluded {
		if !r.excludes(person) {
			return fmt.Errorf("%w: it does not exclude %.80q", ErrInvalid, person)
		}
	}
	if other.Alone && !r.Alone {
		return fmt.Errorf("%w: it lets people sign for others", ErrInvalid)
	}
	return nil
}

func (r Rule) excludes(person string) bool {
	return slices.ContainsFunc(r.Excluded, func(x string) bool { return trust.Fold(x) == trust.Fold(person) })
}

// Join adds what another rule asks for.
func (r Rule) Join(other Rule) Rule {
	most := map[string]int{}
	for _, g := range slices.Concat(r.Groups, other.Groups) {
		most[g.Role] = max(most[g.Role], g.Min)
	}
	out := Rule{Groups: []plan.Group{}, Excluded: []string{}, Alone: r.Alone || other.Alone}
	for role, n := range most {
		out.Groups = append(out.Groups, plan.Group{Role: role, Min: n})
	}
	slices.SortFunc(out.Groups, func(a, b plan.Group) int { return strings.Compare(a.Role, b.Role) })
	out.Excluded = slices.Compact(slices.Sorted(slices.Values(append(slices.Concat(r.Excluded, other.Excluded), out.Excluded...))))
	if out.Excluded == nil {
		out.Excluded = []string{}
	}
	return out
}
