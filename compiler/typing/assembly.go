package typing

import (
	"cmp"
	"encoding/json"
	"slices"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// assembly is what can arrive at the ports of a node. Together they make a closed
// object, which always has the ports in certain.
type assembly struct {
	ports   []string
	types   map[string]*schemas.Schema
	certain []string
	// edges are those that bring a value.
	edges []*Edge
	// checked reports that the run checks the value of some edge.
	checked bool
	// some reports that at least one port has a value, although no single one
	// is certain.
	some bool
	// exact reports that each port has a source of its own, so that every
	// combination of their values can occur.
	exact bool
}

// assemble returns what can arrive at a node. ok is false if part of it is not
// known or has been reported.
func (check *checker) assemble(doc *Document, i int) (a assembly, ok bool) {
	n := doc.Nodes[i]
	a = assembly{types: map[string]*schemas.Schema{}, exact: true}
	sources := map[int]bool{}
	others := false
	for _, at := range doc.In[i] {
		e := doc.Edges[at]
		if !e.Carries() {
			others = true
			continue
		}
		if e.failed {
			return a, false
		}
		a.edges = append(a.edges, e)
		a.checked = a.checked || e.Check != nil
		a.exact = a.exact && !sources[e.From] && e.Transform == nil
		sources[e.From] = true
		a.types[e.ToPort] = check.prover.Either(a.types[e.ToPort], check.perCall(n, e.ToPort, e.brings))
		if e.Required && !doc.Back[at] && !slices.Contains(a.certain, e.ToPort) {
			a.certain = append(a.certain, e.ToPort)
		}
	}
	edges := len(a.types)
	for _, f := range n.Fills {
		if f.failed {
			return a, false
		}
		a.exact = a.exact && f.Template.Constant()
		if !slices.Contains(a.certain, f.Port) {
			a.types[f.Port] = check.prover.Either(a.types[f.Port], check.perCall(n, f.Port, f.brings))
			a.certain = append(a.certain, f.Port)
		}
	}
	if p := n.KeyPort(); p != "" && a.types[plan.WholePort] == nil {
		a.types[p] = check.keys()
		a.certain = append(a.certain, p)
	}
	for _, p := range doc.Needs(i) {
		if a.types[p] == nil {
			// Nothing fills the port, which is reported elsewhere.
			return a, false
		}
		if !slices.Contains(a.certain, p) {
			a.certain = append(a.certain, p)
		}
	}
	a.ports = sortedKeys(a.types)
	slices.Sort(a.certain)
	a.some = len(a.certain) == 0 && edges > 0 && !others && n.Kind == plan.KindCall
	return a, true
}

// fixed returns the one object that constants make, if nothing else fills a port.
func (a *assembly) fixed(n *Node) (map[string]any, bool) {
	v := map[string]any{}
	if len(a.edges) > 0 || n.ForEach != nil {
		return nil, false
	}
	for _, f := range n.Fills {
		if !f.Template.Constant() {
			return nil, false
		}
		v[f.Port] = f.Template.Fixed()
	}
	if p := n.KeyPort(); p != "" {
		v[p] = aKey
	}
	return v, true
}

// aKey is an idempotency key as runs make them.
const aKey = "0123456789abcdef0123456789abcdef"

// keys returns the compiled schema of idempotency keys.
func (check *checker) keys() *schemas.Schema {
	if check.key == nil {
		check.key = cmp.Or(check.pool.Compiled(map[string]any{"type": "string", "pattern": "^[0-9a-f]{32}$", "minLength": json.Number("32"), "maxLength": json.Number("32")}), check.prover.Whole)
	}
	return check.key
}

// perCall is the schema of what one call of the node gets at a port that is given
// s: an element if for_each names the port.
func (check *checker) perCall(n *Node, port string, s *schemas.Schema) *schemas.Schema {
	if n.splits(port) {
		return check.prover.Element(s)
	}
	return s
}

// object is the schema of the objects that ports of those types make.
func (check *checker) object(a *assembly, types map[string]*schemas.Schema) *schemas.Schema {
	k := schemas.Keywords{Types: []string{"object"}, Properties: types, Required: a.certain, Rest: schemas.False()}
	if a.some {
		for _, p := range a.ports {
			k.Any = append(k.Any, check.prover.Having(p))
		}
	}
	return schemas.Make(k)
}
