package sagas

import (
	"encoding/json"
	"fmt"
)

// Op is what a node calls.
type Op string

// The operations.
const (
	// Write has an effect, and Erase undoes it.
	Write Op = "book/write"
	Erase Op = "book/erase"
	// Note has no effect, but is written down.
	Note Op = "book/note"
	Pass Op = "engine/pass"
	Fail Op = "engine/fail"
)

// Does is what the tool does when it is called.
type Does string

// What the tool does.
const (
	OK Does = "ok"
	// Refuse fails without the effect, Tear after it, and Garble has it and answers no JSON.
	Refuse Does = "refuse"
	Tear   Does = "tear"
	Garble Does = "garble"
	// Vanish dies without an answer and without the effect; Lose has it first. Once is Vanish
	// at the first call, and OK then.
	Vanish Does = "vanish"
	Lose   Does = "lose"
	Once   Does = "once"
	// Dies kills the worker before the effect, at the first call only, and Died after it.
	Dies Does = "dies"
	Died Does = "died"
	// Pretend answers as if it had had the effect.
	Pretend Does = "pretend"
	// Rejected is refused by the policy, and never called.
	Rejected Does = "rejected by the policy"
)

// Verify is whether an effect can be verified.
type Verify string

// What a verification does.
const (
	Never  Verify = "" // there is none
	Truth  Verify = "ok"
	Broken Verify = "refuse"
)

// Node is one node: of the plan, or of the block that undoes one.
type Node struct {
	ID     string
	Op     Op
	Does   Does
	Verify Verify
	// Retries of a call that provably did nothing.
	Retries int
	// Needs are nodes that must have succeeded before, and Page is one of them, whose page
	// it takes, or "". Rescues is a node by whose failure of the kind From it is started, or "".
	Needs   []string
	Page    string
	Rescues string
	From    state
	// Undo is the block that undoes it, or nil. Its nodes without Needs and Rescues have
	// edges from the node: of its arguments always, and of the page that it returned if
	// Reads; Must says that this one is required.
	Undo        []*Node
	Reads, Must bool
}

// head reports whether a node of a block starts with the block.
func (n *Node) head() bool { return len(n.Needs) == 0 && n.Rescues == "" }

// Plan is a plan with effects, and what befalls its run.
type Plan struct {
	Seed       uint64
	Nodes      []*Node
	Parallel   int
	DeadlineMS int64
	// TimeoutMS is that of calls.
	TimeoutMS int
	// CancelAt is how many lines the journal has when the run is cancelled, and is negative
	// if it is not. It is cancelled once more when there are CancelAgain.
	CancelAt, CancelAgain int
}

// Run names the run of the plan.
func (p *Plan) Run() string { return fmt.Sprintf("s%d", p.Seed) }

type object = map[string]any

// Source writes the plan as JSON.
func (p *Plan) Source() (string, error) {
	looks := object{} // the nodes that verify, by what they do
	var nodes, edges []any
	add := func(n *Node, of string) {
		o := object{"id": n.ID, "template": string(n.Op)}
		nodes = append(nodes, o)
		switch n.Op {
		case Pass:
			return
		case Fail:
			o["with"] = object{"message": "it ends here"}
			return
		}
		with := object{"run": p.Run(), "does": string(n.Does)}
		o["with"], o["timeout_ms"] = with, p.TimeoutMS
		if of == "" {
			with["id"] = n.ID
		} else {
			with["step"] = n.ID
			if !n.head() {
				with["id"] = of
			}
		}
		if n.Op == Note {
			return
		}
		policy := object{}
		o["commit_policy"], o["retry_policy"] = policy, object{"max_retries": n.Retries, "on": []string{"unsent"}, "initial_ms": 1}
		if n.Verify != Never {
			id := "look-" + string(n.Verify)
			looks[id] = object{"id": id, "template": "book/look", "timeout_ms": p.TimeoutMS}
			asks := object{"run": p.Run(), "id": "${args.id}", "does": string(n.Verify)}
			if of != "" {
				asks["step"] = n.ID
			}
			verify := object{"node": id, "with": asks, "executed": "output.there", "output": object{"page": 8}}
			policy["verify"] = verify
		}
		if len(n.Undo) == 0 {
			policy["rollback"] = object{"none": "it may stay"}
		}
	}
	edge := func(from, port, to, at, kind string, required bool, more object) {
		o := object{"from_node": from, "from_port": port, "to_node": to, "to_port": at, "edge_type": kind, "required": required}
		for k, v := range more {
			o[k] = v
		}
		edges = append(edges, o)
	}
	connect := func(n *Node) {
		for _, from := range n.Needs {
			if from == n.Page {
				edge(from, "page", n.ID, "page", "data", true, nil)
			} else {
				edge(from, "$done", n.ID, "$start", "control", true, nil)
			}
		}
		if n.Rescues != "" {
			edge(n.Rescues, "$error", n.ID, "$start", "error", true, object{"when": fmt.Sprintf("error.kind == '%s'", n.From)})
		}
	}
	for _, n := range p.Nodes {
		add(n, "")
		connect(n)
		if n.head() && n.Op == Write {
			// An effect has an edge that is required.
			edge("$input", "run", n.ID, "run", "data", true, nil)
		}
		for _, u := range n.Undo {
			add(u, n.ID)
			connect(u)
			if !u.head() {
				continue
			}
			edge(n.ID, "$compensate", u.ID, "id", "error", true, object{"transform": "${args.id}"})
			if u.Reads {
				edge(n.ID, "$compensate", u.ID, "page", "error", u.Must, object{"transform": "${output.page}"})
			}
		}
	}
	for _, v := range []Verify{Truth, Broken} {
		if look, ok := looks["look-"+string(v)]; ok {
			nodes = append(nodes, look)
		}
	}
	limits := object{}
	if p.Parallel > 0 {
		limits["max_parallel"] = p.Parallel
	}
	if p.DeadlineMS > 0 {
		limits["deadline_ms"] = p.DeadlineMS
	}
	document := object{
		"apiVersion": "chimera/v1", "kind": "Plan", "name": p.Run(), "version": "1.0.0", "agent": "tester", "allow": []string{"pure", "committing"},
		"input_schema": object{"type": "object", "properties": object{"run": object{"type": "string"}}, "required": []string{"run"}}, "output_schema": object{"type": "object"}, "nodes": nodes, "edges": edges,
	}
	if len(limits) > 0 {
		document["limits"] = limits
	}
	raw, err := json.Marshal(document)
	return string(raw), err
}
