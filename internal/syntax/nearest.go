package syntax

// Nearest returns the candidate that name most probably means, or "".
func Nearest(name string, candidates []string) string { return "" }
