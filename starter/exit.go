package main

import (
	"fmt"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/syntax"
)

// The exit codes.
const (
	exitDone       = 0
	exitNegative   = 1
	exitUsage      = 2
	exitUnanswered = 3
)

// failure is an error with its exit code. The message is empty if it was already shown.
type failure struct {
	code          int
	message, hint string
	// diagnostics are shown before the message; sources holds the texts of their files.
	diagnostics diag.Diagnostics
	sources     map[string][]byte
}

func (f *failure) Error() string { return f.message }

// misuse reports wrong use.
func misuse(format string, args ...any) *failure {
	return &failure{code: exitUsage, message: fmt.Sprintf(format, args...)}
}

// unsupported reports a part of the contract that is not implemented yet.
func unsupported(format string, args ...any) *failure {
	return &failure{code: exitUsage, message: "not supported yet: " + fmt.Sprintf(format, args...)}
}

// negative reports a negative answer.
func negative(format string, args ...any) *failure {
	return &failure{code: exitNegative, message: fmt.Sprintf(format, args...)}
}

// unanswered reports that no answer could be obtained.
func unanswered(format string, args ...any) *failure {
	return &failure{code: exitUnanswered, message: fmt.Sprintf(format, args...)}
}

// withHint adds a hint what to do next.
func (f *failure) withHint(format string, args ...any) *failure {
	f.hint = fmt.Sprintf(format, args...)
	return f
}

// meant suggests the name nearest to the given one, with a prefix; if none is near, it
// adds hint.
func (f *failure) meant(prefix, given string, names []string, hint string) *failure {
	if near := syntax.Nearest(given, names); near != "" {
		return f.withHint("Did you mean %s%s?", prefix, near)
	}
	return f.withHint("%s", hint)
}
