package plot

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/internal/draw"
)

// Measures of a forecast: the plot lies between plotLeft and plotRight, and numbers beside it.
const (
	plotLeft  = 34.0
	plotRight = 520.0
	noteLeft  = 540.0
	stripTall = 44.0
	stripGap  = 14.0
	labelTall = 14.0
	rowTall   = 34.0
	barsLeft  = 190.0
	barsRight = 450.0
	// maxBins bounds the bins of a distribution: more are drawn together.
	maxBins = 200
	// maxRows bounds the categories that are drawn: the least probable are drawn together.
	maxRows = 12
	// least is an interval whose parts are still numbers.
	least = 1e-150
)

// Forecast draws what a prediction says of each KPI, with the action and without, and how much of it breaks the
// bound. A prediction that was read from a store has no bins: then intervals are drawn.
func Forecast(p *causal.Prediction) []byte {
	if p == nil {
		p = &causal.Prediction{}
	}
	var c canvas
	title := fit(p.Name, 44) + ": forecast"
	c.text(margin, 30, ink, title, ` font-size="14"`+bold)
	c.text(pageWidth-margin, 30, faint, method(p), end)
	risk := fmt.Sprintf("risk %s that a KPI breaks its bound (estimate %s; without the action %s)", percentOf(p.Risk), percentOf(p.Estimate), percentOf(p.Baseline))
	c.text(margin, 50, ink, risk, "")
	c.text(margin, 66, faint, actionText(p.Interventions), "")
	description := []string{risk + "."}
	y := 92.0
	for i := range p.KPIs {
		if i == causal.MaxKPIs {
			more := fmt.Sprintf("and %d more KPIs", len(p.KPIs)-i)
			c.text(margin, y, faint, more, "")
			description = append(description, more+".")
			y += 20
			break
		}
		k := panel{canvas: &c, Forecast: p.KPIs[i]}
		k.Min, k.Max = drawable(k.Min), drawable(k.Max)
		y = k.draw(y)
		description = append(description, k.words())
	}
	c.legend(y)
	return c.picture(pageWidth, y+28, title, strings.Join(description, " "))
}

// method says how the prediction was made.
func method(p *causal.Prediction) string {
	name := fit(strings.ReplaceAll(string(p.Method), "_", " "), 12)
	if p.Samples > 0 {
		return fmt.Sprintf("%s, %d samples", name, p.Samples)
	}
	return name
}

func actionText(do []causal.Intervention) string {
	const most = 8
	var parts []string
	for i, d := range do {
		if i == most {
			parts = append(parts, fmt.Sprintf("and %d more", len(do)-most))
			break
		}
		value := fit(d.Value.Category, 24)
		if d.Value.Category == "" {
			value = short(d.Value.Number)
		}
		parts = append(parts, fit(d.Variable, 32)+" = "+value)
	}
	if len(parts) == 0 {
		return "the action sets nothing"
	}
	return clip("the action sets "+strings.Join(parts, ", "), 106)
}

// legend says what the colours mean.
func (c *canvas) legend(y float64) {
	x := margin
	for _, e := range []struct{ colour, pale, text string }{
		{blue, "", "with the action"}, {grey, "", "without"}, {red, pale, "breaks the bound (with, without)"},
	} {
		c.rect(x, y-1, 12, 10, e.colour, "")
		if e.pale != "" {
			x += 14
			c.rect(x, y-1, 12, 10, e.pale, "")
		}
		c.text(x+18, y+8, faint, e.text, small)
		x += 18 + width(e.text, 10) + 20
	}
	c.line(x, y+4, x+24, y+4, ink, ` stroke-width="2"`)
	c.rect(x+10, y, 3, 8, ink, "")
	c.text(x+30, y+8, faint, "5 % to 95 %, median", small)
}

// panel is the part of a picture about one KPI.
type panel struct {
	*canvas
	causal.Forecast
	low, high float64
}

// drawable returns a bound, or nil if it cannot be drawn.
func drawable(bound *float64) *float64 {
	if bound == nil || !usable(*bound) {
		return nil
	}
	return bound
}

func (k *panel) draw(y float64) float64 {
	k.line(margin, y-12, pageWidth-margin, y-12, grid, "")
	name := fit(k.Variable, 40)
	if k.Unit != "" {
		name += " (" + fit(k.Unit, 16) + ")"
	}
	k.text(margin, y+4, ink, name, ` font-size="12"`+bold)
	if k.Bounded() {
		k.text(pageWidth-margin, y+4, red, "breaks its bound: "+percentOf(k.Broken), end+bold)
	} else {
		k.text(pageWidth-margin, y+4, faint, "no bound", end)
	}
	if len(k.With.P) > 0 {
		return k.shares(y + 16)
	}
	return k.numbers(y + 12)
}

