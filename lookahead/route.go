package lookahead

import (
	"encoding/json"
	"slices"

	"chimera.ai/engine/expr"
	"chimera.ai/engine/plan"
)

// route finds out which edges out of a node are delivered, if it runs. A node of which a condition cannot
// be evaluated fails.
func (f *follower) route(i int) {
	out := &f.nodes[i]
	matched, fault := no, ""
	var doubt []Gap
	for _, e := range f.plan.Out(i) {
		edge := &f.plan.Edges[e]
		if edge.Type != plan.Conditional || edge.Otherwise {
			continue
		}
		x := f.holds(e)
		f.edges[e] = x
		matched = max(matched, x.held)
		doubt = append(doubt, x.gaps...)
		if x.fault != "" {
			fault = said(x.fault, "the condition of "+f.plan.EdgeString(e))
		}
	}
	if fault != "" {
		out.fails, out.fault = yes, fault
	}
	for _, e := range f.plan.Out(i) {
		edge, x := &f.plan.Edges[e], &f.edges[e]
		switch {
		case edge.FromPort == plan.CompensatePort:
			x.held = no
			continue
		case edge.Type == plan.Error:
			f.fails(e)
			continue
		case edge.Type == plan.Conditional && edge.Otherwise:
			if *x = f.present(e); matched != no {
				x.held, x.gaps = min(x.held, yes-matched), append(x.gaps, doubt...)
			}
		case edge.Type != plan.Conditional:
			*x = f.present(e)
		}
		if x.gaps = sorted(x.gaps); out.fails == yes {
			x.held = no
		}
	}
}

// fails finds out whether an error edge is delivered. Nobody knows with which error its source fails.
func (f *follower) fails(e int) {
	from, x := f.plan.Edges[e].From, &f.edges[e]
	if x.held = f.nodes[from].fails; x.held == yes && f.plan.Edges[e].When != "" {
		x.held = maybe
	}
	if x.held == maybe {
		x.gaps = []Gap{{Node: f.plan.Nodes[from].ID, Failed: true}}
	}
}

// present says whether the port that an edge reads has a value.
func (f *follower) present(e int) edge {
	from, port := f.plan.Edges[e].From, f.plan.Edges[e].FromPort
	n, out := &f.plan.Nodes[from], &f.nodes[from]
	if port == plan.DonePort || port == plan.WholePort {
		return edge{held: yes}
	}
	if out.whole.known() {
		if _, there := plan.PortValue(out.whole.v, port); !there {
			return edge{held: no}
		}
		return edge{held: yes}
	}
	if _, there := out.ports[port]; there || f.certain(n, port) {
		return edge{held: yes}
	}
	if _, assumed := f.assumed[n.ID]; n.Activity() == passing && !assumed && out.in.ports != nil {
		_, lacks := out.in.lacking[port]
		switch {
		case out.in.sure[port]:
			return edge{held: yes}
		case !lacks:
			return edge{held: no} // nothing arrives there
		}
	}
	return edge{held: maybe, gaps: f.lacks(from, port).gaps}
}

// certain reports that what a node returns has a port for sure, by its schema.
func (f *follower) certain(n *plan.Node, port string) bool {
	if n.OutputSchema < 0 {
		return false
	}
	var s struct {
		Type     any      `json:"type"`
		Required []string `json:"required"`
	}
	if json.Unmarshal(f.plan.Schemas[n.OutputSchema].Schema, &s) != nil {
		return false
	}
	return s.Type == any("object") && slices.Contains(s.Required, port)
}

// holds says whether a conditional edge is delivered.
func (f *follower) holds(e int) edge {
	spec := &f.plan.Edges[e]
	there := f.present(e)
	if there.held == no {
		return there
	}
	v := f.port(spec.From, spec.FromPort)
	if spec.FromPort == plan.DonePort {
		v = value{}
	}
	if spec.When == "" {
		if !v.known() {
			return edge{held: maybe, gaps: v.gaps}
		}
		is, ok := v.v.(bool)
		if !ok {
			return edge{held: no, fault: "the value is neither true nor false"}
		}
		return held(is)
	}
	p, err := expr.CompilePredicate(spec.When, expr.When)
	if err != nil {
		return edge{held: no, fault: err.Error()}
	}
	vars := expr.Vars{"input": f.input, "value": nil, "output": nil}
	gaps := slices.Clone(there.gaps)
	if p.Reads("value") {
		vars["value"], gaps = v.v, append(gaps, v.gaps...)
	}
	if p.Reads("output") {
		whole := f.nodes[spec.From].whole
		vars["output"], gaps = whole.v, append(gaps, whole.gaps...)
	}
	if len(gaps) > 0 {
		return edge{held: maybe, gaps: gaps}
	}
	is, err := p.EvalBool(vars)
	if err != nil {
		return edge{held: no, fault: err.Error()}
	}
	return held(is)
}

func held(is bool) edge {
	if is {
		return edge{held: yes}
	}
	return edge{held: no}
}
