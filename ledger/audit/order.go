package audit

// after reports whether something was stated after another thing, by more than slack:
// by its own time, or since it stands behind that in the log, and so does an entry of
// such a time before it. So nobody gains by making an entry older than it is.
func (x claim) after(s claim) bool {
	end := s.at.Time().Add(slack)
	return x.at.Time().After(end) || x.index > s.index && x.late.Time().After(s.late.Time()) && x.late.Time().After(end)
}