// words says what the panel shows.
func (k *panel) words() string {
	s := fit(k.Variable, 40) + ": "
	if len(k.With.P) == 0 {
		unit := ""
		if k.Unit != "" {
			unit = " " + fit(k.Unit, 16)
		}
		s += fmt.Sprintf("mean %s%s with the action, %s%s without", shown(k.With.Mean), unit, shown(k.Without.Mean), unit)
	} else {
		at := 0
		for i := range k.With.P {
			if p, _ := parse(k.With.P[i].P); p > value(k.With.P[at]) {
				at = i
			}
		}
		s += "most probably " + fit(k.With.P[at].Category, 24)
	}
	if k.Bounded() {
		s += "; breaks its bound with " + percentOf(k.Broken)
	}
	return s + "."
}

func value(s causal.Share) float64 {
	p, _ := parse(s.P)
	return p
}

// x returns the place of a number.
func (k *panel) x(v float64) float64 {
	part := (min(max(v, k.low), k.high) - k.low) / (k.high - k.low)
	return plotLeft + float64(part*(plotRight-plotLeft))
}

// scale finds the numbers at the ends of the axis.
func (k *panel) scale() {
	var all []float64
	for _, d := range []*causal.Distribution{&k.With, &k.Without} {
		for _, n := range []json.Number{d.Mean, d.P05, d.P50, d.P95} {
			if x, ok := parse(n); ok {
				all = append(all, x)
			}
		}
	}
	if k.binned() {
		all = []float64{k.Low, k.High}
	}
	if len(all) == 0 {
		all = []float64{0}
	}
	k.low, k.high = slices.Min(all), slices.Max(all)
	size := max(math.Abs(k.low), math.Abs(k.high))
	pad := 0.0
	if !k.binned() {
		pad = (k.high - k.low) / 16
	}
	if k.high-k.low <= max(float64(size*1e-9), least) {
		pad = max(float64(size*0.1), least)
		if size == 0 {
			pad = 1
		}
	}
	k.low, k.high = k.low-pad, k.high+pad
	// A bound that is near is in the picture; the others are said at its edge.
	span := k.high - k.low
	low, high := k.low, k.high
	for _, bound := range []*float64{k.Min, k.Max} {
		if bound != nil && *bound > k.low-span/2 && *bound < k.high+span/2 {
			low, high = min(low, *bound-span/20), max(high, *bound+span/20)
		}
	}
	k.low, k.high = low, high
}

// binned reports whether the bins can be drawn.
func (k *panel) binned() bool {
	fine := func(bins []float64) bool {
		return len(bins) > 0 && !slices.ContainsFunc(bins, func(p float64) bool { return !(p >= 0 && p <= 1) })
	}
	return usable(k.Low) && usable(k.High) && k.Low < k.High && fine(k.With.Bins) && fine(k.Without.Bins)
}

// numbers draws the distributions of a number, one above the other.
func (k *panel) numbers(y float64) float64 {
	k.scale()
	top := y
	for _, bound := range []*float64{k.Min, k.Max} {
		if bound != nil {
			top += labelTall
		}
	}
	bottom := top + 2*stripTall + 2*stripGap
	// What is outside of the bounds.
	if k.Min != nil && *k.Min > k.low {
		k.rect(plotLeft, top, k.x(*k.Min)-plotLeft, bottom-top, blush, "")
	}
	if k.Max != nil && *k.Max < k.high {
		k.rect(k.x(*k.Max), top, plotRight-k.x(*k.Max), bottom-top, blush, "")
	}
	k.strip(top, &k.With, "with the action", blue, red)
	k.strip(top+stripTall+stripGap, &k.Without, "without", grey, pale)
	k.axis(bottom)
	if k.Min != nil {
		y += labelTall
		k.bound("min", *k.Min, y, bottom)
	}
	if k.Max != nil {
		y += labelTall
		k.bound("max", *k.Max, y, bottom)
	}
	return bottom + 42
}

// bound draws the line of a bound, and its label in the row that ends at y.
func (k *panel) bound(name string, at, y, bottom float64) {
	label := name + " " + short(at)
	switch {
	case at < k.low:
		k.text(plotLeft, y-4, red, "← "+label, small)
		return
	case at > k.high:
		k.text(plotRight, y-4, red, label+" →", small+end)
		return
	}
	x := k.x(at)
	k.line(x, y-labelTall+2, x, bottom, red, ` stroke-width="1.5" stroke-dasharray="5 3"`)
	if name == "min" && x-6-width(label, 10) > margin || x+6+width(label, 10) > pageWidth-margin {
		k.text(x-5, y-4, red, label, small+end)
		return
	}
	k.text(x+5, y-4, red, label, small)
}

