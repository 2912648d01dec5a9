package redact

import (
	"cmp"
	"slices"
	"strings"
)

// pieces finds the beginnings and the ends of forms at cuts. The time that it takes grows with the
// length of the longest form, and hardly with their number, since there may be many, and a server may
// say where a text is cut.
type pieces struct {
	// starts are the forms in the order of their bytes, and ends those in the order of their bytes
	// from the last one on.
	starts, ends []string
	// longest is the length of the longest form that there has been.
	longest int
}

func (p *pieces) add(form string) {
	at, _ := slices.BinarySearch(p.starts, form)
	p.starts = slices.Insert(p.starts, at, form)
	at, _ = slices.BinarySearchFunc(p.ends, form, fromEnd)
	p.ends = slices.Insert(p.ends, at, form)
	p.longest = max(p.longest, len(form))
}

func (p *pieces) remove(form string) {
	at, _ := slices.BinarySearch(p.starts, form)
	p.starts = slices.Delete(p.starts, at, at+1)
	at, _ = slices.BinarySearchFunc(p.ends, form, fromEnd)
	p.ends = slices.Delete(p.ends, at, at+1)
}

// atEnd returns the length of the longest end of a text with which a form begins, or 0.
func (p *pieces) atEnd(text string) int {
	return p.find(text, p.starts, strings.Compare, strings.HasPrefix, func(n int) string { return text[len(text)-n:] })
}

// atStart returns the length of the longest beginning of a text with which a form ends, or 0.
func (p *pieces) atStart(text string) int {
	return p.find(text, p.ends, fromEnd, strings.HasSuffix, func(n int) string { return text[:n] })
}

// find returns the length of the longest piece of a text that a form has, or 0. Of the forms, which are
// in the order of compare, the first one that does not come before a piece has it if any does.
func (p *pieces) find(text string, forms []string, compare func(a, b string) int, has func(form, piece string) bool, of func(n int) string) int {
	for n := min(p.longest, len(text)); n >= minCut; n-- {
		piece := of(n)
		if at, _ := slices.BinarySearchFunc(forms, piece, compare); at < len(forms) && has(forms[at], piece) {
			return n
		}
	}
	return 0
}

// fromEnd compares texts by their bytes from the last one on.
func fromEnd(a, b string) int {
	const step = 64
	for len(a) >= step && len(b) >= step && a[len(a)-step:] == b[len(b)-step:] {
		a, b = a[:len(a)-step], b[:len(b)-step]
	}
	for i := 1; i <= min(len(a), len(b)); i++ {
		if c := cmp.Compare(a[len(a)-i], b[len(b)-i]); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}
