package activities

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// assemble builds the input of a node from delivered edges and with, and
// validates it.
func (n *node) assemble(call *contract.Call) (json.RawMessage, error) {
	return n.assembleWith(call, "")
}

// assembleWith is like assemble, and fills the port of the idempotency key, if the node has
// one that nothing else fills.
func (n *node) assembleWith(call *contract.Call, key string) (json.RawMessage, error) {
	if n.err != nil {
		return nil, n.err
	}
	vars := expr.Vars{}
	if n.spec.ReadsInput {
		input, err := decode(call.Input, "the plan's input")
		if err != nil {
			return nil, err
		}
		vars["input"] = input
	}
	ports := map[string]any{}
	for i := range call.Deliveries {
		d := &call.Deliveries[i]
		v, err := n.arrive(d, vars)
		if err != nil {
			return nil, err
		}
		// [plan.Progress] has decided which of several is the value.
		port := n.plan.Edges[d.Edge].ToPort
		if has(ports, port) {
			return nil, contract.Errorf(contract.Contract, "edge %d brings a second value to port %s of %s", d.Edge, port, n.spec.ID)
		}
		ports[port] = v
	}
	for _, w := range n.with {
		if has(ports, w.name) {
			continue
		}
		v, err := w.template.Eval(vars)
		if err != nil {
			return nil, contract.Errorf(contract.Expr, "with.%s: %w", w.name, err)
		}
		ports[w.name] = v
	}
	var input any = ports
	if whole, ok := ports[plan.WholePort]; ok {
		input = whole
	}
	if port := n.spec.IdempotencyPort; port != "" {
		var ok bool
		if input, ok = keyed(input, port, key); !ok {
			return nil, contract.Errorf(contract.Contract, "the input of %s is no object, and cannot take an idempotency key", n.spec.ID)
		}
	}
	if err := n.validate(n.input, input, contract.Contract, "the input of "+n.spec.ID); err != nil {
		return nil, err
	}
	raw, err := plan.Canonical(input)
	if err != nil {
		return nil, contract.Errorf(contract.Contract, "the input of %s: %w", n.spec.ID, err)
	}
	return raw, nil
}

// keyed returns an object with an idempotency key at a port. What came there could be the key
// of another effect.
func keyed(input any, port, key string) (any, bool) {
	object, ok := input.(map[string]any)
	if !ok {
		return nil, false
	}
	object = maps.Clone(object)
	object[port] = key
	return object, true
}

// arrive returns the value that a delivered edge brings to its port.
func (n *node) arrive(d *contract.Delivery, vars expr.Vars) (any, error) {
	at, ok := slices.BinarySearch(n.plan.In(n.index), d.Edge) // in plan order
	if !ok || !n.plan.Edges[d.Edge].Carries() {
		return nil, contract.Errorf(contract.Contract, "edge %d brings no value to %s", d.Edge, n.spec.ID)
	}
	edge := n.plan.EdgeString(d.Edge)
	if n.plan.Edges[d.Edge].FromPort == plan.CompensatePort {
		return n.undoing(at, d, vars, edge)
	}
	raw := d.Value
	if d.Error != nil {
		var err error
		if raw, err = json.Marshal(d.Error); err != nil {
			return nil, fmt.Errorf("write the error payload: %w", err)
		}
	}
	value, err := decode(raw, "the value of "+edge)
	if err != nil {
		return nil, err
	}
	t := n.transforms[at]
	if t == nil {
		return value, nil
	}
	scope := expr.Vars{"value": value, "input": vars["input"]}
	if n.plan.Edges[d.Edge].Type == plan.Error {
		scope["error"] = value
	}
	if n.plan.Edges[d.Edge].ReadsOutput {
		if scope["output"], err = decode(d.Output, "the output behind "+edge); err != nil {
			return nil, err
		}
	}
	v, err := t.Eval(scope)
	if err != nil {
		return nil, contract.Errorf(contract.Expr, "transform of %s: %w", edge, err)
	}
	return v, nil
}

func has(ports map[string]any, name string) bool {
	_, ok := ports[name]
	return ok
}

func decode(raw json.RawMessage, what string) (any, error) {
	v, err := schemas.Decode(raw)
	if err != nil {
		return nil, contract.Errorf(contract.Contract, "%s: %w", what, err)
	}
	return v, nil
}

