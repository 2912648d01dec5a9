package payload

import (
	"bytes"
	"context"
	"encoding/json"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
)

// Values stores large values of runs, each for the run's own workflow alone. A run
// only has references to them, so that its work does not depend on their size. It
// implements the interface of package activities. It is safe for concurrent use.
type Values struct{ kept }

// NewValues returns the values of a namespace's runs, in store.
func NewValues(store blob.Store, sealing Sealing, namespace string) *Values {
	return &Values{kept{store, sealing, namespace, sortLarge, roleValues}}
}

// reference refers to a value in the store. In JSON it begins with referencePrefix,
// as no value does that is not stored.
type reference struct {
	Stored string `json:"$stored"`
	// At is the index, from 1, of the value among several that are stored
	// together, or 0.
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
	var others, large []int
	left, alike := 0, false
	for i, value := range values {
		switch {
		case value == nil:
		case len(value) >= Threshold:
			large = append(large, i)
		default:
			others = append(others, i)
			left += len(value)
			alike = alike || refers(value)
		}
	}
	all, ctx := abreast(ctx)
	for _, i := range large {
		all.Go(func() error {
			digest, err := v.keep(ctx, workflow, values[i])
			if err == nil {
				values[i] = reference{Stored: digest}.value()
			}
			return err
		})
	}
	if left >= limit || alike {
		all.Go(func() error { return v.together(ctx, workflow, values, others) })
	}
	return all.Wait()
}

// together stores several values as one.
func (v *Values) together(ctx context.Context, workflow string, values []contract.Value, these []int) error {
	all := []byte{'['}
	for k, i := range these {
		if k > 0 {
			all = append(all, ',')
		}
		all = append(all, values[i]...)
	}
	digest, err := v.keep(ctx, workflow, append(all, ']'))
	if err != nil {
		return err
	}
	for k, i := range these {
		values[i] = reference{Stored: digest, At: k + 1}.value()
	}
	return nil
}

// atOnce is how many values of one request are read or stored concurrently: a slow
// store takes little longer for several than for one.
const atOnce = 4

func abreast(ctx context.Context) (*errgroup.Group, context.Context) {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(atOnce)
	return all, ctx
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
	references := make([]reference, len(values))
	var digests []string
	read := map[string]*stored{}
	for i, value := range values {
		if !refers(*value) {
			continue
		}
		r := &references[i]
		if err := json.Unmarshal(*value, r); err != nil {
			return refusal("the reference to a value cannot be read: %w", err)
		}
		if read[r.Stored] == nil {
			read[r.Stored] = new(stored)
			digests = append(digests, r.Stored)
		}
		read[r.Stored].given = read[r.Stored].given || r.At == 0
	}
	if err := v.read(ctx, workflow, digests, read); err != nil {
		return err
	}
	given := 0
	for i, value := range values {
		if given += len(*value); given > maxGiven {
			return errGiven
		}
		if !refers(*value) {
			continue
		}
		r := references[i]
		s := read[r.Stored]
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

// stored is the target of a reference.
type stored struct {
	whole json.RawMessage
	// given reports that a value is the whole of it.
	given bool
	// parts are the values that are stored as one.
	parts []contract.Value
}

// read reads what is stored under each of these digests.
func (v *Values) read(ctx context.Context, workflow string, digests []string, into map[string]*stored) error {
	var size atomic.Int64
	all, ctx := abreast(ctx)
	for _, digest := range digests {
		s := into[digest]
		all.Go(func() error {
			if size.Load() > maxGiven {
				return errGiven
			}
			b, err := v.get(ctx, digest)
			if err != nil {
				return err
			}
			if s.whole, err = v.unwrap(workflow, b); err != nil {
				return err
			}
			if s.given {
				size.Add(int64(len(s.whole)))
			}
			return nil
		})
	}
	return all.Wait()
}

var errGiven = contract.Errorf(contract.TooLarge, "the edges bring more than %d bytes together", maxGiven)
