package plan

import (
	"errors"
)

// verifyMarks checks the length of the marks.
func (p *Plan) verifyMarks() error {
	if m := p.Marks; m != nil && (len(m.Nodes) != len(p.Nodes) || len(m.Edges) != len(p.Edges)) {
		return errors.New("marks are not as many as nodes and edges")
	}
	return nil
}
