package containment

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode"
)

// maxStates bounds the product of the patterns of one string.
const maxStates = 4000

// lang is the language of a pattern that is searched for, or its complement.
type lang struct {
	prog *syntax.Prog
	neg  bool
}

func newLang(re *regexp.Regexp) *lang {
	parsed, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return nil
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(prog.Inst) > 2000 {
		return nil
	}
	return &lang{prog: prog}
}

// front is where a search stands after some runes: threads before empty-width
// conditions are resolved.
type front struct {
	pcs  []uint32
	done bool
}

// advance resolves conditions between prev and next, then consumes next; -1 is
// the edge of the text.
func (l *lang) advance(f front, prev, next rune) front {
	if f.done {
		return f
	}
	cond := syntax.EmptyOpContext(prev, next)
	seen := make([]bool, len(l.prog.Inst))
	var out []uint32
	done := false
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
			done = true
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, in.Out, in.Arg)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(in.Arg)&^cond == 0 {
				stack = append(stack, in.Out)
			}
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, in.Out)
		case syntax.InstFail:
		default:
			if next >= 0 && in.MatchRune(next) {
				out = append(out, in.Out)
			}
		}
	}
	if done {
		return front{done: true}
	}
	slices.Sort(out)
	return front{pcs: slices.Compact(out)}
}

// alphabet gives one rune of each kind that the patterns tell apart.
func alphabet(langs []*lang, avoid []string) []rune {
	cuts := []rune{0, '\n', '\n' + 1, '0', '9' + 1, 'A', 'Z' + 1, '_', '_' + 1, 'a', 'z' + 1, 0xD800, 0xE000}
	for _, l := range langs {
		for i := range l.prog.Inst {
			in := &l.prog.Inst[i]
			switch in.Op {
			case syntax.InstRune, syntax.InstRune1:
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
			}
		}
	}
	for _, s := range avoid {
		for _, r := range s {
			cuts = append(cuts, r, r+1)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var out []rune
	for _, r := range cuts {
		if r <= unicode.MaxRune && (r < 0xD800 || r >= 0xE000) {
			out = append(out, r)
		}
	}
	// Letters first, for readable counterexamples.
	slices.SortStableFunc(out, func(a, b rune) int {
		la, lb := a >= ' ' && a < 127, b >= ' ' && b < 127
		switch {
		case la && !lb:
			return -1
		case lb && !la:
			return 1
		}
		return 0
	})
	return out
}

type node struct {
	fronts []front
	prev   rune
	n      int
	back   int
	r      rune
}

// words searches the product, breadth first, so that the shortest comes out.
func (p *prover) words(langs []*lang, least, most int, avoid []string) result {
	for _, s := range avoid {
		if l := newLang(regexp.MustCompile(`^(?:` + regexp.QuoteMeta(s) + `)\z`)); l != nil {
			l.neg = true
			langs = append(langs, l)
		}
	}
	runes := alphabet(langs, avoid)
	most1 := least
	if most >= 0 {
		most1 = most
	}
	if len(runes) > 400 || most1 > 100_000 {
		return result{}
	}
	nodes := []node{{fronts: make([]front, len(langs)), prev: -1, back: -1}}
	seen := map[string]bool{}
	for i := 0; i < len(nodes); i++ {
		at := nodes[i]
		if at.n >= least {
			ok := true
			for j, l := range langs {
				if l.advance(at.fronts[j], at.prev, -1).done == l.neg {
					ok = false
					break
				}
			}
			if ok {
				var out []rune
				for k := i; nodes[k].back >= 0; k = nodes[k].back {
					out = append(out, nodes[k].r)
				}
				slices.Reverse(out)
				return result{state: found, value: string(out)}
			}
		}
		if most >= 0 && at.n >= most {
			continue
		}
		for _, r := range runes {
			p.step()
			next := node{prev: r, n: at.n + 1, back: i, r: r, fronts: make([]front, len(langs))}
			dead := false
			for j, l := range langs {
				next.fronts[j] = l.advance(at.fronts[j], at.prev, r)
				dead = dead || l.neg && next.fronts[j].done
			}
			if dead {
				continue
			}
			n := next.n
			if most < 0 {
				n = min(n, least)
			}
			class := 0
			switch {
			case r == '\n':
				class = 1
			case syntax.IsWordChar(r):
				class = 2
			}
			key := fmt.Sprint(next.fronts, n, class)
			if seen[key] {
				continue
			}
			seen[key] = true
			if len(nodes) >= maxStates {
				return result{}
			}
			nodes = append(nodes, next)
		}
	}
	return result{state: empty}
}
