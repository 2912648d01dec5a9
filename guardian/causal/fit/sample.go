package fit

import (
	"fmt"
	"slices"

	"chimera.ai/engine/guardian/causal"
)

// series holds the values of one variable, row by row: numbers, or indexes of categories.
type series struct {
	v       *causal.Variable
	numbers []float64
	codes   []int
}

// sample holds the rows in which no variable of some is missing.
type sample struct {
	columns map[string]*series
	// rows are their indexes in the table.
	rows []int
	// missing counts the rows that were left out.
	missing int
}

// sample reads the values of variables, all of which have a column.
func (d *Data) sample(variables []*causal.Variable) (*sample, error) {
	s := &sample{columns: map[string]*series{}}
	at := make([]int, len(variables))
	list := make([]*series, len(variables))
	for i, v := range variables {
		at[i], list[i] = d.column(v.Name), &series{v: v}
		s.columns[v.Name] = list[i]
	}
rows:
	for r, row := range d.Rows {
		for _, c := range at {
			if row[c] == "" {
				s.missing++
				continue rows
			}
		}
		for i, c := range at {
			if !list[i].add(row[c]) {
				return nil, &DataError{d.line(r), c + 1, list[i].problem(row[c])}
			}
		}
		s.rows = append(s.rows, r)
	}
	return s, nil
}

func (c *series) add(cell string) bool {
	if c.v.Categorical() {
		code := slices.Index(c.v.Values, cell)
		c.codes = append(c.codes, code)
		return code >= 0
	}
	x, ok := number(cell)
	c.numbers = append(c.numbers, x)
	return ok
}

func (c *series) problem(cell string) string {
	if c.v.Categorical() {
		return fmt.Sprintf("%.40q is no category of %s", cell, c.v.Name)
	}
	return fmt.Sprintf("%.40q is not a number up to %g, and %s is one", cell, float64(causal.MaxNumber), c.v.Name)
}

// split divides the sample into the rows to fit to and those held out. Where a row belongs depends on its index
// in the table alone.
func (s *sample) split(share float64) (train, test *sample) {
	train, test = &sample{columns: map[string]*series{}, missing: s.missing}, &sample{columns: map[string]*series{}}
	for name, c := range s.columns {
		train.columns[name], test.columns[name] = &series{v: c.v}, &series{v: c.v}
	}
	for i, row := range s.rows {
		to := train
		if heldOut(row, share) {
			to = test
		}
		to.rows = append(to.rows, row)
		for name, c := range s.columns {
			if c.v.Categorical() {
				to.columns[name].codes = append(to.columns[name].codes, c.codes[i])
			} else {
				to.columns[name].numbers = append(to.columns[name].numbers, c.numbers[i])
			}
		}
	}
	return train, test
}

// heldOut hashes the index of a row (SplitMix64, Steele and others 2014) to a number from 0 to 1.
func heldOut(row int, share float64) bool {
	z := uint64(row+1) * 0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11)/(1<<53) < share
}
