package contract

// NodeStates says how the nodes of a plan have ended according to a ledger: in plan
// order, a letter for each.
type NodeStates string

// The letters of [NodeStates].
const (
	letterSucceeded = 's'
	letterFailed    = 'f'
	letterSkipped   = 'k'
	letterDropped   = '-'
)

// Letters encodes the states in which nodes have ended. Any other state is that of
// a node without an outcome.
func Letters(states []NodeState) NodeStates {
	letters := make([]byte, len(states))
	for i, s := range states {
		switch s {
		case Succeeded:
			letters[i] = letterSucceeded
		case Failed:
			letters[i] = letterFailed
		case Skipped:
			letters[i] = letterSkipped
		default:
			letters[i] = letterDropped
		}
	}
	return NodeStates(letters)
}

// State returns the state of node i: Dropped if the ledger has no outcome of it.
func (s NodeStates) State(i int) NodeState {
	if i < 0 || i >= len(s) {
		return Dropped
	}
	switch s[i] {
	case letterSucceeded:
		return Succeeded
	case letterFailed:
		return Failed
	case letterSkipped:
		return Skipped
	}
	return Dropped
}
