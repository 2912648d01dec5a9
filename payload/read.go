package payload

import (
	"context"
	"encoding/json"
	"fmt"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/plan"
)

// Reader reads payloads of a history for authorized people, with the deployment's
// store and keys. Like [Codec] it accepts a sealed payload from any context, so no
// decision may depend on the result.
type Reader struct {
	blobs blob.Store
	keys  *Keyring
	plans *Plans
}

// NewReader returns a reader. Without keys it reads only what is not sealed.
func NewReader(blobs blob.Store, keys *Keyring) *Reader {
	return &Reader{blobs: blobs, keys: keys, plans: NewPlans(blobs, 0)}
}

// Plan returns the compiled plan with a digest.
func (r *Reader) Plan(ctx context.Context, digest string) (*plan.Plan, error) {
	return r.plans.Get(ctx, digest)
}

// Read reads a payload into target, a pointer: a **[plan.Loaded], or whatever
// JSON is read into.
func (r *Reader) Read(ctx context.Context, p *commonpb.Payload, target any) error {
	p, err := r.fetched(ctx, p)
	if err != nil {
		return err
	}
	if isSealed(p) {
		if p, err = open(r.keys, p, "", maxOpened); err != nil {
			return err
		}
	}
	if p, err = decompress(p, maxOpened); err != nil {
		return err
	}
	p = unscoped(p)
	switch encodingOf(p) {
	case encodingPlan:
		return planConverter{r.plans}.FromPayload(p, target)
	case converter.MetadataEncodingJSON:
		if err := json.Unmarshal(p.GetData(), target); err != nil {
			return fmt.Errorf("read payload: %w", err)
		}
		return nil
	}
	return fmt.Errorf("read payload: its encoding %.80q is not known", encodingOf(p))
}

// fetched returns a payload as it was stored, if it is in the store.
func (r *Reader) fetched(ctx context.Context, p *commonpb.Payload) (*commonpb.Payload, error) {
	claim, ok := referenceOf(p)
	if !ok {
		return p, nil
	}
	digest := claim[claimDigest]
	b, err := r.blobs.Get(ctx, digest)
	if err != nil {
		return nil, away("retrieve payload", err)
	}
	stored, err := retrieved(b)
	if err != nil {
		return nil, fmt.Errorf("payload %.80s: %w", digest, err)
	}
	return stored, nil
}
