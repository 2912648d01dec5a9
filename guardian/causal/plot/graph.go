package plot

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/internal/draw"
)

// Measures of a graph.
const (
	boxPadding = 10.0
	boxLine    = 14.0
	gapAcross  = 22.0
	gapDown    = 16.0
	arrowTall  = 7.0
	// boxColumns bounds the lines of a box, in characters.
	boxColumns = 26
	// maxArrows bounds the arrows of a picture. Nobody reads more.
	maxArrows = 1500
)

// box is one variable.
type box struct {
	name, mechanism, bound string
	lever, kpi, assumed    bool
	wide, tall             float64
}

// arrow is one cause.
type arrow struct {
	draw.Edge
	weight string
}

// causes is the graph of a model, laid out.
type causes struct {
	canvas
	boxes  []box
	arrows []arrow
	layout *draw.Layout
	// y is the middle of each layer, and tall its height.
	y, tall []float64
	left    float64
	// from and to are where each arrow begins and ends, by its place among the others of the box.
	from, to []float64
}

// Graph draws the variables of a model, and what causes what: the levers, which calls set, the KPIs with their
// bounds, and the weights of linear mechanisms. The picture of a model with too many causes says so instead. A model
// that [causal.Check] refuses may be drawn in part.
func Graph(m *causal.Model) []byte {
	if m == nil {
		m = &causal.Model{}
	}
	g := &causes{}
	g.read(m)
	title := fit(m.Name, 60) + ": causes"
	description := fmt.Sprintf("%d variables, %d causes.", len(m.Variables), len(g.arrows)) + g.words()
	if len(m.Variables) > causal.MaxVariables || len(g.arrows) > maxArrows {
		description = fmt.Sprintf("The graph is too large to draw: %d variables, at most %d, and at least %d causes, at most %d.", len(m.Variables), causal.MaxVariables, len(g.arrows), maxArrows)
		g.text(margin, 30, ink, title, ` font-size="14"`+bold)
		g.text(margin, 52, ink, description, "")
		return g.picture(pageWidth, 76, title, description)
	}
	g.place()
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range g.layout.Slots {
		low, high = min(low, s.X-s.Width/2), max(high, s.X+s.Width/2)
	}
	wide := pageWidth
	if len(g.boxes) > 0 {
		wide = max(high-low+2*margin, pageWidth)
		g.left = low - (wide-(high-low))/2
	}
	y := 56.0
	g.y, g.tall = make([]float64, len(g.layout.Layers)), make([]float64, len(g.layout.Layers))
	for i, layer := range g.layout.Layers {
		tall := 12.0
		for _, s := range layer {
			if n := g.layout.Slots[s].Node; n >= 0 {
				tall = max(tall, g.boxes[n].tall)
			}
		}
		g.y[i], g.tall[i] = y+tall/2, tall
		y += tall + gapDown
	}
	g.ports()
	g.text(margin, 30, ink, title, ` font-size="14"`+bold)
	for i := range g.arrows {
		g.arrow(i)
	}
	for i := range g.boxes {
		g.box(i)
	}
	// Weights come last, so that no line crosses them.
	for i := range g.arrows {
		g.weight(i)
	}
	g.key(y + 8)
	return g.picture(wide, y+28, title, description)
}

// read lists what is drawn.
func (g *causes) read(m *causal.Model) {
	at := map[string]int{}
	for i := range m.Variables {
		at[m.Variables[i].Name] = i
	}
	levers, bounds := map[string]bool{}, map[string]*causal.KPI{}
	for _, b := range m.Bind {
		levers[b.Variable] = true
	}
	for i := range m.KPIs {
		bounds[m.KPIs[i].Variable] = &m.KPIs[i]
	}
	for i := range m.Variables {
		if i >= causal.MaxVariables {
			return
		}
		v := &m.Variables[i]
		b := box{name: fit(v.Name, boxColumns), mechanism: mechanism(v), lever: levers[v.Name], assumed: v.Provenance != causal.Fitted}
		if b.lever {
			b.mechanism = "set by the call"
		}
		if k := bounds[v.Name]; k != nil {
			b.kpi, b.bound = true, bound(k)
		}
		columns, lines := 0, 0
		for _, s := range b.lines() {
			columns, lines = max(columns, columnsIn(s)), lines+1
		}
		b.wide = float64(float64(columns)*11*charWidth) + 2*boxPadding
		b.tall = float64(float64(lines)*boxLine) + boxPadding
		g.boxes = append(g.boxes, b)
		for _, parent := range v.Parents {
			from, ok := at[parent]
			if !ok || from >= causal.MaxVariables || len(g.arrows) > maxArrows {
				continue
			}
			a := arrow{Edge: draw.Edge{From: from, To: i}}
			if v.Linear != nil {
				if w, ok := v.Linear.Weights[parent]; ok {
					a.weight = short(w)
				}
			}
			g.arrows = append(g.arrows, a)
		}
	}
}

