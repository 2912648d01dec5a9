package graph

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"chimera.ai/engine/internal/draw"
	"chimera.ai/engine/plan"
)

// Measures of the drawing, in pixels.
const (
	charWidth  = 7.2
	lineHeight = 16.0
	padding    = 12.0
	gapAcross  = 28.0
	labelWidth = 6.2
	gapDown    = 18.0
	margin     = 24.0
	tabHeight  = 20.0
	legendGap  = 16.0
	selfLoop   = 30.0
)

func (d *picture) svg() []byte {
	widths := make([]float64, len(d.p.Nodes))
	heights := make([]float64, len(d.p.Nodes))
	out := &drawing{picture: d, heights: heights, tabs: make([]string, len(d.p.Nodes))}
	for i := range d.p.Barriers {
		for _, n := range d.p.Barriers[i].Members {
			out.tabs[n] = barrierText(&d.p.Barriers[i])
		}
	}
	for i := range d.p.Nodes {
		for _, s := range append([]string{out.tabs[i]}, d.texts[i]...) {
			widths[i] = max(widths[i], float64(len([]rune(s)))*charWidth)
		}
		widths[i] += 2 * padding
		heights[i] = float64(len(d.texts[i]))*lineHeight + padding
		if out.tabs[i] != "" {
			heights[i] += tabHeight
		}
	}
	out.wires, out.layout = layoutOf(d.lines, widths, func(lines []int) float64 { return float64(len([]rune(out.labelOf(lines)))) * labelWidth })
	out.y, out.tall = make([]float64, len(out.layout.Layers)), make([]float64, len(out.layout.Layers))
	out.measure()
	return out.write()
}

type drawing struct {
	*picture
	wires   []wire
	layout  *draw.Layout
	heights []float64
	// tabs holds the titles of nodes that wait at a barrier.
	tabs []string
	// y is the middle of each layer, and tall its height.
	y, tall       []float64
	left          float64
	width, height float64
	// legend are its entries in rows.
	rows [][]entry
}

// measure finds the size of the picture.
func (d *drawing) measure() {
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range d.layout.Slots {
		low = min(low, s.X-s.Width/2)
		high = max(high, s.X+s.Width/2)
	}
	// Room beside the nodes for the lines that lead back up, and their labels.
	for _, w := range d.wires {
		if w.Back {
			s := d.layout.Slots[w.From]
			high = max(high, s.X+s.Width/2+float64(len([]rune(d.labelOf(w.lines))))*labelWidth+2*margin)
		}
	}
	y := margin
	for i, layer := range d.layout.Layers {
		tall := lineHeight
		for _, s := range layer {
			if n := d.layout.Slots[s].Node; n >= 0 {
				tall = max(tall, d.heights[n])
			}
		}
		d.y[i], d.tall[i] = y+tall/2, tall
		y += tall + gapDown
	}
	d.width = max(high-low+2*margin, 760)
	// Centre what is narrower than the legend.
	d.left = low - (d.width-(high-low))/2
	d.rows = d.legendRows()
	d.height = y - gapDown + margin + float64(len(d.rows))*legendGap + margin
}

func (d *drawing) write() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %s %s" width="%s" height="%s" role="img" font-family="ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', monospace" font-size="12">`+"\n",
		draw.Num(d.width), draw.Num(d.height), draw.Num(d.width), draw.Num(d.height))
	fmt.Fprintf(&b, "<title>%s</title>\n<defs>\n", draw.Escape(draw.Visible(d.p.Name+"@"+d.p.Version, maxName)))
	used, _ := d.used()
	for _, s := range used {
		fmt.Fprintf(&b, `<marker id="%s" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0.5 L8 4 L0 7.5 z" fill="%s"/></marker>`+"\n", s.name, s.stroke)
	}
	fmt.Fprintf(&b, "</defs>\n"+`<rect width="100%%" height="100%%" fill="#ffffff"/>`+"\n")
	for i := range d.wires {
		d.wire(&b, &d.wires[i])
	}
	for i := range d.p.Nodes {
		d.node(&b, i)
	}
	// Labels come last, so that no line crosses them.
	for i := range d.wires {
		d.label(&b, &d.wires[i])
	}
	d.legend(&b)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// at returns the middle of a slot in the picture.
