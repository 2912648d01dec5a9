package plan

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Decode reads canonical bytes and verifies the plan as [Plan.Verify] does. It
// refuses bytes that [Plan.Encode] would not write, so that a plan has one digest.
func Decode(b []byte) (*Plan, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	p := new(Plan)
	if err := dec.Decode(p); err != nil {
		return nil, fmt.Errorf("decode plan: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode plan: data after the plan")
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
