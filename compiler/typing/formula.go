package typing

import (
	"slices"

	"chimera.ai/engine/compiler/lint"
)

// formula is a Boolean function over atoms, as a node of a reduced ordered
// binary decision diagram: equal functions are equal numbers, so a tautology is
// the number always.
type formula int32

const (
	never  formula = 0
	always formula = 1
	// unclear stands for a function of more than MaxAtoms atoms, or one found
	// after the budget was spent.
	unclear formula = -1
)

// These bound the work for one plan, and its memory: a step may keep a few hundred
// bytes. A plan whose branches join again needs a few steps for each edge.
const (
	formulaSteps     = 500_000
	formulaStepsEach = 8
)

// branch is an inner node: if the atom holds, high, else low.
type branch struct {
	atom      int32
	low, high formula
}

// logic builds formulas. Atoms are ordered by number.
type logic struct {
	branches []branch
	// support lists the atoms of each branch, sorted.
	support [][]int32
	unique  map[branch]formula
	memo    map[[3]formula]formula
	atoms   int32
	steps   int
}

// newLogic starts with a budget for a plan with that many nodes and edges.
func newLogic(size int) *logic {
	return &logic{
		branches: make([]branch, 2), support: make([][]int32, 2),
		unique: map[branch]formula{}, memo: map[[3]formula]formula{}, steps: formulaSteps + formulaStepsEach*size,
	}
}

// atom makes a new atom.
func (l *logic) atom() formula {
	a := l.atoms
	l.atoms++
	return l.branch(a, never, always)
}

func (l *logic) branch(atom int32, low, high formula) formula {
	if low == high {
		return low
	}
	b := branch{atom, low, high}
	if f, ok := l.unique[b]; ok {
		return f
	}
	f := formula(len(l.branches))
	l.branches = append(l.branches, b)
	l.support = append(l.support, merge(atom, l.support[low], l.support[high]))
	l.unique[b] = f
	return f
}

// merge returns first and the sorted union of two sorted lists; first is smaller
// than all.
func merge(first int32, a, b []int32) []int32 {
	out := make([]int32, 1, 1+len(a)+len(b))
	out[0] = first
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || (len(a) > 0 && a[0] < b[0]):
			out, a = append(out, a[0]), a[1:]
		case len(a) == 0 || b[0] < a[0]:
			out, b = append(out, b[0]), b[1:]
		default:
			out, a, b = append(out, a[0]), a[1:], b[1:]
		}
	}
	return slices.Clip(out)
}

func (l *logic) not(f formula) formula    { return l.choose(f, never, always) }
func (l *logic) and(f, g formula) formula { return l.join(f, g, never) }
func (l *logic) or(f, g formula) formula  { return l.join(f, g, always) }

// join is "and" if zero is never, "or" if zero is always. If one side is unclear,
// the other may decide.
func (l *logic) join(f, g, zero formula) formula {
	switch {
	case f == zero || g == zero:
		return zero
	case f == unclear || g == unclear:
		return unclear
	case zero == never:
		return l.choose(f, g, never)
	}
	return l.choose(f, always, g)
}

// choose is "if f then g else h", unclear if it depends on too many atoms.
func (l *logic) choose(f, g, h formula) formula {
	if f == unclear || g == unclear || h == unclear {
		return unclear
	}
	r := l.ite(f, g, h)
	if r != unclear && len(l.support[r]) > lint.MaxAtoms {
		return unclear
	}
	return r
}

func (l *logic) ite(f, g, h formula) formula {
	switch {
	case f == always:
		return g
	case f == never:
		return h
	case g == h:
		return g
	case g == always && h == never:
		return f
	}
	key := [3]formula{f, g, h}
	if r, ok := l.memo[key]; ok {
		return r
	}
	if l.steps--; l.steps < 0 {
		return unclear
	}
	top := l.branches[f].atom
	for _, x := range [2]formula{g, h} {
		if x > always {
			top = min(top, l.branches[x].atom)
		}
	}
	lowF, highF := l.split(f, top)
	lowG, highG := l.split(g, top)
	lowH, highH := l.split(h, top)
	low := l.ite(lowF, lowG, lowH)
	high := l.ite(highF, highG, highH)
	if low == unclear || high == unclear {
		return unclear
	}
	r := l.branch(top, low, high)
	l.memo[key] = r
	return r
}

func (l *logic) split(f formula, atom int32) (low, high formula) {
	if f > always && l.branches[f].atom == atom {
		return l.branches[f].low, l.branches[f].high
	}
	return f, f
}

// example returns atoms and truth values for which f holds. f must not be never.
func (l *logic) example(f formula) (atoms []int32, values []bool) {
	for f > always {
		b := l.branches[f]
		holds := b.low == never
		atoms, values = append(atoms, b.atom), append(values, holds)
		if f = b.low; holds {
			f = b.high
		}
	}
	return atoms, values
}
