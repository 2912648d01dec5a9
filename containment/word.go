package containment

import (
	"encoding/binary"
	"slices"
)

// alphabet returns one character of each kind that the patterns and the strings to avoid
// distinguish, readable ones first.
func alphabet(langs []*lang, avoid map[string]bool) []rune {
	var cuts []rune
	own := map[rune]bool{}
	for _, l := range langs {
		cuts = append(cuts, l.cuts...)
	}
	for s := range avoid {
		for _, r := range s {
			own[r] = true
			cuts = append(cuts, r, r+1)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	seen := map[string]bool{}
	var out []rune
	add := func(r rune) {
		var key []byte
		if own[r] {
			key = binary.AppendUvarint(append(key, 'r'), uint64(r))
		} else {
			for _, l := range langs {
				key = binary.AppendUvarint(key, uint64(l.kind(r)))
			}
		}
		if !seen[string(key)] {
			seen[string(key)] = true
			out = append(out, r)
		}
	}
	readable := func(r rune) bool { return r > ' ' && r < 127 }
	for _, r := range cuts {
		if readable(r) {
			add(r)
		}
	}
	for _, r := range cuts {
		if !readable(r) && r <= 0x10FFFF && (r < 0xD800 || r >= 0xE000) {
			add(r)
		}
	}
	return out
}

// trie holds the strings to avoid; node 0 is the root.
type trie struct {
	next []map[rune]int
	ends []bool
}

func newTrie(words map[string]bool) *trie {
	t := &trie{next: []map[rune]int{nil}, ends: []bool{false}}
	for w := range words {
		at := 0
		for _, r := range w {
			n, ok := t.next[at][r]
			if !ok {
				n = len(t.next)
				t.next, t.ends = append(t.next, nil), append(t.ends, false)
				if t.next[at] == nil {
					t.next[at] = map[rune]int{}
				}
				t.next[at][r] = n
			}
			at = n
		}
		t.ends[at] = true
	}
	return t
}

// wordState is a state of the product: one of each language, the node of the trie or -1,
// and how a string leads here.
type wordState struct {
	at   []int
	trie int
	n    int
	back int
	r    rune
}

// words searches the product of the languages breadth first, so that it finds the
// shortest string. signs says which patterns must match.
func (p *prover) words(langs []*lang, signs []bool, least, most int, avoid map[string]bool) result {
	weight := 0
	for w := range avoid {
		weight += 1 + len(w)/8
	}
	p.charge(1 + weight/8)
	t := newTrie(avoid)
	runes := alphabet(langs, avoid)
	if len(runes) > maxLetters {
		return result{why: reason{other: "patterns distinguish too many characters"}}
	}
	states := []wordState{{at: make([]int, len(langs)), back: -1}}
	seen := map[string]bool{}
	var key []byte
	for i := 0; i < len(states); i++ {
		s := states[i]
		if s.n >= least && (s.trie < 0 || !t.ends[s.trie]) {
			ok := true
			for j, l := range langs {
				ok = ok && l.accepts(s.at[j]) == signs[j]
			}
			if ok {
				out := make([]rune, s.n)
				for k := i; states[k].back >= 0; k = states[k].back {
					out[states[k].n-1] = states[k].r
				}
				return result{state: found, value: string(out)}
			}
		}
		if s.n >= most {
			continue
		}
		p.charge(1 + len(runes)*len(langs)/8)
		at := make([]int, len(langs))
		for _, r := range runes {
			dead := false
			for j, l := range langs {
				at[j] = l.advance(s.at[j], r)
				dead = dead || !signs[j] && l.fronts[at[j]].done
			}
			if dead {
				continue
			}
			leaf := -1
			if s.trie >= 0 {
				if n, ok := t.next[s.trie][r]; ok {
					leaf = n
				}
			}
			// Beyond the least length the shorter of two strings leaves more room.
			key = binary.AppendUvarint(key[:0], uint64(min(s.n+1, least)))
			key = binary.AppendVarint(key, int64(leaf))
			for _, a := range at {
				key = binary.AppendUvarint(key, uint64(a))
			}
			if seen[string(key)] {
				continue
			}
			seen[string(key)] = true
			states = append(states, wordState{slices.Clone(at), leaf, s.n + 1, i, r})
		}
	}
	return result{state: empty}
}