// outcome resolves the node's outgoing edges against its output, and picks the
// values that they carry. input is the plan's input, for predicates that read it.
func (n *node) outcome(output, input any) (contract.Outcome, error) {
	var out contract.Outcome
	for _, port := range n.spec.OutPorts {
		v, ok := plan.PortValue(output, port)
		if !ok {
			out.Values = append(out.Values, nil)
			continue
		}
		raw, err := plan.Canonical(v)
		if err != nil {
			return out, contract.Errorf(contract.InvalidOutput, "port %s of %s: %w", port, n.spec.ID, err)
		}
		out.Values = append(out.Values, raw)
	}
	held, err := n.route(output, input)
	out.Held = held
	return out, err
}

// route returns which of the node's edges are delivered after a success.
func (n *node) route(output, input any) ([]bool, error) {
	var held, otherwise []bool
	matched := false
	for i, e := range n.plan.Out(n.index) {
		edge := &n.plan.Edges[e]
		if edge.Type == plan.Error {
			continue
		}
		value, present := plan.PortValue(output, edge.FromPort)
		ok := present
		switch {
		case edge.Type == plan.Conditional && edge.Otherwise:
		case edge.Type == plan.Conditional && present:
			var err error
			if ok, err = n.holds(i, e, value, output, input); err != nil {
				return nil, err
			}
			matched = matched || ok
		}
		held = append(held, ok)
		otherwise = append(otherwise, edge.Otherwise)
	}
	for i := range held {
		if otherwise[i] {
			held[i] = held[i] && !matched
		}
	}
	return held, nil
}

// holds evaluates the predicate of a conditional edge.
func (n *node) holds(i, e int, value, output, input any) (bool, error) {
	if n.predicates[i] == nil {
		ok, isBool := value.(bool)
		if !isBool {
			return false, contract.Errorf(contract.Expr, "edge %s has no when, so its value must be true or false, and it is %T",
				n.plan.EdgeString(e), value)
		}
		return ok, nil
	}
	ok, err := n.predicates[i].EvalBool(expr.Vars{"value": value, "output": output, "input": input})
	if err != nil {
		return false, contract.Errorf(contract.Expr, "when of %s: %w", n.plan.EdgeString(e), err)
	}
	return ok, nil
}

func (n *node) routeError(request *contract.RouteRequest) ([]bool, error) {
	if n.err != nil {
		return nil, n.err
	}
	raw, err := json.Marshal(request.Error)
	if err != nil {
		return nil, fmt.Errorf("write the error payload: %w", err)
	}
	payload, err := decode(raw, "the error payload")
	if err != nil {
		return nil, err
	}
	vars := expr.Vars{"error": payload}
	if n.spec.RoutesOnInput {
		if vars["input"], err = decode(request.Input, "the plan's input"); err != nil {
			return nil, err
		}
	}
	var held []bool
	for i, e := range n.plan.Out(n.index) {
		if n.plan.Edges[e].Type != plan.Error {
			continue
		}
		ok := true
		if n.predicates[i] != nil {
			if ok, err = n.predicates[i].EvalBool(vars); err != nil {
				return nil, contract.Errorf(contract.Expr, "when of %s: %w", n.plan.EdgeString(e), err)
			}
		}
		held = append(held, ok)
	}
	return held, nil
}

// undoing returns the value that a compensate edge brings.
func (n *node) undoing(at int, d *contract.Delivery, vars expr.Vars, edge string) (any, error) {
	given := expr.Vars{"input": vars["input"], "output": nil, "error": nil}
	var err error
	if given["args"], err = decode(d.Args, "the arguments of "+edge); err != nil {
		return nil, err
	}
	if d.Output != nil {
		if given["output"], err = decode(d.Output, "the output of "+edge); err != nil {
			return nil, err
		}
	}
	if d.Error != nil {
		raw, err := json.Marshal(d.Error)
		if err == nil {
			given["error"], err = decode(raw, "the error of "+edge)
		}
		if err != nil {
			return nil, err
		}
	}
	t := n.transforms[at]
	if t == nil {
		return nil, contract.Errorf(contract.Contract, "the compensate edge %s has no transform", edge)
	}
	v, err := t.Eval(given)
	if err != nil {
		return nil, contract.Errorf(contract.Expr, "the transform of %s: %w", edge, err)
	}
	return v, nil
}