func (b *box) lines() []string {
	lines := []string{b.name, b.mechanism}
	if b.bound != "" {
		lines = append(lines, b.bound)
	}
	return lines
}

// mechanism says how the value of a variable comes about.
func mechanism(v *causal.Variable) string {
	var s string
	switch {
	case v.Value != nil:
		s = "always " + fit(v.Value.String(), boxColumns-7)
	case v.Linear != nil:
		s = "linear, from " + short(v.Linear.Intercept)
	case v.Table != nil:
		s = fmt.Sprintf("table of %d rows", len(v.Table))
	case v.Expression != "":
		return fit(v.Expression, boxColumns)
	case v.Drafted():
		return "not fitted yet"
	}
	if n := noise(v.Noise); n != "" && s != "" {
		s += ", " + n
	} else if n != "" {
		s = n
	}
	return clip(s, boxColumns)
}

func noise(n *causal.Noise) string {
	switch {
	case n == nil:
		return ""
	case n.Normal != nil && n.Normal.Mean == 0:
		return "± " + short(n.Normal.SD)
	case n.Normal != nil:
		return short(n.Normal.Mean) + " ± " + short(n.Normal.SD)
	case n.Uniform != nil:
		return short(n.Uniform.Min) + " to " + short(n.Uniform.Max)
	case n.Bernoulli != nil:
		return percent(*n.Bernoulli)
	case n.Categorical != nil:
		return fmt.Sprintf("%d categories", len(n.Categorical))
	case n.Empirical != nil:
		return fmt.Sprintf("%d values", len(n.Empirical))
	}
	return ""
}

// bound says what a KPI may be.
func bound(k *causal.KPI) string {
	s := "KPI"
	switch {
	case k.Min != nil && k.Max != nil:
		s = "KPI: " + short(*k.Min) + " to " + short(*k.Max)
	case k.Min != nil:
		s = "KPI: ≥ " + short(*k.Min)
	case k.Max != nil:
		s = "KPI: ≤ " + short(*k.Max)
	case len(k.Allow) > 0:
		names := make([]string, min(len(k.Allow), 4))
		for i := range names {
			names[i] = fit(k.Allow[i], 12)
		}
		if len(k.Allow) > len(names) {
			names = append(names, "…")
		}
		s = "KPI: " + strings.Join(names, ", ")
	}
	if k.Unit != "" {
		s += " " + fit(k.Unit, 10)
	}
	return clip(s, boxColumns)
}

func (g *causes) words() string {
	var levers, kpis []string
	for i := range g.boxes {
		b := &g.boxes[i]
		if b.lever && len(levers) < causal.MaxKPIs {
			levers = append(levers, b.name)
		}
		if b.kpi && len(kpis) < causal.MaxKPIs {
			kpis = append(kpis, b.name+" ("+b.bound+")")
		}
	}
	s := ""
	if len(levers) > 0 {
		s += " Set by calls: " + strings.Join(levers, ", ") + "."
	}
	if len(kpis) > 0 {
		s += " KPIs: " + strings.Join(kpis, ", ") + "."
	}
	return s
}

func (g *causes) place() {
	widths, labels := make([]float64, len(g.boxes)), make([]float64, len(g.arrows))
	for i := range g.boxes {
		widths[i] = g.boxes[i].wide
	}
	edges := make([]draw.Edge, len(g.arrows))
	for i := range g.arrows {
		edges[i], labels[i] = g.arrows[i].Edge, width(g.arrows[i].weight, 10)
	}
	g.layout = draw.Layered(edges, widths, labels, -1, gapAcross)
}

// at returns the middle of a slot in the picture.
func (g *causes) at(s int) (x, y float64) {
	return g.layout.Slots[s].X - g.left, g.y[g.layout.Slots[s].Layer]
}

