package lookahead

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/expr"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// input is what is known of the input of a node.
type input struct {
	whole value
	// ports are those that are known although the whole is not, and lacking those that are not.
	ports   map[string]any
	lacking map[string][]Gap
	// sure are the ports to which a value comes for sure, if the node runs.
	sure map[string]bool
	// depends are the edges on which it depends where the values come from.
	depends []string
	fault   string
}

// Key stands for the idempotency key of a call, which does not exist before the call.
const Key = "chimera-lookahead-0000000000000000000000000000000000000000"

// assemble builds the input of a node as a run does, as far as it is known.
func (f *follower) assemble(i int) *input {
	n := &f.plan.Nodes[i]
	in := &input{ports: map[string]any{}, lacking: map[string][]Gap{}, sure: map[string]bool{}}
	edges, sole := map[string][]int{}, 0 // edges that may be delivered, and how many of them there are
	for _, e := range f.plan.In(i) {
		if f.delivered(e) == no {
			continue
		}
		sole++
		if edge := &f.plan.Edges[e]; edge.Carries() {
			edges[edge.ToPort] = append(edges[edge.ToPort], e)
		}
	}
	for _, port := range slices.Sorted(maps.Keys(edges)) {
		f.arrive(in, port, edges[port], sole == 1)
	}
	for _, w := range n.With {
		_, there := in.ports[w.Port]
		if _, lacks := in.lacking[w.Port]; there || lacks || in.fault != "" {
			continue
		}
		v, fault := template(w.Template, expr.Vars{"input": f.input})
		in.ports[w.Port], in.sure[w.Port], in.fault = v, true, said(fault, "with."+w.Port)
	}
	if in.fault == "" {
		in.join(n)
	}
	return in
}

// join makes the whole of the ports.
func (in *input) join(n *plan.Node) {
	var all any = in.ports
	lacking := in.lacking
	if gaps, there := lacking[plan.WholePort]; there {
		lacking, in.ports = map[string][]Gap{plan.WholePort: gaps}, nil
	} else if whole, there := in.ports[plan.WholePort]; there {
		all, lacking = whole, nil
	}
	for _, port := range slices.Sorted(maps.Keys(lacking)) {
		in.whole.gaps = append(in.whole.gaps, lacking[port]...)
	}
	if in.whole.gaps = sorted(in.whole.gaps); !in.whole.known() {
		return
	}
	if port := n.IdempotencyPort; port != "" {
		object, ok := all.(map[string]any)
		if !ok {
			in.fault = "the input is no object, and cannot take an idempotency key"
			return
		}
		object = maps.Clone(object)
		object[port], all = Key, object
	}
	in.whole.v = all
}

// arrive adds the value of a port: that of the first of its edges that is delivered. Where it is not known
// which that is, the value is not known either. sole reports that there is no other edge into the node,
// which then runs only if this one is delivered.
func (f *follower) arrive(in *input, port string, edges []int, sole bool) {
	for _, e := range edges {
		if in.fault != "" {
			return
		}
		if f.delivered(e) == yes || f.plan.Edges[e].Required || sole {
			in.sure[port] = true
			if _, doubted := in.lacking[port]; doubted {
				return
			}
			var v value
			v, in.fault = f.brings(e)
			if v.known() {
				in.ports[port] = v.v
			} else {
				in.lacking[port] = v.gaps
			}
			return
		}
		in.lacking[port] = sorted(append(in.lacking[port], f.doubts(e)...))
		in.depends = append(in.depends, f.depends(e)...)
	}
}

// brings is the value that a delivered edge brings to its port.
func (f *follower) brings(e int) (value, string) {
	edge := &f.plan.Edges[e]
	if edge.Type == plan.Error {
		return value{gaps: []Gap{{Node: f.plan.Nodes[edge.From].ID, Failed: true}}}, ""
	}
	v := f.port(edge.From, edge.FromPort)
	if edge.Transform == nil {
		return v, ""
	}
	t, fault := compiled(edge.Transform, expr.Transform)
	if fault != "" {
		return v, said(fault, "the transform of "+f.plan.EdgeString(e))
	}
	vars := expr.Vars{"input": f.input, "value": nil, "output": nil}
	var gaps []Gap
	if t.Reads("value") {
		vars["value"], gaps = v.v, append(gaps, v.gaps...)
	}
	if t.Reads("output") {
		whole := f.nodes[edge.From].whole
		vars["output"], gaps = whole.v, append(gaps, whole.gaps...)
	}
	if len(gaps) > 0 {
		return value{gaps: sorted(gaps)}, ""
	}
	got, err := t.Eval(vars)
	if err != nil {
		return v, said(err.Error(), "the transform of "+f.plan.EdgeString(e))
	}
	return value{v: got}, ""
}

// port is the value of an output port, which is there if an edge from it is delivered.
func (f *follower) port(i int, port string) value {
	out := &f.nodes[i]
	switch {
	case port == plan.WholePort:
		return out.whole
	case out.whole.known():
		v, _ := plan.PortValue(out.whole.v, port)
		return value{v: v}
	}
	if v, ok := out.ports[port]; ok {
		return value{v: v}
	}
	return f.lacks(i, port)
}

// lacks is a port of which nothing is known. What engine/pass returns is what it takes.
func (f *follower) lacks(i int, port string) value {
	n, out := &f.plan.Nodes[i], &f.nodes[i]
	if _, assumed := f.assumed[n.ID]; n.Activity() == passing && !assumed {
		if gaps, there := out.in.lacking[port]; there {
			return value{gaps: gaps}
		}
		return value{gaps: out.whole.gaps}
	}
	return value{gaps: []Gap{{Node: n.ID, Port: port}}}
}

// misfit says why a value does not fit a schema of the plan, or returns "".
func (f *follower) misfit(schema int, v any, what string) string {
	s := f.schema(schema)
	if s == nil {
		return ""
	}
	if err := s.Validate(v); err != nil {
		return fmt.Sprintf("%s does not match its schema: %s", what, err)
	}
	return ""
}

func (f *follower) schema(i int) *schemas.Schema {
	if i < 0 {
		return nil
	}
	s, ok := f.schemas[i]
	if !ok {
		s, _ = schemas.Compile(f.plan.Schemas[i].Schema) // the compiler has compiled it
		f.schemas[i] = s
	}
	return s
}

func template(raw []byte, vars expr.Vars) (any, string) {
	t, fault := compiled(raw, expr.With)
	if fault != "" {
		return nil, fault
	}
	v, err := t.Eval(vars)
	if err != nil {
		return nil, err.Error()
	}
	return v, ""
}

func compiled(raw []byte, scope expr.Scope) (*expr.Template, string) {
	v, err := schemas.Decode(raw)
	if err != nil {
		return nil, err.Error()
	}
	t, bad := expr.CompileTemplate(v, scope)
	if len(bad) > 0 {
		return nil, bad[0].Message
	}
	return t, ""
}

// said says where a fault is, if there is one.
func said(fault, where string) string {
	if fault == "" {
		return ""
	}
	return where + ": " + fault
}

// sorted returns gaps, each once, in the order of their names; at most [MaxListed].
func sorted(gaps []Gap) []Gap {
	gaps = slices.Clone(gaps)
	slices.SortFunc(gaps, func(a, b Gap) int { return strings.Compare(a.String(), b.String()) })
	gaps = slices.Compact(gaps)
	return gaps[:min(len(gaps), MaxListed)]
}

// listed does the same with the names of edges.
func listed(names []string) []string {
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), MaxListed)]
}
