package approval

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"chimera.ai/engine/approval/display"
	"chimera.ai/engine/plan"
)

// Shown is what people are shown of an action besides what the request says of it.
type Shown struct {
	Fingerprint string
	Description string
	Resources   []string
	// Inputs are the arguments of the call, one JSON value.
	Inputs json.RawMessage
	// Tainted are the ports, and TaintedDecision the decision to call, that depend on what
	// nobody vouches for.
	Tainted         []string
	TaintedDecision bool
	// Prechecks are the nodes that have succeeded before, with the digests of what they have
	// returned.
	Prechecks []display.Precheck
	// Reworded are the words in the definition of the called tool that are not those that the plan pins.
	Reworded []display.Rewording
	// Objections are the guardian's reasons against the action, with what it says of them.
	Objections []string
	// Undo says how the effect is undone.
	Undo string
}

// Text returns what people are shown of a request, and its digest. Each action of the
// request has its Shown. It does not depend on Text of the request.
func Text(r *Request, shown []Shown) (text, digest string, err error) {
	if len(shown) != len(r.Actions) {
		return "", "", fmt.Errorf("render a request: %d actions, and %d are shown", len(r.Actions), len(shown))
	}
	v := display.View{
		Deployment: r.Deployment, Audience: string(r.Audience), Namespace: r.Namespace, Workflow: r.Workflow, Barrier: r.Barrier,
		Plan: r.PlanName, PlanDigest: r.Plan, Agent: r.Agent, Requester: r.Requester, Opened: r.Opened.String(), Expires: r.Expires.String(),
		Excluded: r.Rule.Excluded, Checkpoint: r.Checkpoint, Outcome: r.Kind != Approval,
	}
	for _, g := range r.Rule.Groups {
		v.Groups = append(v.Groups, display.Group{Role: g.Role, Min: g.Min})
	}
	if at := r.EscalatesAt(); at != nil {
		v.Escalates = at.String()
	}
	for _, g := range r.Rule.FollowUp.To {
		v.Later = append(v.Later, display.Group{Role: g.Role, Min: g.Min})
	}
	for i := range r.Actions {
		a, s := &r.Actions[i], &shown[i]
		v.Items = append(v.Items, display.Item{
			Node: a.Node, Path: a.Path, Operation: a.Operation, Fingerprint: s.Fingerprint, Effect: string(a.Effect),
			Description: s.Description, Resources: s.Resources, Inputs: s.Inputs, Amount: a.Amount, Currency: a.Currency,
			TaintedPorts: s.Tainted, TaintedDecision: s.TaintedDecision, Prechecks: s.Prechecks, Reworded: s.Reworded, Reasons: s.Objections, Undo: s.Undo,
			Action: a.Action, Invocation: a.Invocation, Decision: a.Decision, Evidence: a.Evidence,
		})
		for _, u := range a.Undo {
			it := &v.Items[i]
			it.Undoing = append(it.Undoing, fmt.Sprintf("%s (%s)", u.Operation, u.Node))
		}
		if !a.Permitted.Time().IsZero() {
			v.Items[i].Permitted = a.Permitted.String()
		}
	}
	if text, err = display.Text(&v); err != nil {
		return "", "", err
	}
	return text, display.Digest(text), nil
}

// Renderer is the version of the text.
const Renderer = display.Version

// Of adds what a plan says of a node: what it is about, and how it is undone.
func (s *Shown) Of(p *plan.Plan, node int) {
	n := &p.Nodes[node]
	s.Description, s.Resources = n.Description, n.Resources
	var ways []string
	for i := range p.Edges {
		e := &p.Edges[i]
		if e.From == node && e.FromPort == plan.CompensatePort {
			to := &p.Nodes[e.To]
			ways = append(ways, fmt.Sprintf("%s (%s) with %s for %s", to.Activity(), to.ID, template(e.Transform), e.ToPort))
		}
	}
	switch {
	case n.Effect == plan.Pure:
		s.Undo = "there is nothing to undo: the call has no effect"
	case len(ways) > 0:
		s.Undo = strings.Join(ways, "; ")
	case n.Commit != nil && n.Commit.Waived != "":
		s.Undo = "nothing undoes it: " + n.Commit.Waived
	}
}

// plain is a string that needs no quotes: it has no spaces, and nothing that the text escapes.
var plain = regexp.MustCompile(`^[A-Za-z0-9_$.{}\[\]/-]+$`)

// template is the template of an edge as people read it: a plain string that is no JSON by
// itself, such as ${args.path}, as it is, and everything else in JSON. So templates that differ
// look different, and a string cannot look like the words around it.
func template(raw json.RawMessage) string {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil || !plain.MatchString(s) || json.Valid([]byte(s)) {
		return string(raw)
	}
	return s
}

// Checkpoint is a checkpoint as a request names it: origin, size and root, without its
// signatures; "" for what is none.
func Checkpoint(note []byte) string {
	lines := strings.SplitN(string(note), "\n", 4)
	if len(lines) < 4 {
		return ""
	}
	return strings.Join(lines[:3], " ")
}
