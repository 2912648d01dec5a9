// Package strict decodes JSON that has to be as its format says.
package strict

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Decode decodes one JSON document into a value. It refuses fields that the value does
// not have, and anything after the document. As in [encoding/json], the letter case of
// fields does not matter, and the last of several counts: whoever must tell such
// documents apart compares what was decoded, encoded again.
func Decode(raw []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("data after the document")
	}
	return nil
}
