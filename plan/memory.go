package plan

import "reflect"

var (
	nodeBytes  = int(reflect.TypeFor[Node]().Size())
	edgeBytes  = int(reflect.TypeFor[Edge]().Size())
	indexBytes = 6 * 8 // an edge's place in each list of the index
	listBytes  = 2 * 24
)

// Memory is about how many bytes a decoded plan holds, whose canonical bytes are
// as many as encoded, and that are not counted. It is measured, and rather too much
// than too little.
func (p *Plan) Memory(encoded int) int {
	// Texts are about as long as in the encoding, but each begins anew; names of
	// fields fall away.
	return encoded*2/3 + cap(p.Nodes)*(nodeBytes+listBytes) + cap(p.Edges)*(edgeBytes+indexBytes)
}
