package plan

import (
	"bytes"
	"errors"
	"fmt"

	"chimera.ai/engine/internal/strict"
)

// Decode reads canonical bytes and verifies the plan as [Plan.Verify] does. It
// refuses bytes that [Plan.Encode] would not write, so that a plan has one digest.
func Decode(b []byte) (*Plan, error) {
	p := new(Plan)
	if err := strict.Decode(b, p); err != nil {
		return nil, fmt.Errorf("decode plan: %w", err)
	}
	if err := p.Verify(); err != nil {
		return nil, err
	}
	again, err := p.Encode()
	if err != nil {
		return nil, fmt.Errorf("decode plan: %w", err)
	}
	if !bytes.Equal(again, b) {
		return nil, errors.New("decode plan: the bytes are not canonical")
	}
	p.Index()
	return p, nil
}
