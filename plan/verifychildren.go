package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// verifyChildren checks that Children, where they are given, are the plans that
// the nodes name, themselves or through others, and no more. That no plan runs
// itself follows: none can hold its own digest.
func (p *Plan) verifyChildren() error {
	if len(p.Children) == 0 {
		return nil
	}
	used := make([]bool, len(p.Children))
	need := func(q *Plan) error {
		for i := range q.Nodes {
			d := q.Nodes[i].Plan
			if d == "" {
				continue
			}
			at, ok := slices.BinarySearchFunc(p.Children, d, func(c Child, d string) int { return strings.Compare(c.Digest, d) })
			if !ok {
				return fmt.Errorf("node %q: the plan that it runs is missing", q.Nodes[i].ID)
			}
			used[at] = true
		}
		return nil
	}
	for i := range p.Children {
		c := &p.Children[i]
		if c.Plan == nil || i > 0 && p.Children[i-1].Digest >= c.Digest {
			return errors.New("children are not a sorted list of plans")
		}
		if err := c.Plan.Verify(); err != nil {
			return fmt.Errorf("plan %q: %w", c.Plan.Name, err)
		}
		b, err := c.Plan.Encode()
		if err != nil {
			return err
		}
		if DigestOf(b) != c.Digest {
			return fmt.Errorf("plan %q does not have its digest", c.Plan.Name)
		}
		for n := range c.Plan.Nodes {
			if c.Plan.Nodes[n].Effect.acts() {
				return fmt.Errorf("plan %q: a plan that another one runs has no effect", c.Plan.Name)
			}
		}
		if err := need(c.Plan); err != nil {
			return err
		}
	}
	if err := need(p); err != nil {
		return err
	}
	if slices.Contains(used, false) {
		return errors.New("children that nobody runs")
	}
	return nil
}

// verifyMarks checks the length of the marks.
func (p *Plan) verifyMarks() error {
	if m := p.Marks; m != nil && (len(m.Nodes) != len(p.Nodes) || len(m.Edges) != len(p.Edges)) {
		return errors.New("marks are not as many as nodes and edges")
	}
	return nil
}