func (d *drawing) at(s int) (x, y float64) {
	return d.layout.Slots[s].X - d.left, d.y[d.layout.Slots[s].Layer]
}

func (d *drawing) node(b *bytes.Buffer, i int) {
	n := &d.p.Nodes[i]
	l := lookOf(n)
	x, y := d.at(i)
	w, h := d.layout.Slots[i].Width, d.heights[i]
	top := y - h/2
	radius, stroke := 4.0, 1.2
	switch {
	case n.Kind != plan.KindCall:
		radius = h / 2
	case n.Effect == plan.Staged:
		radius = 10
	case n.Effect == plan.Irreversible:
		radius, stroke = 0, 3
	case n.Effect == plan.Committing:
		radius, stroke = 2, 2
	}
	dash := ""
	if n.Undoes > 0 {
		dash = ` stroke-dasharray="6 4"`
	}
	fmt.Fprintf(b, `<g><title>%s</title>`, draw.Escape(strings.Join(d.texts[i], ", ")))
	if tab := d.tabs[i]; tab != "" {
		// It extends under the node, whose corners may be round.
		fmt.Fprintf(b, `<rect x="%s" y="%s" width="%s" height="%s" rx="5" fill="%s" stroke="%s"/><text x="%s" y="%s" text-anchor="middle" font-size="11" fill="%s">%s</text>`,
			draw.Num(x-w/2), draw.Num(top), draw.Num(w), draw.Num(tabHeight+10), gate.fill, gate.stroke, draw.Num(x), draw.Num(top+tabHeight-6), gate.stroke, draw.Escape(tab))
		top += tabHeight
		h -= tabHeight
	}
	box := func(dx, dy float64) {
		fmt.Fprintf(b, `<rect x="%s" y="%s" width="%s" height="%s" rx="%s" fill="%s" stroke="%s" stroke-width="%s"%s/>`,
			draw.Num(x-w/2+dx), draw.Num(top+dy), draw.Num(w), draw.Num(h), draw.Num(radius), l.fill, l.stroke, draw.Num(stroke), dash)
	}
	if n.ForEach != nil {
		box(5, 5)
	}
	box(0, 0)
	for j, line := range d.texts[i] {
		weight := ` fill="#455a64"`
		if j == 0 {
			weight = ` fill="#212121" font-weight="bold"`
		}
		fmt.Fprintf(b, `<text x="%s" y="%s" text-anchor="middle"%s>%s</text>`,
			draw.Num(x), draw.Num(top+padding/2+lineHeight*(float64(j)+0.75)), weight, draw.Escape(line))
	}
	b.WriteString("</g>\n")
}

// points returns the points of a wire: from its source through its bends to its target.
func (d *drawing) points(w *wire) [][2]float64 {
	fx, fy := d.at(w.From)
	tx, ty := d.at(w.To)
	if w.Back {
		side := d.width - margin/2
		fw, tw := d.layout.Slots[w.From].Width, d.layout.Slots[w.To].Width
		return [][2]float64{{fx + fw/2, fy}, {side, fy}, {side, ty}, {tx + tw/2, ty}}
	}
	pts := [][2]float64{{fx, fy + d.heights[w.From]/2}}
	for _, s := range w.Through {
		// Straight through the layer, so that it does not cut the corners of the
		// nodes beside it.
		x, y := d.at(s)
		half := d.tall[d.layout.Slots[s].Layer] / 2
		pts = append(pts, [2]float64{x, y - half}, [2]float64{x, y + half})
	}
	return append(pts, [2]float64{tx, ty - d.heights[w.To]/2})
}

