package causal

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/internal/excerpt"
)

// Bounds of a summary: how many KPIs it tells of, its length and that of names, in bytes.
const (
	maxTold    = 2
	maxSummary = 480
	maxWord    = 40
)

// least is the least risk that is not 0.
const least = "0.000000001"

// summary says on one line what becomes of the KPIs that are most at risk.
func summary(p *program, made *Prediction, without, with *result) string {
	order := make([]int, len(p.kpis))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(with.kpis[b].broken.judged, with.kpis[a].broken.judged), strings.Compare(p.kpis[a].Variable, p.kpis[b].Variable))
	})
	var parts []string
	for _, k := range order[:min(maxTold, len(order))] {
		parts = append(parts, told(p, made, k, &without.kpis[k], &with.kpis[k]))
	}
	switch others := len(order) - len(parts); {
	case others == 1:
		parts = append(parts, "and one other KPI")
	case others > 1:
		parts = append(parts, fmt.Sprintf("and %d other KPIs", others))
	}
	return excerpt.Clip(strings.Join(parts, "; "), maxSummary)
}

// told says what becomes of one KPI.
func told(p *program, made *Prediction, k int, without, with *marginal) string {
	kpi := &p.kpis[k]
	name := excerpt.Clip(kpi.Variable, maxWord)
	probability := percent(with.broken)
	if made.Method == MonteCarlo || string(risk(with.broken)) == least {
		probability = "at most " + probability
	}
	if with.shares != nil {
		if !kpi.Bounded() {
			return name + " has no bound"
		}
		return fmt.Sprintf("%s is not %s with probability %s instead of %s", name, excerpt.Clip(strings.Join(kpi.Allow, " or "), maxWord), probability, percent(without.broken))
	}
	var sb strings.Builder
	fmt.Fprintf(&sb, "%s is %s", name, figure(with.mean))
	if kpi.Unit != "" {
		sb.WriteString(" " + excerpt.Clip(kpi.Unit, maxWord/2))
	}
	if with.p05 != with.p95 {
		fmt.Fprintf(&sb, " (90%% between %s and %s)", figure(with.p05), figure(with.p95))
	}
	if with.mean == without.mean {
		sb.WriteString(" as without the action")
	} else {
		sb.WriteString(" instead of " + figure(without.mean))
	}
	switch {
	case kpi.Min != nil && kpi.Max != nil:
		fmt.Fprintf(&sb, "; it is not between %s and %s with probability %s", figure(*kpi.Min), figure(*kpi.Max), probability)
	case kpi.Max != nil:
		fmt.Fprintf(&sb, "; it exceeds %s with probability %s", figure(*kpi.Max), probability)
	case kpi.Min != nil:
		fmt.Fprintf(&sb, "; it falls below %s with probability %s", figure(*kpi.Min), probability)
	}
	return sb.String()
}

// percent writes a probability with six decimals, rounded up, or as exactly as there is one if it is smaller.
func percent(c chance) string {
	exact := string(risk(c))
	x := math.Ceil(float64(c.judged*1e6) - 1e-5)
	switch {
	case exact == "0" || exact == "1":
		return exact
	case x <= 1:
		return exact
	}
	return strconv.FormatFloat(min(x, 1e6)/1e6, 'f', 6, 64)
}

// figure writes a number for people: four digits, or all before the point.
func figure(x float64) string {
	size := math.Abs(x)
	switch {
	case size >= 1e15 || size > 0 && size < 1e-4:
		return strconv.FormatFloat(x, 'e', 3, 64)
	case size < 1000:
		return strconv.FormatFloat(x+0, 'g', 4, 64)
	}
	digits := strconv.FormatFloat(size, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	if x < 0 {
		return "-" + digits
	}
	return digits
}
