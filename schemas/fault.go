package schemas

import (
	"fmt"

	"chimera.ai/engine/internal/excerpt"
)

// PlaceError reports a part of a schema that makes it unusable.
type PlaceError struct {
	// Pointer is a JSON pointer (RFC 6901) to the part; "" is the whole schema.
	Pointer string
	Err     error
}

func (e *PlaceError) Error() string {
	return fmt.Sprintf("at %s: %v", excerpt.Quote(e.Pointer, 200), e.Err)
}

// Unwrap returns what is wrong with the part.
func (e *PlaceError) Unwrap() error { return e.Err }

// ReferenceError reports a reference that leads to no schema.
type ReferenceError struct {
	// Reference is the reference as the schema has it.
	Reference string
	// Outside reports that it leads out of the document: nothing is ever loaded.
	Outside bool
}

func (e *ReferenceError) Error() string {
	if e.Outside {
		return fmt.Sprintf("the reference %s leaves the document, and nothing is ever loaded", excerpt.Quote(e.Reference, 200))
	}
	return fmt.Sprintf("the reference %s leads nowhere", excerpt.Quote(e.Reference, 200))
}