func (d *drawing) wire(b *bytes.Buffer, w *wire) {
	first := &d.lines[w.lines[0]]
	pts := d.points(w)
	var path strings.Builder
	if w.From == w.To {
		// A small bow at the node's side.
		pts = pts[:1]
	}
	fmt.Fprintf(&path, "M%s %s", draw.Num(pts[0][0]), draw.Num(pts[0][1]))
	if w.From == w.To {
		x, y := pts[0][0], pts[0][1]
		fmt.Fprintf(&path, " C%s %s %s %s %s %s", draw.Num(x+selfLoop), draw.Num(y), draw.Num(x+selfLoop), draw.Num(y-selfLoop), draw.Num(x), draw.Num(y-selfLoop/2))
	}
	for i := 1; i < len(pts); i++ {
		a, z := pts[i-1], pts[i]
		if w.Back {
			fmt.Fprintf(&path, " L%s %s", draw.Num(z[0]), draw.Num(z[1]))
			continue
		}
		half := (z[1] - a[1]) / 2
		fmt.Fprintf(&path, " C%s %s %s %s %s %s", draw.Num(a[0]), draw.Num(a[1]+half), draw.Num(z[0]), draw.Num(z[1]-half), draw.Num(z[0]), draw.Num(z[1]))
	}
	if d.any(w, func(l *line) bool { return l.tainted }) {
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="7" stroke-opacity="0.4" stroke-linecap="round"/>`+"\n", path.String(), halo)
	}
	more := fmt.Sprintf(` stroke-width="%s"`, draw.Num(first.style.width))
	if dash := first.style.dash; dash != "" {
		more += ` stroke-dasharray="` + dash + `"`
	}
	if !d.any(w, func(l *line) bool { return !l.optional }) {
		more += ` stroke-opacity="0.55"`
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s"%s marker-end="url(#%s)"><title>%s</title></path>`+"\n",
		path.String(), first.style.stroke, more, first.style.name, draw.Escape(d.title(w)))
}

// any reports whether is holds for a line of a wire.
func (d *drawing) any(w *wire, is func(*line) bool) bool {
	for _, at := range w.lines {
		if is(&d.lines[at]) {
			return true
		}
	}
	return false
}

// title lists the lines of a wire, to show when the pointer is over it.
func (d *drawing) title(w *wire) string {
	const most = 8
	var lines []string
	for i, at := range w.lines {
		if i == most {
			lines = append(lines, fmt.Sprintf("and %d more", len(w.lines)-most))
			break
		}
		lines = append(lines, d.lines[at].title)
	}
	return strings.Join(lines, "\n")
}

// labelOf returns the label of a wire.
func (d *drawing) labelOf(lines []int) string {
	var parts []string
	for i, at := range lines {
		if i == maxLabel {
			break
		}
		if s := d.lines[at].label; s != "" {
			parts = append(parts, s)
		}
	}
	return draw.Visible(strings.Join(parts, ", "), maxLabel)
}

func (d *drawing) label(b *bytes.Buffer, w *wire) {
	text := d.labelOf(w.lines)
	if text == "" {
		return
	}
	var x, y float64
	if w.Back {
		fx, fy := d.at(w.From)
		x, y = fx+d.layout.Slots[w.From].Width/2+float64(len([]rune(text)))*labelWidth/2+8, fy-4
		if w.From == w.To {
			x, y = x+selfLoop/2+4, fy-selfLoop/3
		}
	} else {
		x, y = d.at(w.Through[0])
		y += 3
	}
	fmt.Fprintf(b, `<text x="%s" y="%s" text-anchor="middle" font-size="10" fill="%s" stroke="#ffffff" stroke-width="3" paint-order="stroke">%s</text>`+"\n",
		draw.Num(x), draw.Num(y), d.lines[w.lines[0]].style.stroke, draw.Escape(text))
}
