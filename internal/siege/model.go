package siege

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/plan"
)

// Fate is what becomes of a node if nothing cuts the run short.
type Fate string

// The fates.
const (
	Succeeds Fate = "succeeded"
	Fails    Fate = "failed"
	Skipped  Fate = "skipped"
	// Lasts: the node itself, or something that decides it, does not end.
	Lasts Fate = "lasts"
)

// Failure is how a node fails.
type Failure struct {
	Kind string
	// Message is known where it is the plan's own.
	Message  string
	Attempts int
	Details  any
}

// Destiny is what the model knows of a node.
type Destiny struct {
	Fate Fate
	// In and Out are digests, as the ledger has them.
	In, Out string
	output  map[string]any
	Failure *Failure
}

// Model is how a run of a plan must go.
type Model struct {
	Plan  *Plan
	Nodes map[string]*Destiny
	// Output is the run's output and Digest its digest, where the run can succeed.
	Output any
	Digest string
	// Complete: every node is decided in the end, so the run does not last for ever.
	Complete bool
	// Fatal has the nodes whose failure may be the first that nobody handles.
	Fatal map[string]bool
	// doomed nodes cannot be called: a failure before them ends the run at once.
	doomed map[string]bool

	in, out map[string][]*Edge
	// held says which edges are delivered; one that is not there is not decided.
	held map[*Edge]bool
}

// Foresee works out how a run of the plan must go. The plan has no loops.
func Foresee(p *Plan) (*Model, error) {
	m := &Model{
		Plan: p, Nodes: map[string]*Destiny{}, Fatal: map[string]bool{}, doomed: map[string]bool{},
		in: map[string][]*Edge{}, out: map[string][]*Edge{}, held: map[*Edge]bool{},
	}
	for _, e := range p.Edges {
		m.in[e.To] = append(m.in[e.To], e)
		m.out[e.From] = append(m.out[e.From], e)
	}
	order, err := m.order()
	if err != nil {
		return nil, err
	}
	m.leave(input, &Destiny{Fate: Succeeds, output: p.Input})
	m.Complete = true
	for _, n := range order {
		d, err := m.decide(n)
		if err != nil {
			return nil, fmt.Errorf("node %s: %w", n.ID, err)
		}
		m.Nodes[n.ID] = d
		m.Complete = m.Complete && d.Fate != Lasts
		m.leave(n.ID, d)
	}
	m.judge(order)
	if m.Complete && len(m.Fatal) == 0 {
		m.Output = m.gather(output, nil)
		m.Digest, err = digest(m.Output)
	}
	return m, err
}

// order gives the nodes so that each comes after all that leads to it.
func (m *Model) order() ([]*Node, error) {
	waits := map[string]int{}
	byID := map[string]*Node{}
	for _, n := range m.Plan.Nodes {
		byID[n.ID] = n
		for _, e := range m.in[n.ID] {
			if e.From != input {
				waits[n.ID]++
			}
		}
	}
	var order []*Node
	for _, n := range m.Plan.Nodes {
		if waits[n.ID] == 0 {
			order = append(order, n)
		}
	}
	for i := 0; i < len(order); i++ {
		for _, e := range m.out[order[i].ID] {
			if e.To == output {
				continue
			}
			if waits[e.To]--; waits[e.To] == 0 {
				order = append(order, byID[e.To])
			}
		}
	}
	if len(order) != len(m.Plan.Nodes) {
		return nil, fmt.Errorf("%d of %d nodes are in a loop", len(m.Plan.Nodes)-len(order), len(m.Plan.Nodes))
	}
	return order, nil
}

// decide applies the run rule: a node is decided once all its edges are; it runs
// if every required edge was delivered, every required port has a value, and one
// edge was delivered where it has edges.
func (m *Model) decide(n *Node) (*Destiny, error) {
	edges := m.in[n.ID]
	delivered := len(edges) == 0
	for _, e := range edges {
		held, decided := m.held[e]
		if !decided {
			return &Destiny{Fate: Lasts}, nil
		}
		delivered = delivered || held
	}
	for _, e := range edges {
		if e.Required && !m.held[e] {
			return &Destiny{Fate: Skipped}, nil
		}
	}
	in := m.gather(n.ID, n.With)
	if !delivered || !m.filled(n, in) {
		return &Destiny{Fate: Skipped}, nil
	}
	return n.call(in)
}

// gather fills the ports of a node: the first delivered edge in the order of the
// file, else with.
func (m *Model) gather(id string, with map[string]any) map[string]any {
	in := map[string]any{}
	for _, e := range m.in[id] {
		if _, taken := in[e.ToPort]; taken || !e.carries() || !m.held[e] {
			continue
		}
		in[e.ToPort] = m.value(e)
	}
	for port, v := range with {
		if _, taken := in[port]; !taken {
			in[port] = v
		}
	}
	return in
}

// filled reports whether what a Pass requires is there: ports x and n, where
// anything at all can fill them. The other operations get all by with.
func (m *Model) filled(n *Node, in map[string]any) bool {
	if n.Op != Pass {
		return true
	}
	for _, port := range []string{"x", "n"} {
		_, wanted := n.With[port]
		wanted = wanted || slices.ContainsFunc(m.in[n.ID], func(e *Edge) bool { return e.ToPort == port })
		if _, ok := in[port]; wanted && !ok {
			return false
		}
	}
	return true
}

