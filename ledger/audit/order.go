package audit

// after reports whether one entry was stated more than slack after another: by its
// own time, or because it follows the other in the log, as does an earlier entry
// with such a time. So backdating an entry gains nothing.
func (x claim) after(s claim) bool {
	end := s.at.Time().Add(slack)
	return x.at.Time().After(end) || x.index > s.index && x.late.Time().After(s.late.Time()) && x.late.Time().After(end)
}
