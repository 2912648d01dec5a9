package schemas

import (
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"chimera.ai/engine/internal/excerpt"
)

// Validate checks a decoded value: nil, bool, string, [encoding/json.Number],
// []any or map[string]any, as [Decode] returns it. The error is an [*Invalid] if the
// value does not satisfy the schema, [ErrTooLarge] if it exceeds a bound, and another if
// the value is not decoded JSON.
func (s *Schema) Validate(v any) error {
	sz, err := measure(v)
	if err != nil {
		return fmt.Errorf("validate: %w", err)
	}
	return s.validate(v, sz)
}

// ValidateJSON decodes a text as [Decode] does, checks the value as
// [Schema.Validate] does, and returns it. The value is nil if there is an error.
func (s *Schema) ValidateJSON(raw []byte) (any, error) {
	v, sz, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if err := s.validate(v, sz); err != nil {
		return nil, err
	}
	return v, nil
}

func (s *Schema) validate(v any, sz size) (err error) {
	g, err := s.bounds()
	if err != nil {
		return fmt.Errorf("validate: %w", err)
	}
	if err := g.admit(v, sz); err != nil {
		return fmt.Errorf("validate: %w", err)
	}
	defer func() {
		// No value is known to cause a panic, but one must not end the process.
		if r := recover(); r != nil {
			err = fmt.Errorf("validate: the validator failed: %s", excerpt.Clip(fmt.Sprint(r), 200))
		}
	}()
	err = s.compiled.Validate(v)
	var ve *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &ve):
		return flatten(ve, g.at, s.compiled, v)
	}
	return fmt.Errorf("validate: %s", excerpt.Clip(err.Error(), 300))
}