// ports spreads the ends of arrows over the sides of their boxes, in the order in which they lie.
func (g *causes) ports() {
	g.from, g.to = make([]float64, len(g.arrows)), make([]float64, len(g.arrows))
	leave, enter := make([][]int, len(g.boxes)), make([][]int, len(g.boxes))
	for i, w := range g.layout.Wires {
		leave[w.From], enter[w.To] = append(leave[w.From], i), append(enter[w.To], i)
	}
	next := func(wire int, last bool) float64 {
		w := &g.layout.Wires[wire]
		s := w.From
		switch {
		case len(w.Through) == 0 && !last:
			s = w.To
		case len(w.Through) > 0 && last:
			s = w.Through[len(w.Through)-1]
		case len(w.Through) > 0:
			s = w.Through[0]
		}
		return g.layout.Slots[s].X
	}
	spread := func(wires []int, box int, ends []float64, last bool) {
		slices.SortStableFunc(wires, func(a, b int) int {
			switch x, y := next(a, last), next(b, last); {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
		x, _ := g.at(box)
		room := g.boxes[box].wide - 2*boxPadding
		step := min(room/float64(max(len(wires), 1)), 24)
		for i, wire := range wires {
			ends[wire] = x + float64((float64(i)-float64(len(wires)-1)/2)*step)
		}
	}
	for i := range g.boxes {
		spread(leave[i], i, g.from, false)
		spread(enter[i], i, g.to, true)
	}
}

func (g *causes) arrow(i int) {
	w := &g.layout.Wires[i]
	_, fy := g.at(w.From)
	_, ty := g.at(w.To)
	x, y := g.from[i], fy+g.boxes[w.From].tall/2
	var path strings.Builder
	fmt.Fprintf(&path, "M%s %s", draw.Num(x), draw.Num(y))
	down := func(to float64) {
		fmt.Fprintf(&path, " V%s", draw.Num(to))
		y = to
	}
	curve := func(tx, ty float64) {
		half := (ty - y) / 2
		fmt.Fprintf(&path, " C%s %s %s %s %s %s", draw.Num(x), draw.Num(y+half), draw.Num(tx), draw.Num(ty-half), draw.Num(tx), draw.Num(ty))
		x, y = tx, ty
	}
	// Straight through each layer, past the boxes beside it, which may be taller.
	down(fy + g.tall[g.layout.Slots[w.From].Layer]/2)
	for _, s := range w.Through {
		sx, sy := g.at(s)
		half := g.tall[g.layout.Slots[s].Layer] / 2
		curve(sx, sy-half)
		down(sy + half)
	}
	top := ty - g.boxes[w.To].tall/2
	curve(g.to[i], ty-g.tall[g.layout.Slots[w.To].Layer]/2-arrowTall+1)
	down(top - arrowTall + 1)
	fmt.Fprintf(&g.b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.2"/>`+"\n", path.String(), faint)
	fmt.Fprintf(&g.b, `<path d="M%s %s h7 l-3.5 %s Z" fill="%s"/>`+"\n", draw.Num(x-3.5), draw.Num(top-arrowTall), draw.Num(arrowTall), faint)
}

func (g *causes) weight(i int) {
	w := &g.layout.Wires[i]
	if g.arrows[i].weight == "" || len(w.Through) == 0 {
		return
	}
	x, y := g.at(w.Through[0])
	wide := width(g.arrows[i].weight, 10) + 4
	g.rect(x-wide/2, y-6, wide, 12, "#ffffff", "")
	g.text(x, y+3.5, ink, g.arrows[i].weight, small+middle)
}

// look returns the attributes of a box.
func (b *box) look() (fill, more string) {
	fill, stroke, thick := "#f5f7f8", faint, "1.2"
	switch {
	case b.lever && b.kpi:
		fill, stroke, thick = "#e3f2fd", "#d84315", "2.5"
	case b.lever:
		fill, stroke = "#e3f2fd", blue
	case b.kpi:
		fill, stroke, thick = "#fff3e0", "#d84315", "2.5"
	}
	more = ` stroke="` + stroke + `" stroke-width="` + thick + `"`
	if b.lever {
		return fill, more + ` rx="12"`
	}
	if b.assumed {
		more += ` stroke-dasharray="5 3"`
	}
	return fill, more + ` rx="3"`
}

func (g *causes) box(i int) {
	b := &g.boxes[i]
	x, y := g.at(i)
	top := y - b.tall/2
	fill, more := b.look()
	g.rect(x-b.wide/2, top, b.wide, b.tall, fill, more)
	for j, s := range b.lines() {
		colour, weight := faint, middle
		if j == 0 {
			colour, weight = ink, middle+bold
		}
		g.text(x, top+boxPadding/2+float64((float64(j)+0.75)*boxLine), colour, s, weight)
	}
}

// key says what the boxes mean.
func (g *causes) key(y float64) {
	x := margin
	for _, e := range []struct {
		box  box
		text string
	}{
		{box{lever: true}, "lever"}, {box{kpi: true}, "KPI"}, {box{}, "fitted"}, {box{assumed: true}, "assumed"},
	} {
		fill, more := e.box.look()
		g.rect(x, y-1, 20, 11, fill, strings.Replace(more, `rx="12"`, `rx="5"`, 1))
		g.text(x+26, y+8, faint, e.text, small)
		x += 26 + width(e.text, 10) + 20
	}
	g.text(x, y+8, faint, "numbers on arrows: weights of linear mechanisms", small)
}
