package graph

import "chimera.ai/engine/internal/draw"

// wire combines the lines between two nodes that are drawn as one: those of one kind, in
// the same direction, under the same condition.
type wire struct {
	draw.Wire
	lines []int
}

// layoutOf places nodes of the given widths; label gives the width of a wire's label. The
// output, which is the last node, is at the bottom, wherever its last source is.
func layoutOf(lines []line, widths []float64, label func(lines []int) float64) ([]wire, *draw.Layout) {
	type key struct {
		from, to  int
		style     *style
		condition string
	}
	at := map[key]int{}
	var wires []wire
	var edges []draw.Edge
	for i := range lines {
		e := &lines[i]
		k := key{e.from, e.to, e.style, e.condition}
		w, ok := at[k]
		if !ok {
			w = len(wires)
			at[k] = w
			wires = append(wires, wire{})
			edges = append(edges, draw.Edge{From: e.from, To: e.to})
		}
		wires[w].lines = append(wires[w].lines, i)
	}
	labels := make([]float64, len(wires))
	for i := range wires {
		labels[i] = label(wires[i].lines)
	}
	l := draw.Layered(edges, widths, labels, len(widths)-1, gapAcross)
	for i := range wires {
		wires[i].Wire = l.Wires[i]
	}
	return wires, l
}
