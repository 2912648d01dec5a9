package payload

import (
	"bytes"
	"context"
	"encoding/json"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
)

// Values keeps large values of runs in a store, for the run's own workflow alone. A
// run itself only ever has references to them, so that what it does takes as long
// whatever they are. It implements the interface of package activities. It is safe
// for concurrent use.
type Values struct{ kept }

// NewValues keeps the values of a namespace's runs in store.
func NewValues(store blob.Store, sealing Sealing, namespace string) *Values {
	return &Values{kept{store, sealing, namespace, sortLarge}}
}

// reference stands for a value in the store. In JSON it begins with referencePrefix, as
// no value does that goes without one.
type reference struct {
	Stored string `json:"$stored"`
	// At is the place of the value among several that are stored as one, from 1, or 0.
	At int `json:"at,omitempty"`
}

// leanValues is how many bytes of an outcome's values go without references where a run
// holds much already: few more than a reference has.
const leanValues = 256

const referencePrefix = `{"$stored":`

func refers(v contract.Value) bool { return bytes.HasPrefix(v, []byte(referencePrefix)) }

// Keep replaces values of one outcome by references, so that less than [Threshold]
// bytes are left of them, or a few where it is to be lean, besides the references: each
// that is as large goes by itself, and the others together where all of them are too
// large. It stores them before it returns.
func (v *Values) Keep(ctx context.Context, workflow string, values []contract.Value, lean bool) error {
	limit := Threshold
	if lean {
		limit = leanValues
	}
	var others []int
	left, alike := 0, false
	for i, value := range values {
		switch {
		case value == nil:
		case len(value) >= Threshold:
			digest, err := v.keep(ctx, workflow, value)
			if err != nil {
				return err
			}
			values[i] = reference{Stored: digest}.value()
		default:
			others = append(others, i)
			left += len(value)
			alike = alike || refers(value)
		}
	}
	if left < limit && !alike {
		return nil
	}
	all := []byte{'['}
	for k, i := range others {
		if k > 0 {
			all = append(all, ',')
		}
		all = append(all, values[i]...)
	}
	digest, err := v.keep(ctx, workflow, append(all, ']'))
	if err != nil {
		return err
	}
	for k, i := range others {
		values[i] = reference{Stored: digest, At: k + 1}.value()
	}
	return nil
}

func (v *Values) keep(ctx context.Context, workflow string, value json.RawMessage) (digest string, err error) {
	b, err := v.wrap(workflow, value)
	if err != nil {
		return "", err
	}
	return v.put(ctx, b)
}

func (r reference) value() contract.Value {
	b, err := json.Marshal(r)
	if err != nil {
		panic(err) // a text and a number can be written
	}
	return b
}

// maxGiven bounds the values of one request together, in bytes: all are in memory at
// once, and those that many edges bring are decoded for each of them.
const maxGiven = 256 << 20

// Give replaces references that [Values.Keep] has made for a workflow by the values.
// What was kept for another one, or by somebody else, is [ErrRefused]; what cannot be
// read now has the kind [contract.StoreUnavailable], and more than 256 MiB together
// [contract.TooLarge].
func (v *Values) Give(ctx context.Context, workflow string, values ...*contract.Value) error {
	type stored struct {
		whole json.RawMessage
		// parts are the values that are stored as one.
		parts []contract.Value
	}
	read := map[string]*stored{}
	given := 0
	for _, value := range values {
		if given += len(*value); given > maxGiven {
			return contract.Errorf(contract.TooLarge, "the edges bring more than %d bytes together", maxGiven)
		}
		if !refers(*value) {
			continue
		}
		var r reference
		if err := json.Unmarshal(*value, &r); err != nil {
			return refusal("the reference to a value cannot be read: %w", err)
		}
		s := read[r.Stored]
		if s == nil {
			b, err := v.get(ctx, r.Stored)
			if err != nil {
				return err
			}
			s = &stored{}
			if s.whole, err = v.unwrap(workflow, b); err != nil {
				return err
			}
			read[r.Stored] = s
		}
		if *value = s.whole; r.At == 0 {
			given += len(s.whole)
			continue
		}
		if s.parts == nil {
			if err := json.Unmarshal(s.whole, &s.parts); err != nil {
				return refusal("what a reference is to holds no values: %w", err)
			}
		}
		if r.At < 0 || r.At > len(s.parts) {
			return refusal("a reference is to value %d of %d", r.At, len(s.parts))
		}
		*value = s.parts[r.At-1]
		given += len(*value)
	}
	return nil
}
