package fit

import (
	"fmt"
	"slices"
	"strings"
)

// identify decides which parents stay in the mechanism, and what they are adjusted for.
func (j *job) identify() error {
	var missing []string
	for _, name := range j.v.Parents {
		p := j.model.Variable(name)
		switch {
		case p == nil:
			return j.refuse("its parent %s is no variable of the model", name)
		case j.data.column(name) >= 0:
			j.parents = append(j.parents, p)
		case slices.Contains(j.options.Marginalize, name):
			j.marginalized = append(j.marginalized, name)
		default:
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		list := strings.Join(missing, ", ")
		return j.refuse("the data have no column of %s, on which it depends: measure %s%s", list, list, j.otherwise(missing))
	}
	if len(j.marginalized) == 0 {
		return nil
	}
	for _, name := range j.marginalized {
		if err := j.separate(name); err != nil {
			return err
		}
	}
	j.report.Notes = append(j.report.Notes, fmt.Sprintf("its parents no longer include %s, whose influence is part of the noise",
		strings.Join(j.marginalized, ", ")))
	return j.adjust()
}

// otherwise suggests to make parents noise, where that is possible.
func (j *job) otherwise(missing []string) string {
	trial := *j
	trial.marginalized = slices.Concat(j.marginalized, missing)
	for _, name := range missing {
		if trial.separate(name) != nil {
			return ""
		}
	}
	return ", or have its influence made noise (--marginalize)"
}

// separate refuses to take a parent out of the model if an action may reach it, or if it has causes in common, under
// the action, with anything else on which the KPIs or the variable depend: then these would no longer depend on each
// other as they do, and the risk would be wrong.
func (j *job) separate(parent string) error {
	m := j.model
	whole := graphOf(m, nil)
	for _, name := range whole.list(whole.ancestors(whole.set(parent))) {
		lever := bound(m, name) || m.Variable(name).Value != nil
		switch {
		case lever && name == parent:
			return j.refuse("its parent %s is a lever, which cannot be made noise: measure it", parent)
		case lever:
			return j.refuse("its parent %s depends on the lever %s, and cannot be made noise: measure it", parent, name)
		}
	}
	// An action cuts the edges to what it sets. The parents taken out leave only this variable.
	g := graphOf(m, func(from, to string) bool {
		return bound(m, to) || to == j.v.Name && slices.Contains(j.marginalized, from)
	})
	var rest []string
	for i := range m.KPIs {
		rest = append(rest, m.KPIs[i].Variable)
	}
	for _, p := range j.parents {
		rest = append(rest, p.Name)
	}
	above, causes := g.ancestors(g.set(rest...)), g.ancestors(g.set(parent))
	for i := range causes {
		causes[i] = causes[i] && above[i]
	}
	// The causes that are nearest say most, but any of them will do.
	if common := g.list(causes); len(common) > 0 {
		return j.refuse("its parent %s cannot be made noise, because the KPIs depend on %s in other ways too: measure %s, or "+
			"write in the model what of it %s depends on", parent, strings.Join(common, ", "), parent, j.v.Name)
	}
	return nil
}

// adjust finds the back-door set of the parents that stay.
func (j *job) adjust() error {
	if len(j.parents) == 0 {
		return nil
	}
	var from, measured []string
	for _, p := range j.parents {
		from = append(from, p.Name)
	}
	for i := range j.model.Variables {
		if name := j.model.Variables[i].Name; j.data.column(name) >= 0 {
			measured = append(measured, name)
		}
	}
	set, path := backDoor(j.model, from, j.v.Name, measured)
	if path != "" {
		return j.refuse("the effect of %s is confounded, and no measured variables block the path %s: measure one on it",
			strings.Join(from, ", "), path)
	}
	for _, name := range set {
		j.adjusted = append(j.adjusted, j.model.Variable(name))
	}
	if len(set) > 0 {
		j.report.Notes = append(j.report.Notes, fmt.Sprintf("the effect of %s is adjusted for %s; the noise has the variance of %s under an "+
			"action that sets them, and not without one", strings.Join(from, ", "), strings.Join(set, ", "), j.v.Name))
	}
	return nil
}
