package graph

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"math"
	"strings"

	"chimera.ai/engine/plan"
)

// Measures of the drawing, in pixels.
const (
	charWidth  = 7.2
	lineHeight = 16.0
	padding    = 12.0
	gapAcross  = 24.0
	labelWidth = 6.2
	gapDown    = 18.0
	margin     = 24.0
)

// dashes are the line styles by edge type.
var dashes = map[plan.EdgeType]string{plan.Control: "2 4", plan.Conditional: "7 4"}

func svg(p *plan.Plan) []byte {
	lines := make([][]string, len(p.Nodes))
	widths := make([]float64, len(p.Nodes))
	heights := make([]float64, len(p.Nodes))
	for i := range p.Nodes {
		lines[i] = nodeLines(&p.Nodes[i])
		for _, s := range lines[i] {
			widths[i] = max(widths[i], float64(len([]rune(s)))*charWidth)
		}
		widths[i] += 2 * padding
		heights[i] = float64(len(lines[i]))*lineHeight + padding
	}
	l := newLayout(p, widths, func(edges []int) float64 { return float64(len([]rune(labelOf(p, edges)))) * labelWidth }, gapAcross)
	d := &drawing{p: p, layout: l, lines: lines, heights: heights, y: make([]float64, len(l.layers))}
	d.measure()
	return d.write()
}

type drawing struct {
	p       *plan.Plan
	layout  *layout
	lines   [][]string
	heights []float64
	// y is the middle of each layer.
	y             []float64
	left          float64
	width, height float64
}

// measure finds the size of the picture.
func (d *drawing) measure() {
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range d.layout.slots {
		low = min(low, s.x-s.width/2)
		high = max(high, s.x+s.width/2)
	}
	// Room beside the nodes for the lines that lead back up, and their labels.
	for _, w := range d.layout.wires {
		if w.back {
			s := d.layout.slots[w.from]
			high = max(high, s.x+s.width/2+float64(len([]rune(labelOf(d.p, w.edges))))*labelWidth+2*margin)
		}
	}
	y := margin
	for i, layer := range d.layout.layers {
		tall := lineHeight
		for _, s := range layer {
			if n := d.layout.slots[s].node; n >= 0 {
				tall = max(tall, d.heights[n])
			}
		}
		d.y[i] = y + tall/2
		y += tall + gapDown
	}
	d.left = low - margin
	d.width = max(high-low+2*margin, 760)
	d.height = y - gapDown + margin + 2*lineHeight + margin
}

// num writes a coordinate: one decimal, the same on every machine.
func num(x float64) string {
	x = math.Round(x*10) / 10
	if x == 0 {
		x = 0 // not -0
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
}

func escape(s string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(s)) // a bytes.Buffer does not fail
	return b.String()
}

func (d *drawing) write() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" font-family="ui-monospace, Menlo, Consolas, monospace" font-size="12">`+"\n",
		num(d.width), num(d.height), num(d.width), num(d.height))
	fmt.Fprintf(&b, "<title>%s</title>\n<defs>\n", escape(visible(d.p.Name+"@"+d.p.Version, maxName)))
	for _, t := range []plan.EdgeType{plan.Data, plan.Control, plan.Conditional, plan.Error} {
		fmt.Fprintf(&b, `<marker id="%s" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="%s"/></marker>`+"\n", t, strokes[t])
	}
	fmt.Fprintf(&b, "</defs>\n"+`<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	for i := range d.layout.wires {
		d.wire(&b, &d.layout.wires[i])
	}
	for i := range d.p.Nodes {
		d.node(&b, i)
	}
	// Labels come last, so that no line crosses them.
	for i := range d.layout.wires {
		d.label(&b, &d.layout.wires[i])
	}
	d.legend(&b)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// at is the middle of a slot in the picture.
func (d *drawing) at(s int) (x, y float64) {
	return d.layout.slots[s].x - d.left, d.y[d.layout.slots[s].layer]
}

func (d *drawing) node(b *bytes.Buffer, i int) {
	n := &d.p.Nodes[i]
	l := lookOf(n)
	x, y := d.at(i)
	w, h := d.layout.slots[i].width, d.heights[i]
	radius, stroke := 3.0, 1.2
	switch {
	case n.Kind != plan.KindCall:
		radius = h / 2
	case n.Effect == plan.Staged:
		radius = 10
	case n.Effect == plan.Irreversible:
		radius, stroke = 0, 3
	case n.Effect == plan.Committing:
		radius, stroke = 0, 2
	}
	fmt.Fprintf(b, `<g><title>%s</title><rect x="%s" y="%s" width="%s" height="%s" rx="%s" fill="%s" stroke="%s" stroke-width="%s"/>`,
		escape(strings.Join(d.lines[i], ", ")), num(x-w/2), num(y-h/2), num(w), num(h), num(radius), l.fill, l.stroke, num(stroke))
	for j, line := range d.lines[i] {
		weight := ""
		if j == 0 {
			weight = ` font-weight="bold"`
		}
		fmt.Fprintf(b, `<text x="%s" y="%s" text-anchor="middle" fill="#212121"%s>%s</text>`,
			num(x), num(y-h/2+padding/2+lineHeight*(float64(j)+0.75)), weight, escape(line))
	}
	b.WriteString("</g>\n")
}

// points are where a wire passes: out of its source, through its bends, into
// its target.
func (d *drawing) points(w *wire) [][2]float64 {
	fx, fy := d.at(w.from)
	tx, ty := d.at(w.to)
	if w.back {
		side := d.width - margin/2
		fw, tw := d.layout.slots[w.from].width, d.layout.slots[w.to].width
		return [][2]float64{{fx + fw/2, fy}, {side, fy}, {side, ty}, {tx + tw/2, ty}}
	}
	pts := [][2]float64{{fx, fy + d.heights[w.from]/2}}
	for _, s := range w.through {
		x, y := d.at(s)
		pts = append(pts, [2]float64{x, y})
	}
	return append(pts, [2]float64{tx, ty - d.heights[w.to]/2})
}

func (d *drawing) wire(b *bytes.Buffer, w *wire) {
	e := &d.p.Edges[w.edges[0]]
	pts := d.points(w)
	var path strings.Builder
	fmt.Fprintf(&path, "M%s %s", num(pts[0][0]), num(pts[0][1]))
	for i := 1; i < len(pts); i++ {
		a, z := pts[i-1], pts[i]
		if w.back {
			fmt.Fprintf(&path, " L%s %s", num(z[0]), num(z[1]))
			continue
		}
		half := (z[1] - a[1]) / 2
		fmt.Fprintf(&path, " C%s %s %s %s %s %s", num(a[0]), num(a[1]+half), num(z[0]), num(z[1]-half), num(z[0]), num(z[1]))
	}
	style := ""
	if dash := dashes[e.Type]; dash != "" {
		style = ` stroke-dasharray="` + dash + `"`
	}
	if e.Type == plan.Error {
		style += ` stroke-width="2"`
	}
	if !d.required(w) {
		style += ` stroke-opacity="0.55"`
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s"%s marker-end="url(#%s)"><title>%s</title></path>`+"\n",
		path.String(), strokes[e.Type], style, e.Type, escape(d.title(w)))
}

