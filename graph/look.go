package graph

import "chimera.ai/engine/plan"

// words explains lines and marks in formats that cannot show them in a legend.
func (d *picture) words(undo bool, escape func(string) string) []string {
	how := map[*style]string{
		data: "solid", control: "dotted grey", conditional: "dashed violet", failure: "red",
		compensation: "dashed red", precheck: "dotted green", verify: "dotted brown",
	}
	var out []string
	used, tainted := d.used()
	for _, s := range used {
		out = append(out, escape(s.name+": "+how[s]))
	}
	if undo {
		out = append(out, escape("broken border: undoes an effect"))
	}
	if tainted {
		out = append(out, escape(warning+" tainted: nobody vouches for it"))
	}
	if len(d.p.Barriers) > 0 {
		out = append(out, escape("frame: waits for people"))
	}
	return out
}

// lookOf returns the look of a node. The map has every effect class.
func lookOf(n *plan.Node) look {
	if n.Kind != plan.KindCall {
		return virtual
	}
	return looks[n.Effect]
}
