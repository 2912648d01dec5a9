package audit

import "chimera.ai/engine/ledger"

// after reports whether an entry was stated more than slack after a statement: by its own time,
// or by what stands between the two in the log. So backdating an entry gains nothing.
func (x claim) after(s claim) bool {
	return x.at.Time().After(s.at.Time().Add(slack)) || x.index > s.over
}

// order judges the times of the statements by those of the entries around them, and by when
// witnesses have cosigned the log with them, and without what follows.
func (v *verifier) order() {
	for i := range v.statements {
		s := &v.statements[i]
		s.at = v.clock.stated(s.index, s.at)
		if at, ok := v.seenBy(s.index); ok && at.Add(slack).Before(s.at.Time()) {
			s.at = ledger.At(at)
		}
		end := s.at.Time().Add(slack)
		s.over = v.clock.passes(s.index, end)
		if place, ok := v.addedAfter(s.index, end); ok {
			s.over = min(s.over, place)
		}
	}
}