func (d *drawing) required(w *wire) bool {
	for _, e := range w.edges {
		if d.p.Edges[e].Required {
			return true
		}
	}
	return false
}

// title lists the edges of a wire, for whoever points at it.
func (d *drawing) title(w *wire) string {
	const most = 8
	var lines []string
	for i, e := range w.edges {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(w.edges)-most))
			break
		}
		lines = append(lines, visible(d.p.EdgeString(e), 4*maxName))
	}
	return strings.Join(lines, "\n")
}

// labelOf is what stands at a wire.
func labelOf(p *plan.Plan, edges []int) string {
	var parts []string
	for i, e := range edges {
		if i == maxLabel {
			break
		}
		if s := edgeLabel(&p.Edges[e]); s != "" {
			parts = append(parts, s)
		}
	}
	return visible(strings.Join(parts, ", "), maxLabel)
}

func (d *drawing) label(b *bytes.Buffer, w *wire) {
	text := labelOf(d.p, w.edges)
	if text == "" {
		return
	}
	var x, y float64
	if w.back {
		fx, fy := d.at(w.from)
		x, y = fx+d.layout.slots[w.from].width/2+float64(len([]rune(text)))*labelWidth/2+8, fy-4
	} else {
		x, y = d.at(w.through[0])
		y += 3
	}
	fmt.Fprintf(b, `<text x="%s" y="%s" text-anchor="middle" font-size="10" fill="%s" stroke="#ffffff" stroke-width="3" paint-order="stroke">%s</text>`+"\n",
		num(x), num(y), strokes[d.p.Edges[w.edges[0]].Type], escape(text))
}

// legend explains what the picture uses.
func (d *drawing) legend(b *bytes.Buffer) {
	x, y := margin, d.height-margin
	classes, types := map[plan.EffectClass]bool{}, map[plan.EdgeType]bool{}
	for i := range d.p.Nodes {
		if d.p.Nodes[i].Kind == plan.KindCall {
			classes[d.p.Nodes[i].Effect] = true
		}
	}
	for i := range d.p.Edges {
		types[d.p.Edges[i].Type] = true
	}
	word := func(s string) {
		fmt.Fprintf(b, `<text x="%s" y="%s" font-size="10" fill="#546e7a">%s</text>`+"\n", num(x), num(y), s)
		x += float64(len(s))*6 + 16
	}
	for _, c := range order {
		if classes[c] {
			fmt.Fprintf(b, `<rect x="%s" y="%s" width="12" height="10" fill="%s" stroke="%s"/>`+"\n", num(x), num(y-9), looks[c].fill, looks[c].stroke)
			x += 18
			word(string(c))
		}
	}
	for _, t := range []plan.EdgeType{plan.Data, plan.Control, plan.Conditional, plan.Error} {
		if types[t] {
			style := ""
			if dash := dashes[t]; dash != "" {
				style = ` stroke-dasharray="` + dash + `"`
			}
			fmt.Fprintf(b, `<path d="M%s %s h24" stroke="%s"%s/>`+"\n", num(x), num(y-4), strokes[t], style)
			x += 30
			word(string(t))
		}
	}
}
