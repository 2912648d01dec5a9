package plan

import "reflect"

var (
	nodeBytes  = int(reflect.TypeFor[Node]().Size())
	edgeBytes  = int(reflect.TypeFor[Edge]().Size())
	indexBytes = 6 * 8 // an edge's place in each list of the index
	listBytes  = 2 * 24
)

// Memory estimates the bytes that a decoded plan holds, without its canonical
// bytes, of which there are encoded. The estimate was measured, and errs on the
// high side.
func (p *Plan) Memory(encoded int) int {
	// Strings are about as long as in the encoding, but each is allocated;
	// names of fields are not held.
	return encoded*2/3 + cap(p.Nodes)*(nodeBytes+listBytes) + cap(p.Edges)*(edgeBytes+indexBytes)
}
