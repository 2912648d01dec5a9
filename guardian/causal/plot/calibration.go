package plot

import (
	"fmt"
	"strings"

	"chimera.ai/engine/guardian/causal/calibrate"
	"chimera.ai/engine/internal/draw"
)

// Measures of a calibration curve, and of the grid of curves.
const (
	curveSide   = 170.0
	curveLeft   = 36.0
	curveTop    = 106.0
	curveWide   = 238.0
	curveTall   = curveTop + curveSide + 52
	curvesInRow = 3
	// maxCurves bounds the curves of a picture.
	maxCurves = 24
	// noteColumns is how many characters a line over a curve has room for.
	noteColumns = 33
)

// curve is one calibration curve, with what is said over it.
type curve struct {
	model, kpi string
	risk       *calibrate.Risk
	notes      [2]string
}

// Calibration draws how often bounds broke against how often they were said to, for each KPI that has a bound and
// observations, and for each model that has several of them.
func Calibration(r *calibrate.Report) []byte {
	var curves []curve
	if r != nil {
		for i := range r.Models {
			curves = append(curves, curvesOf(&r.Models[i])...)
		}
	}
	var c canvas
	title := "Calibration of forecasts"
	c.text(margin, 30, ink, title, ` font-size="14"`+bold)
	c.text(margin, 48, faint, "Points on the diagonal: what was called a risk of 20 % broke its bound in one of five cases.", "")
	c.text(margin, 62, faint, "Lines: 95 % intervals. Numbers above: forecasts at each point.", "")
	y, description := 84.0, "There is no forecast of a bound whose KPI was observed."
	if len(curves) == 0 {
		c.text(margin, y+12, ink, description, "")
		return c.picture(pageWidth, y+36, title, description)
	}
	var words []string
	for i, k := range curves {
		if i == maxCurves {
			break
		}
		k.draw(&c, margin+float64(float64(i%curvesInRow)*curveWide), y+float64(float64(i/curvesInRow)*curveTall))
		words = append(words, fmt.Sprintf("%s, %s: said %s, broke %s.", k.model, k.kpi, percent(k.risk.Predicted), shareText(k.risk.Broken)))
	}
	rows := (min(len(curves), maxCurves) + curvesInRow - 1) / curvesInRow
	y += float64(float64(rows) * curveTall)
	if more := len(curves) - maxCurves; more > 0 {
		text := fmt.Sprintf("and %d more", more)
		c.text(margin, y, faint, text, "")
		words = append(words, text+".")
		y += 20
	}
	return c.picture(pageWidth, y, title, strings.Join(words, " "))
}

func curvesOf(m *calibrate.Model) []curve {
	name := fit(m.Name, noteColumns-9)
	if digest := strings.TrimPrefix(m.Digest, "sha256:"); digest != "" {
		name += " " + fit(digest[:min(len(digest), 8)], 8)
	}
	var out []curve
	for i := range m.KPIs {
		k := &m.KPIs[i]
		if k.Risk == nil {
			continue
		}
		c := curve{model: name, kpi: fit(k.Name, noteColumns-4), risk: k.Risk}
		switch {
		case k.Interval != nil:
			c.notes[0] = fmt.Sprintf("%s in their 90 %% interval", shareText(k.Interval.Inside))
		case k.Categories != nil:
			c.notes[0] = fmt.Sprintf("of the categories: Brier %s", short(k.Categories.Brier))
		}
		c.notes[1] = driftText(&k.Drift)
		out = append(out, c)
	}
	if len(out) > 1 && m.Risk != nil {
		out = append([]curve{{model: name, kpi: "any KPI", risk: m.Risk}}, out...)
	}
	return out
}

func driftText(d *calibrate.Drift) string {
	switch {
	case d.State == calibrate.Drifted && d.Earlier != nil && d.Recent != nil:
		return fmt.Sprintf("drift: residual %s → %s", short(d.Earlier.Mean), short(d.Recent.Mean))
	case d.State == calibrate.Drifted:
		return "drift"
	case d.State == calibrate.NoDrift:
		return "no drift"
	}
	return "not enough data to see drift"
}

func shareText(s calibrate.Share) string { return fmt.Sprintf("%d of %d", s.Count, s.Of) }

func (k *curve) draw(c *canvas, left, top float64) {
	c.text(left, top+8, faint, k.model, "")
	c.text(left, top+22, ink, k.kpi, bold)
	skill := "no skill: one outcome only"
	if s := k.risk.Skill; s != nil {
		skill = "skill " + short(*s)
	}
	notes := []string{fmt.Sprintf("Brier %s, of the rate %s", short(k.risk.Brier), short(k.risk.Reference)), skill}
	for i, note := range append(notes, k.notes[:]...) {
		c.text(left, top+36+float64(float64(i)*12), ink, clip(note, noteColumns+4), small)
	}
	x0, y1 := left+curveLeft, top+curveTop
	y0 := y1 + curveSide
	x := func(p float64) float64 { return x0 + float64(min(max(p, 0), 1)*curveSide) }
	y := func(p float64) float64 { return y0 - float64(min(max(p, 0), 1)*curveSide) }
	c.rect(x0, y1, curveSide, curveSide, "none", ` stroke="`+grid+`"`)
	c.line(x0, y0, x0+curveSide, y1, grey, ` stroke-dasharray="4 4"`)
	for _, at := range []float64{0, 0.25, 0.5, 0.75, 1} {
		c.line(x(at), y0, x(at), y0+4, faint, "")
		c.line(x0-4, y(at), x0, y(at), faint, "")
		label := mark(float64(100 * at))
		c.text(x(at), y0+14, faint, label, small+middle)
		c.text(x0-7, y(at)+3.5, faint, label, small+end)
	}
	c.text(x0+curveSide/2, y0+27, faint, "predicted risk, %", small+middle)
	c.text(x0-7, y1-12, faint, "broke, %", small+middle)
	var path strings.Builder
	for i, b := range k.risk.Bins {
		if i > 0 {
			path.WriteString(" L")
		} else {
			path.WriteString("M")
		}
		fmt.Fprintf(&path, "%s %s", draw.Num(x(b.Predicted)), draw.Num(y(b.Broken.Rate)))
	}
	fmt.Fprintf(&c.b, `<path d="%s" fill="none" stroke="%s" stroke-opacity="0.5"/>`+"\n", path.String(), blue)
	for _, b := range k.risk.Bins {
		at := x(b.Predicted)
		c.line(at, y(b.Broken.Low), at, y(b.Broken.High), blue, ` stroke-width="1.5"`)
		for _, end := range []float64{b.Broken.Low, b.Broken.High} {
			c.line(at-3, y(end), at+3, y(end), blue, ` stroke-width="1.5"`)
		}
		fmt.Fprintf(&c.b, `<circle cx="%s" cy="%s" r="3.5" fill="%s"/>`+"\n", draw.Num(at), draw.Num(y(b.Broken.Rate)), blue)
		// Each bin has a place of its own, where the numbers of its neighbours do not reach.
		c.text(x(b.Low/2+b.High/2), y1-3, faint, count(b.Broken.Of), ` font-size="8"`+middle)
	}
}

// count formats a number of forecasts in at most four characters.
func count(n int) string {
	switch {
	case n < 1000:
		return fmt.Sprint(n)
	case n < 1_000_000:
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprintf("%dM", n/1_000_000)
}
