package activities

import (
	"errors"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/plan"
)

// choice returns what calls a node in a role, or an error if the role may not call
// it.
type choice func(*plan.Node) (Caller, error)

// errWrongQueue reports a node that workers of another queue call.
var errWrongQueue = errors.New("this worker calls in-process skills only")

// ours reports whether the engine itself performs a node, without a tool.
func ours(n *plan.Node) bool { return n.InProcess || n.Kind == plan.KindOutput }

// inProcess is the choice of a role that has no tools.
func inProcess(skills Caller) choice {
	return func(n *plan.Node) (Caller, error) {
		if !ours(n) {
			return nil, contract.Errorf(contract.Contract, "%s is not in-process: the engine's role does not call it", n.Activity())
		}
		return skills, nil
	}
}

// either is the choice on the engine's queue. Without the role of tools it refers
// the run to their queue.
func either(skills, tools Caller) choice {
	return func(n *plan.Node) (Caller, error) {
		switch {
		case ours(n):
			return skills, nil
		case tools == nil:
			return nil, errWrongQueue
		}
		return tools, nil
	}
}

// outside is the choice of the role of tools.
func outside(tools Caller) choice {
	return func(n *plan.Node) (Caller, error) {
		if ours(n) {
			return nil, contract.Errorf(contract.Contract, "%s is in-process: the role of tools does not run it", n.Activity())
		}
		return tools, nil
	}
}
