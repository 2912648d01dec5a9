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

// kept stores values of one kind outside of histories so that only the workflow
// they belong to can read them: sealed if there are keys, else marked with their
// owner.
type kept struct {
	store     blob.Store
	sealing   Sealing
	namespace string
	// label distinguishes them from everything else that is sealed for the
	// workflow, and role is the one that seals them.
	label sort
	role  role
}

// wrap returns the form in which a value is stored for a workflow.
func (k *kept) wrap(workflow string, value json.RawMessage) ([]byte, error) {
	p := &commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)},
		Data:     value,
	}
	var err error
	switch {
	case k.sealing.Keys != nil:
		p, err = seal(k.sealing.Keys, k.sealing.Keys.first, k.role, p, k.scope(workflow).context(k.label), k.sealing.Compress)
	case k.sealing.Compress:
		p, err = compress(p)
	}
	if err != nil {
		return nil, err
	}
	if !isSealed(p) {
		p = scoped(p, k.owner(workflow))
	}
	return encode(p)
}

// put stores what wrap returned, and returns its digest.
func (k *kept) put(ctx context.Context, b []byte) (string, error) {
	digest, err := k.store.Put(ctx, b)
	if err != nil {
		return "", contract.Errorf(contract.StoreUnavailable, "store the %s: %w", k.label, err)
	}
	return digest, nil
}

// get reads what was stored. A missing blob may come back, from a backup or another
// folder.
func (k *kept) get(ctx context.Context, digest string) ([]byte, error) {
	b, err := k.store.Get(ctx, digest)
	if err != nil {
		return nil, contract.Errorf(contract.StoreUnavailable, "read the %s: %w", k.label, err)
	}
	return b, nil
}

// unwrap reads what wrap returned for the workflow.
func (k *kept) unwrap(workflow string, b []byte) (json.RawMessage, error) {
	p, err := decode(b)
	if err != nil {
		return nil, refusal("%w", err)
	}
	at := k.scope(workflow)
	switch {
	case isSealed(p) && madeBy(p) != roleEngine && madeBy(p) != k.role:
		err = refusal("the %s of a run is sealed with the key of the role %.40q (%s)", k.label, string(madeBy(p)), at)
	case isSealed(p):
		p, err = open(k.sealing.Keys, p, at.context(k.label), maxOpened)
	case k.sealing.Keys != nil && !k.sealing.AcceptPlain:
		err = refusal("the %s of a run is not sealed (%s)", k.label, at)
	case string(p.GetMetadata()[metadataScope]) != k.owner(workflow):
		err = refusal("it was not kept as the %s of a run (%s)", k.label, at)
	default:
		p, err = decompress(unscoped(p), maxOpened)
	}
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(p.GetMetadata()[converter.MetadataEncoding], []byte(converter.MetadataEncodingJSON)) || !json.Valid(p.GetData()) {
		return nil, refusal("the %s of a run is not JSON", k.label)
	}
	return p.GetData(), nil
}

func (k *kept) scope(workflow string) scope {
	return scopeOf(converter.WorkflowSerializationContext{Namespace: k.namespace, WorkflowID: workflow})
}

// owner marks what is not sealed: no payload of a workflow has the same.
func (k *kept) owner(workflow string) string {
	return owner(k.namespace, workflow+"\n"+string(k.label))
}

// Outputs stores the outputs of runs outside of histories so that only the run's
// own workflow can read them. It implements the interface of package activities. It
// is safe for concurrent use.
type Outputs struct{ kept }

// NewOutputs returns the outputs of a namespace's runs, which the engine keeps, or those of
// the calls of effects, which the role effects keeps. Large ones are in store.
func NewOutputs(store blob.Store, sealing Sealing, namespace string, ofEffects bool) *Outputs {
	of := roleEngine
	if ofEffects {
		of = roleEffects
	}
	return &Outputs{kept{store, sealing, namespace, sortOutput, of}}
}

// The forms of a kept output: its first byte, and then a payload in protobuf, or
// the digest of one in the store.
const (
	outputInline = 'p'
	outputStored = 'd'
)

// Keep returns the form in which an output is kept, of at most [Threshold] bytes:
// it stores larger ones, and returns a reference.
func (o *Outputs) Keep(ctx context.Context, workflow string, output json.RawMessage) ([]byte, error) {
	b, err := o.wrap(workflow, output)
	if err != nil {
		return nil, err
	}
	if len(b) < Threshold {
		return append([]byte{outputInline}, b...), nil
	}
	digest, err := o.put(ctx, b)
	if err != nil {
		return nil, err
	}
	return append([]byte{outputStored}, digest...), nil
}

// Give reads what [Outputs.Keep] returned for a workflow. If it was kept for
// another one, or by somebody else, the error is [ErrRefused]; if it cannot be read
// now, its kind is [contract.StoreUnavailable].
func (o *Outputs) Give(ctx context.Context, workflow string, kept []byte) (json.RawMessage, error) {
	if len(kept) == 0 {
		return nil, refusal("the output is empty")
	}
	form, b := kept[0], kept[1:]
	switch form {
	case outputInline:
	case outputStored:
		var err error
		if b, err = o.get(ctx, string(b)); err != nil {
			return nil, err
		}
	default:
		return nil, refusal("the form %q of an output is not known", form)
	}
	return o.unwrap(workflow, b)
}