func (k *panel) axis(y float64) {
	k.line(plotLeft, y, plotRight, y, faint, "")
	right := 0.0
	for _, t := range ticks(k.low, k.high) {
		x, label := k.x(t), mark(t)
		k.line(x, y, x, y+4, faint, "")
		// Labels that would touch are left out.
		if half := width(label, 10) / 2; x-half > right && x-half > 4 {
			k.text(x, y+15, faint, label, small+middle)
			right = x + half + 6
		}
	}
}

// strip draws one distribution of a number.
func (k *panel) strip(top float64, d *causal.Distribution, name, fine, broken string) {
	base := top + stripTall
	if k.binned() {
		k.histogram(base, d.Bins, fine, broken)
		k.line(plotLeft, base, plotRight, base, grid, "")
	}
	low, okLow := parse(d.P05)
	high, okHigh := parse(d.P95)
	y := base + 5
	if !k.binned() {
		y = top + stripTall/2
	}
	if okLow && okHigh && low <= high {
		if k.binned() {
			k.line(k.x(low), y, k.x(high), y, ink, ` stroke-width="2"`)
		} else {
			k.interval(y, low, high, fine, broken)
		}
		if mid, ok := parse(d.P50); ok {
			k.rect(k.x(mid)-1.5, y-4, 3, 8, ink, "")
		}
	}
	k.text(noteLeft, top+12, ink, name, bold)
	k.text(noteLeft, top+26, ink, "mean "+shown(d.Mean), "")
	if d.P05 != "" || d.P95 != "" {
		k.text(noteLeft, top+40, ink, "5–95 %: "+shown(d.P05)+" to "+shown(d.P95), "")
	}
}

// interval draws the part between the quantiles of 5 % and 95 %, cut at the bounds.
func (k *panel) interval(y, low, high float64, fine, broken string) {
	for _, s := range k.cut(low, high) {
		colour := fine
		if s.broken {
			colour = broken
		}
		k.rect(k.x(s.low), y-9, max(k.x(s.high)-k.x(s.low), 1), 18, colour, "")
	}
}

// piece is a part of the axis on one side of each bound.
type piece struct {
	low, high float64
	broken    bool
}

// cut splits an interval at the bounds.
func (k *panel) cut(low, high float64) []piece {
	ends := []float64{low}
	for _, bound := range []*float64{k.Min, k.Max} {
		if bound != nil && *bound > low && *bound < high {
			ends = append(ends, *bound)
		}
	}
	slices.Sort(ends)
	ends = append(ends, high)
	var out []piece
	for i := range len(ends) - 1 {
		at := ends[i]/2 + ends[i+1]/2
		out = append(out, piece{ends[i], ends[i+1], k.Min != nil && at < *k.Min || k.Max != nil && at > *k.Max})
	}
	return out
}

// histogram draws bins as areas, of which those beyond a bound have a colour of their own. The highest bin is as high
// as the strip.
func (k *panel) histogram(base float64, bins []float64, fine, broken string) {
	type bar struct {
		piece
		tall float64
	}
	each := (len(bins) + maxBins - 1) / maxBins
	edge := func(i int) float64 {
		part := float64(min(i, len(bins))) / float64(len(bins))
		return k.Low + float64(part*(k.High-k.Low))
	}
	var bars []bar
	most := 0.0
	for i := 0; i < len(bins); i += each {
		sum := 0.0
		for _, p := range bins[i:min(i+each, len(bins))] {
			sum += p
		}
		tall := sum / float64(min(i+each, len(bins))-i)
		most = max(most, tall)
		for _, part := range k.cut(edge(i), edge(i+each)) {
			bars = append(bars, bar{part, tall})
		}
	}
	if most == 0 {
		return
	}
	for from := 0; from < len(bars); {
		to := from
		var path strings.Builder
		fmt.Fprintf(&path, "M%s %s", draw.Num(k.x(bars[from].low)), draw.Num(base))
		for ; to < len(bars) && bars[to].broken == bars[from].broken; to++ {
			fmt.Fprintf(&path, " V%s H%s", draw.Num(base-float64(bars[to].tall/most*(stripTall-2))), draw.Num(k.x(bars[to].high)))
		}
		colour := fine
		if bars[from].broken {
			colour = broken
		}
		fmt.Fprintf(&k.b, `<path d="%s V%s Z" fill="%s"/>`+"\n", path.String(), draw.Num(base), colour)
		from = to
	}
}
