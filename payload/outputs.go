package payload

import (
	"bytes"
	"context"
	"encoding/json"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
)

// Outputs keeps what runs came to, outside of histories, so that only the run's own
// workflow reads it: sealed where there are keys, else marked with its owner. It
// implements the interface of package activities. It is safe for concurrent use.
type Outputs struct {
	store     blob.Store
	sealing   Sealing
	namespace string
}

// NewOutputs keeps the outputs of a namespace's runs; large ones lie in store.
func NewOutputs(store blob.Store, sealing Sealing, namespace string) *Outputs {
	return &Outputs{store, sealing, namespace}
}

// outputLabel tells a run's output apart from all else that is sealed for its
// workflow.
const outputLabel = "output"

// The forms of a kept output: its first byte, and then a payload in protobuf, or
// the digest of one in the store.
const (
	outputInline = 'p'
	outputStored = 'd'
)

// Keep gives the form in which an output is kept, of at most [Threshold] bytes:
// larger ones are stored before it returns, and referred to.
func (o *Outputs) Keep(ctx context.Context, workflow string, output json.RawMessage) ([]byte, error) {
	p := &commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)},
		Data:     output,
	}
	at := o.scope(workflow)
	var err error
	switch {
	case o.sealing.Keys != nil:
		p, err = seal(o.sealing.Keys, o.sealing.Keys.first, p, at.context(outputLabel), o.sealing.Compress)
	case o.sealing.Compress:
		p, err = compress(p)
	}
	if err != nil {
		return nil, err
	}
	if !isSealed(p) {
		p = scoped(p, o.owner(workflow))
	}
	b, err := encode(p)
	if err != nil {
		return nil, err
	}
	if len(b) < Threshold {
		return append([]byte{outputInline}, b...), nil
	}
	digest, err := o.store.Put(ctx, b)
	if err != nil {
		return nil, contract.Errorf(contract.StoreUnavailable, "store the output: %w", err)
	}
	return append([]byte{outputStored}, digest...), nil
}

// Give reads what [Outputs.Keep] gave for a workflow. What was kept for another
// one, or by somebody else, is [ErrRefused]; what cannot be read now has the kind
// [contract.StoreUnavailable].
func (o *Outputs) Give(ctx context.Context, workflow string, kept []byte) (json.RawMessage, error) {
	if len(kept) == 0 {
		return nil, refusal("the output is empty")
	}
	form, b := kept[0], kept[1:]
	switch form {
	case outputInline:
	case outputStored:
		var err error
		if b, err = o.store.Get(ctx, string(b)); err != nil {
			// A blob that is gone may come back, from a backup or another folder.
			return nil, contract.Errorf(contract.StoreUnavailable, "read the output: %w", err)
		}
	default:
		return nil, refusal("the form %q of an output is not known", form)
	}
	p, err := decode(b)
	if err != nil {
		return nil, refusal("%w", err)
	}
	at := o.scope(workflow)
	switch {
	case isSealed(p):
		p, err = open(o.sealing.Keys, p, at.context(outputLabel), maxOpened)
	case o.sealing.Keys != nil && !o.sealing.AcceptPlain:
		err = refusal("the output of a run is not sealed (%s)", at)
	case string(p.GetMetadata()[metadataScope]) != o.owner(workflow):
		err = refusal("it was not kept as the output of a run (%s)", at)
	default:
		p, err = decompress(unscoped(p), maxOpened)
	}
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(p.GetMetadata()[converter.MetadataEncoding], []byte(converter.MetadataEncodingJSON)) || !json.Valid(p.GetData()) {
		return nil, refusal("the output of a run is not JSON")
	}
	return p.GetData(), nil
}

func (o *Outputs) scope(workflow string) scope {
	return scopeOf(converter.WorkflowSerializationContext{Namespace: o.namespace, WorkflowID: workflow})
}

// owner marks an output that is not sealed: no payload of a workflow has the same.
func (o *Outputs) owner(workflow string) string {
	return owner(o.namespace, workflow+"\n"+outputLabel)
}
