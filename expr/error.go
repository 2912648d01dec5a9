package expr

import (
	"fmt"
	"strings"

	"chimera.ai/engine/internal/excerpt"
)

// Error is an error in an expression, or in its evaluation.
type Error struct {
	// Offset counts bytes in the expression's text. It is 0 where the place is
	// not known.
	Offset int
	// Message is one line.
	Message string
	// Unknown is the name that the expression reads, or with Call the function
	// that it calls, if that does not exist.
	Unknown string
	Call    bool
}

func (e *Error) Error() string { return e.Message }

// TemplateError is an error in one string of a template, or in its evaluation.
type TemplateError struct {
	// Path holds the map keys (string) and list indexes (int) that lead to the string.
	Path []any
	// Offset counts bytes in that string.
	Offset int
	// Message is one line.
	Message string
	// Unknown and Call are those of [Error].
	Unknown string
	Call    bool
}

func (e TemplateError) Error() string {
	if len(e.Path) == 0 {
		return e.Message
	}
	var sb strings.Builder
	for i, p := range e.Path {
		switch p := p.(type) {
		case int:
			fmt.Fprintf(&sb, "[%d]", p)
		case string:
			if i > 0 {
				sb.WriteByte('.')
			}
			sb.WriteString(excerpt.Clip(p, 60))
		}
	}
	return excerpt.Clip(sb.String(), 200) + ": " + e.Message
}

func errorf(offset int, format string, args ...any) *Error {
	return &Error{Offset: offset, Message: excerpt.Clip(fmt.Sprintf(format, args...), maxMessage)}
}

const maxMessage = 320
