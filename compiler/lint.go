package compiler

// lint reads the file and checks everything that can be said without knowing
// what schemas and expressions mean.
func (u *unit) lint() {
	u.readAll()
	for _, doc := range u.docs {
		u.resolve(doc)
		u.lintNodes(doc)
		u.lintEdges(doc)
		u.lintPrechecks(doc)
		doc.connect()
		u.lintConflicts(doc)
		u.lintCompensation(doc)
		u.lintVerifies(doc)
		u.lintCycles(doc)
		u.lintBarriers(doc)
	}
	u.lintSubplans()
}

// connect lists the sound edges of every node.
func (d *document) connect() {
	d.in = make([][]int, len(d.nodes))
	d.out = make([][]int, len(d.nodes))
	for i, e := range d.edges {
		if !e.sound {
			d.broken = true
			continue
		}
		d.in[e.to] = append(d.in[e.to], i)
		d.out[e.from] = append(d.out[e.from], i)
	}
}
