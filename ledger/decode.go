package ledger

import (
	"fmt"
	"math"

	"chimera.ai/engine/ledger/internal/scan"
)

// known returns the shared copy of a name that many entries have.
func known[K ~string](names map[string]K, text string) K {
	if k, ok := names[text]; ok {
		return k
	}
	return K(text)
}

var kindNames, classNames = func() (map[string]Kind, map[string]Class) {
	kinds, names := map[string]Kind{}, map[string]Class{}
	for k, c := range classes {
		kinds[string(k)], names[string(c)] = k, c
	}
	return kinds, names
}()

// scanFields reads the fields of an entry that is written in the common way.
func scanFields(s *scan.Scanner) (e Entry) {
	s.Need(`{"format":"` + EntryFormat + `"`)
	e.Format = EntryFormat
	s.Need(`,"origin":"`)
	e.Origin = s.Text()
	s.Need(`,"chain":"`)
	e.Chain = s.Text()
	s.Need(`,"n":`)
	e.N = s.Number()
	s.Need(`,"prev":"`)
	if prev := s.Text(); prev != "" {
		var err error
		if e.Prev, err = ParseHash(prev); err != nil {
			s.Fail()
		}
	}
	s.Need(`,"key":"`)
	e.Key = s.Text()
	s.Need(`,"kind":"`)
	e.Kind = known(kindNames, s.Text())
	s.Need(`,"at":"`)
	if at := s.Text(); s.OK() && e.At.UnmarshalText([]byte(at)) != nil {
		s.Fail()
	}
	s.Need(`,"class":"`)
	e.Class = known(classNames, s.Text())
	for _, f := range [...]struct {
		name string
		to   *string
	}{{`,"agent":"`, &e.Agent}, {`,"plan":"`, &e.Plan}, {`,"run":"`, &e.Run}, {`,"node":"`, &e.Node}} {
		if s.Has(f.name) {
			*f.to = s.Text()
		}
	}
	if s.Has(`,"visit":`) {
		e.Visit = scanInt(s)
	}
	if s.Has(`,"element":`) {
		e.Element = scanInt(s)
	}
	if s.Has(`,"task":"`) {
		e.Task = s.Text()
	}
	if s.Has(`,"refs":[`) {
		e.Refs = scanRefs(s)
	}
	if s.Has(`,"body":"`) {
		e.Body = s.Text()
	}
	s.Need(`}`)
	return e
}

func scanInt(s *scan.Scanner) int {
	n := s.Number()
	if n > math.MaxInt {
		s.Fail()
		return 0
	}
	return int(n)
}

func scanRefs(s *scan.Scanner) (refs []Ref) {
	for s.OK() && len(refs) <= MaxRefs {
		s.Need(`{"name":"`)
		r := Ref{Name: s.Text()}
		s.Need(`,"digest":"`)
		r.Digest = s.Text()
		s.Need(`}`)
		refs = append(refs, r)
		if s.Has(`]`) {
			return refs
		}
		s.Need(`,`)
	}
	s.Fail()
	return nil
}

// scanEntry decodes an entry that is written in the common way, and reports whether it is.
// The texts of the entry share one copy of the bytes.
func scanEntry(b []byte) (*Entry, bool) {
	s := scan.New(string(b))
	e := scanFields(&s)
	if !s.Done() || e.check() != nil {
		return nil, false
	}
	// Most entries fit here; it saves what Encode would allocate.
	var room [2048]byte
	again, err := e.write(room[:0])
	if err != nil || string(again) != string(b) {
		return nil, false
	}
	return &e, true
}

// DecodeEntry reads canonical bytes, and refuses what [Entry.Encode] would not
// write, so that an entry has one hash.
func DecodeEntry(b []byte) (*Entry, error) {
	if len(b) > MaxEntryBytes {
		return nil, fmt.Errorf("decode entry: %d bytes, more than %d", len(b), MaxEntryBytes)
	}
	if e, ok := scanEntry(b); ok {
		return e, nil
	}
	return decodeEntry(b)
}
