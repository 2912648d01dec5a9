package plan

import (
	"encoding/json"
	"slices"
	"strings"
)

// Commit says how an effect is approved, checked and undone.
type Commit struct {
	// Barrier indexes Plan.Barriers; it is -1 if the plan asks for no approval.
	// The operator's own rules apply all the same.
	Barrier int `json:"barrier"`
	// Prechecks index Plan.Nodes, sorted: the nodes that must succeed first. An
	// implicit control edge leads from each.
	Prechecks []int `json:"prechecks,omitempty"`
	// Verify finds out whether the effect happened, or is nil.
	Verify *Verify `json:"verify,omitempty"`
	// Waived is the author's reason why nothing can be verified or undone, or "".
	Waived string `json:"waived,omitempty"`
}

// Covered reports whether people who approve the effect that node i undoes approve node i,
// too. It has an effect itself, and nobody reviews its calls; all edges into it come from
// $compensate of that node, and nothing goes into its input but constants, and the arguments and
// the output of that call.
func (p *Plan) Covered(i int) bool {
	n := &p.Nodes[i]
	if n.Undoes == 0 || !n.Effect.Acts() || n.Reviewed() || n.ReadsInput {
		return false
	}
	for _, at := range p.In(i) {
		if e := &p.Edges[at]; e.FromPort != CompensatePort || e.From != n.Undoes || e.ReadsError {
			return false
		}
	}
	return true
}

// Undoable reports whether the plan says how the effect of node i is undone: by a $compensate
// edge of the node.
func (p *Plan) Undoable(i int) bool {
	return slices.ContainsFunc(p.Out(i), func(e int) bool { return p.Edges[e].FromPort == CompensatePort })
}

// Barrier is a place where effects wait until people have approved all of them.
type Barrier struct {
	// ID is the name that its members state, or "" for the approval of one
	// node.
	ID string `json:"id,omitempty"`
	// Members index Plan.Nodes, sorted.
	Members []int `json:"members"`
	// Groups must all sign: for each role the largest number that a member asks
	// for, sorted by role. Without groups only the operator's rules apply.
	Groups []Group `json:"groups,omitempty"`
	// FollowUp is what follows while people have not approved: for all members together.
	FollowUp FollowUp `json:"follow_up,omitzero"`
	// ExpiresInMS is the shortest time that a member gives, in milliseconds after
	// the barrier opens; 0 is "not given", which means [DefaultExpiresInMS].
	ExpiresInMS int64 `json:"expires_in_ms,omitempty"`
	// Exclude lists the ids of persons who may not sign for any member, sorted.
	Exclude []string `json:"exclude,omitempty"`
}

// DefaultExpiresInMS is how long people are asked where a plan does not say: seven days.
const DefaultExpiresInMS = 7 * 24 * 60 * 60 * 1000

// Group asks for the signatures of Min persons who hold a role.
type Group struct {
	Role string `json:"role"`
	Min  int    `json:"min"`
}

// Verify calls a node to find out whether an effect happened.
type Verify struct {
	// Node indexes Plan.Nodes; the node is marked Called.
	Node int `json:"node"`
	// With is the JSON template of its input, over the args and output of the
	// effect, its error and the plan's input. Output is null while the outcome is
	// unknown, error where there is none.
	With json.RawMessage `json:"with"`
	// Executed is a predicate in CEL over its output: the effect happened.
	Executed string `json:"executed"`
	// Output is a JSON template over its output that gives what the effect
	// returned, or nil.
	Output json.RawMessage `json:"output,omitempty"`
}

// Cost is what a call costs.
type Cost struct {
	// Amount is a decimal number as it was written, or "".
	Amount string `json:"amount,omitempty"`
	// Expr is CEL that gives a number from 0 on, or the text of one, where Amount is
	// "". It reads the resolved input of the call (args), in an estimate the plan's
	// input too, and with FromOutput the output.
	Expr string `json:"expr,omitempty"`
	// Currency is an ISO 4217 code.
	Currency string `json:"currency"`
	// FromOutput: Expr gives the actual cost, after the call.
	FromOutput bool `json:"from_output,omitempty"`
}

// ForEach runs a node once for each element of a list.
type ForEach struct {
	// Port is the input port that takes one element at a time.
	Port string `json:"port"`
	// MaxParallel is the largest number of elements in flight.
	MaxParallel int `json:"max_parallel"`
	// MaxItems is the longest list that is accepted.
	MaxItems int `json:"max_items"`
}

// Taint is what is tainted in one call with an effect.
type Taint struct {
	// Ports are the tainted input ports, sorted. "$" alone means that a part of
	// the input without a port of its own is tainted.
	Ports []string `json:"ports,omitempty"`
	// Decision reports that whether the call is made depends on something
	// tainted.
	Decision bool `json:"decision,omitempty"`
	// Accepted reports that the operator's bundle accepts both without an
	// approval.
	Accepted bool `json:"accepted,omitempty"`
	// InputPorts and InputDecision are what else is tainted where nobody vouches for the
	// plan's input.
	InputPorts    []string `json:"input_ports,omitempty"`
	InputDecision bool     `json:"input_decision,omitempty"`
}

// Any reports whether an argument or the decision is tainted.
func (t *Taint) Any() bool { return t != nil && (t.Decision || len(t.Ports) > 0) }

// Marks says what is tainted in a plan.
type Marks struct {
	// Nodes and Edges correspond to those of the plan. A node's mark is about
	// what it returns and whether it runs, an edge's about what it brings and
	// whether it is delivered.
	Nodes, Edges []Mark
}

// Mark says whether the value and the decision of a node or an edge are tainted.
type Mark struct{ Value, Decision bool }

// IsPerson reports whether a text is the id of a person: 1 to 256 small letters, digits and the
// signs . _ @ -, so that one person has one. Names for people to read identify nobody.
func IsPerson(s string) bool {
	return s != "" && len(s) <= 256 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789._@-") == ""
}
