package payload

import (
	"context"
	"errors"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/blob"
)

// Codec opens payloads for people: for the Temporal UI and command line, through
// the codec endpoint. It accepts a sealed payload from any context, since the
// protocol does not say where it comes from, so no decision may depend on the
// result. It never seals.
type Codec struct {
	// Keys opens what is sealed, or is nil.
	Keys *Keyring
	// Limit bounds all that one call opens, in bytes.
	Limit int
}

var _ converter.PayloadCodec = Codec{}

// ErrLimit reports that a request asks for more than its limit.
var ErrLimit = errors.New("the payloads are too large to be shown")

// Encode refuses: those who may read payloads may not create them.
func (Codec) Encode([]*commonpb.Payload) ([]*commonpb.Payload, error) {
	return nil, errors.New("payloads are opened here, and not sealed")
}

// Decode implements the SDK's interface. A payload that is neither sealed nor
// compressed is returned unchanged. A compiled plan is shown as JSON, or, if it
// travels as its digest, as its reference.
func (c Codec) Decode(ps []*commonpb.Payload) ([]*commonpb.Payload, error) {
	opened := make([]*commonpb.Payload, len(ps))
	left := c.Limit
	for i, p := range ps {
		var err error
		if isSealed(p) {
			if p, err = open(c.Keys, p, "", left); err != nil {
				return nil, fmt.Errorf("payload %d: %w", i, err)
			}
		}
		if p, err = decompress(p, left); err != nil {
			return nil, fmt.Errorf("payload %d: %w", i, err)
		}
		if left -= len(p.GetData()); left < 0 {
			return nil, ErrLimit
		}
		p = unscoped(p)
		if encodingOf(p) == encodingPlan {
			text := p.GetData()
			if len(text) == 0 { // its digest, and what else the run has of it
				text = p.GetMetadata()[metadataHead]
			}
			p = &commonpb.Payload{
				Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)},
				Data:     text,
			}
		}
		opened[i] = p
	}
	return opened, nil
}

// bounded is a blob store from which a limited number of bytes can be read.
type bounded struct {
	blob.Store
	left int
}

// Bounded returns a store for one reader, from which at most limit bytes can be
// read. It is not safe for concurrent use.
func Bounded(store blob.Store, limit int) blob.Store { return &bounded{store, limit} }

func (b *bounded) Get(ctx context.Context, digest string) ([]byte, error) {
	if b.left <= 0 {
		return nil, ErrLimit
	}
	data, err := b.Store.Get(ctx, digest)
	if err != nil {
		return nil, err
	}
	if b.left -= len(data); b.left < 0 {
		return nil, ErrLimit
	}
	return data, nil
}
