package plan

// Exhausted says what follows the last visit of a loop that would continue.
type Exhausted string

// The ways on.
const (
	// Fail ends the run with kind loop_exhausted.
	Fail Exhausted = "fail"
	// Continue continues with the outputs of the last visit.
	Continue Exhausted = "continue"
)

// Loop is one natural loop: edges from outside enter one node, and all edges
// that go back to it leave one node. No loop lies inside another.
type Loop struct {
	// Header and Latch index Plan.Nodes: where a visit begins and ends. They may
	// be the same node.
	Header int `json:"header"`
	Latch  int `json:"latch"`
	// Body indexes Plan.Nodes, sorted; header and latch are in it.
	Body []int `json:"body"`
	// Back indexes Plan.Edges, sorted: the conditional edges from latch to header.
	Back []int `json:"back"`
	// MaxIterations is the largest number of visits in one run.
	MaxIterations int       `json:"max_iterations"`
	OnExhausted   Exhausted `json:"on_exhausted"`
}