// value is what a delivered edge brings.
func (m *Model) value(e *Edge) any {
	if e.From == input {
		return m.Plan.Input[e.FromPort]
	}
	d := m.Nodes[e.From]
	if e.Type == "error" {
		if e.Kind {
			return d.Failure.Kind
		}
		return map[string]any{
			"kind": d.Failure.Kind, "message": d.Failure.Message, "node": e.From,
			"attempts": json.Number(fmt.Sprint(d.Failure.Attempts)), "details": d.Failure.Details,
		}
	}
	return d.output[e.FromPort]
}

// leave decides the edges that leave a node.
func (m *Model) leave(id string, d *Destiny) {
	if d.Fate == Lasts {
		return
	}
	matched := false
	for _, e := range m.out[id] {
		held := false
		switch {
		case e.Type == "error":
			held = d.Fate == Fails && (e.Holds == nil || e.Holds(Facts{Input: m.Plan.Input, Error: d.Failure}))
		case d.Fate != Succeeds || e.When == Otherwise:
		case e.FromPort == "$done":
			held = e.Holds == nil || e.Holds(Facts{Input: m.Plan.Input})
		default:
			v, present := d.output[e.FromPort]
			held = present && (e.Holds == nil || e.Holds(Facts{Value: v, Input: m.Plan.Input}))
		}
		m.held[e] = held
		matched = matched || held && e.Type == "conditional"
	}
	for _, e := range m.out[id] {
		if e.When == Otherwise && e.Type == "conditional" {
			m.held[e] = d.Fate == Succeeds && !matched
		}
	}
}

// judge finds the failures that nobody handles: no target of a delivered error
// edge runs. What comes after one that is fatal at once is never called.
func (m *Model) judge(order []*Node) {
	for _, n := range order {
		for _, e := range m.in[n.ID] {
			if m.doomed[e.From] || m.atOnce(e.From) {
				m.doomed[n.ID] = true
			}
		}
		d := m.Nodes[n.ID]
		if d.Fate != Fails || m.doomed[n.ID] {
			continue
		}
		fatal := true
		for _, e := range m.out[n.ID] {
			if e.Type != "error" || !m.held[e] {
				continue
			}
			if e.To == output || m.Nodes[e.To].Fate != Skipped {
				fatal = false // it runs, or nobody will ever know
			}
		}
		if fatal {
			m.Fatal[n.ID] = true
		}
	}
}

// atOnce reports whether a failure is fatal when it happens.
func (m *Model) atOnce(id string) bool {
	d := m.Nodes[id]
	return d != nil && d.Fate == Fails && !slices.ContainsFunc(m.out[id], func(e *Edge) bool { return e.Type == "error" && m.held[e] })
}

// call is what a node's operation makes of its input.
func (n *Node) call(in map[string]any) (d *Destiny, err error) {
	d = &Destiny{Fate: Succeeds}
	if d.In, err = digest(in); err != nil {
		return nil, err
	}
	switch {
	case n.Never:
		return &Destiny{Fate: Lasts}, nil
	case n.Op == Pass:
		text, isText := in["x"].(string)
		if _, given := in["x"]; given && n.Longest > 0 && (!isText || len(text) > n.Longest) {
			return &Destiny{Fate: Fails, Failure: n.failure("invalid_output", "", nil)}, nil
		}
		d.output = in
	case n.Op == Fail:
		kind, _ := in["kind"].(string)
		if kind == "" {
			kind = "tool_error"
		}
		message, _ := in["message"].(string)
		return &Destiny{Fate: Fails, Failure: n.failure(kind, message, in["details"])}, nil
	case n.Op == Sleep:
		ms := integer(in["ms"])
		if ms > n.TimeoutMS {
			return &Destiny{Fate: Fails, Failure: n.failure("timeout", "", nil)}, nil
		}
		d.output = map[string]any{"slept_ms": in["ms"]}
	case n.Op == Grow:
		d.output = map[string]any{"x": strings.Repeat("g", int(integer(in["size"])))}
	default: // Blow succeeds in the end, Wait and Open always
		d.output = map[string]any{"x": in["key"]}
	}
	d.Out, err = digest(d.output)
	return d, err
}

// retryable are the kinds that a policy without a list retries; auth once only.
var retryable = []string{"unsent", "transport", "timeout", "throttled", "auth", "server_error"}

func (n *Node) failure(kind, message string, details any) *Failure {
	on := n.Retry.On
	if on == nil {
		on = retryable
	}
	attempts := 1
	if slices.Contains(on, kind) {
		attempts += n.Retry.Max
		if kind == "auth" {
			attempts = min(attempts, 2)
		}
	}
	return &Failure{Kind: kind, Message: message, Attempts: attempts, Details: details}
}

func integer(v any) int64 {
	n, _ := v.(json.Number)
	i, _ := n.Int64()
	return i
}

// digest is that of the value's canonical JSON, as the ledger has it.
func digest(v any) (string, error) {
	raw, err := plan.Canonical(v)
	if err != nil {
		return "", err
	}
	return plan.DigestOf(raw), nil
}
