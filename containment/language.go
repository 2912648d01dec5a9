package containment

import (
	"encoding/binary"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode"
)

// Bounds of patterns: the instructions of one, and the kinds of characters that the
// patterns of one string distinguish.
const (
	maxInstructions = 2000
	maxLetters      = 300
)

// lang is the language of a pattern that is searched for, as an automaton that is built
// lazily.
type lang struct {
	prog *syntax.Prog
	// cuts holds the first characters of the intervals within which the pattern does not
	// distinguish characters. kinds numbers the intervals: the pattern does not
	// distinguish intervals of equal numbers either.
	cuts  []rune
	kinds []int

	prover *prover
	seen   []bool
	fronts []front
	index  map[string]int
	next   map[[2]int]int
	ends   map[int]bool
}

// front is the state of a search: its threads, before conditions on the position are
// resolved, and the kind of the previous character.
type front struct {
	pcs  []uint32
	done bool
	prev rune
}

// language returns the language of a pattern, or nil if it is too large.
func (p *prover) language(re *regexp.Regexp) *lang {
	text := re.String()
	if l, ok := p.langs[text]; ok {
		return l
	}
	if p.langs == nil {
		p.langs = map[string]*lang{}
	}
	p.langs[text] = nil
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(prog.Inst) > maxInstructions {
		return nil
	}
	l := &lang{prog: prog, prover: p, seen: make([]bool, len(prog.Inst)), index: map[string]int{}, next: map[[2]int]int{}, ends: map[int]bool{}}
	p.charge(1 + len(prog.Inst)/8)
	l.sort(p)
	l.intern(front{prev: -1})
	p.langs[text] = l
	return l
}

// sort finds the kinds of characters that l distinguishes.
func (l *lang) sort(p *prover) {
	cuts := []rune{0, '\n', '\n' + 1, '0', '9' + 1, 'A', 'Z' + 1, '_', '_' + 1, 'a', 'z' + 1, 0xD800, 0xE000}
	var readers []*syntax.Inst
	for i := range l.prog.Inst {
		in := &l.prog.Inst[i]
		switch in.Op {
		case syntax.InstRune, syntax.InstRune1:
			readers = append(readers, in)
			if len(in.Rune) == 1 {
				r := in.Rune[0]
				cuts = append(cuts, r, r+1)
				for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
					cuts = append(cuts, f, f+1)
				}
				continue
			}
			for j, r := range in.Rune {
				cuts = append(cuts, r+rune(j%2))
			}
		case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			readers = append(readers, in)
		case syntax.InstAlt, syntax.InstAltMatch, syntax.InstCapture, syntax.InstEmptyWidth, syntax.InstMatch, syntax.InstFail, syntax.InstNop:
		}
	}
	slices.Sort(cuts)
	l.cuts = slices.Compact(cuts)
	p.charge(len(l.cuts) * (len(readers) + 1) / 16)
	number := map[string]int{}
	sign := make([]byte, len(readers)+1)
	for _, r := range l.cuts {
		for i, in := range readers {
			sign[i] = 0
			if in.MatchRune(r) {
				sign[i] = 1
			}
		}
		sign[len(readers)] = byte(place(r) + 2)
		n, ok := number[string(sign)]
		if !ok {
			n = len(number)
			number[string(sign)] = n
		}
		l.kinds = append(l.kinds, n)
	}
}

func (l *lang) kind(r rune) int {
	i, exact := slices.BinarySearch(l.cuts, r)
	if !exact {
		i--
	}
	return l.kinds[i]
}

// place returns one character for all that conditions such as \b do not distinguish.
func place(r rune) rune {
	switch {
	case r < 0:
		return -1
	case r == '\n':
		return 1
	case syntax.IsWordChar(r):
		return 2
	}
	return 3
}

var placeRunes = [...]rune{1: '\n', 2: 'a', 3: ' '}

func (l *lang) intern(f front) int {
	var key []byte
	if f.done {
		f.pcs, f.prev = nil, -1
		key = []byte("done")
	} else {
		key = binary.AppendVarint(key, int64(f.prev))
		for _, pc := range f.pcs {
			key = binary.AppendUvarint(key, uint64(pc))
		}
	}
	n, ok := l.index[string(key)]
	if !ok {
		n = len(l.fronts)
		l.index[string(key)] = n
		l.fronts = append(l.fronts, f)
	}
	return n
}

// advance advances a search by the character r.
func (l *lang) advance(at int, r rune) int {
	if l.fronts[at].done {
		return at
	}
	k := [2]int{at, l.kind(r)}
	n, ok := l.next[k]
	if !ok {
		f := l.run(l.fronts[at], r)
		f.prev = place(r)
		n = l.intern(f)
		l.next[k] = n
	}
	return n
}

// accepts reports whether the pattern has been found if the string ends here.
func (l *lang) accepts(at int) bool {
	if l.fronts[at].done {
		return true
	}
	yes, ok := l.ends[at]
	if !ok {
		yes = l.run(l.fronts[at], -1).done
		l.ends[at] = yes
	}
	return yes
}

// run resolves the conditions between the previous character and next, then consumes
// next. -1 is the edge of the string.
func (l *lang) run(f front, next rune) front {
	prev := f.prev
	if prev >= 0 {
		prev = placeRunes[prev]
	}
	cond := syntax.EmptyOpContext(prev, next)
	l.prover.charge(1 + len(l.seen)/16)
	seen := l.seen
	clear(seen)
	var out []uint32
	stack := append(slices.Clone(f.pcs), uint32(l.prog.Start))
	for len(stack) > 0 {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		in := &l.prog.Inst[pc]
		switch in.Op {
		case syntax.InstMatch:
			return front{done: true}
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, in.Out, in.Arg)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.Arg)&^cond == 0 {
				stack = append(stack, in.Out)
			}
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, in.Out)
		case syntax.InstFail:
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if next >= 0 && in.MatchRune(next) {
				out = append(out, in.Out)
			}
		}
	}
	slices.Sort(out)
	return front{pcs: slices.Compact(out)}
}
