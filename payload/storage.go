package payload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
)

const (
	// Threshold is the size in bytes from which a payload is stored.
	Threshold = contract.ByReference
	// InlineLimit is the size in bytes up to which results, query answers and
	// failure details stay in the history.
	InlineLimit = 256 << 10
	// driverName is in histories, so it never changes.
	driverName = "chimera-blob"
)

// NewStorage configures the SDK's external storage over store. The SDK gives it
// payloads as the data converter has made them, so most are sealed already; what
// is plain for its readers' sake, and too large for the history, is sealed here.
func NewStorage(store blob.Store, sealing Sealing) converter.ExternalStorage {
	d := driver{store, sealing}
	threshold := Threshold
	if sealing.Keys != nil && sealing.Compress {
		threshold = marked
	}
	return converter.ExternalStorage{
		Drivers:              []converter.StorageDriver{d},
		DriverSelector:       selector{d},
		PayloadSizeThreshold: threshold,
	}
}

// marked is the size in bytes from which a payload that was large before it was
// compressed goes to the store: a reference is about as long.
const marked = 512

type selector struct{ driver driver }

func (s selector) SelectDriver(_ converter.StorageDriverSelectContext, p *commonpb.Payload) (converter.StorageDriver, error) {
	size := proto.Size(p)
	large := size >= Threshold || len(p.GetMetadata()[metadataLarge]) > 0
	if !large || isInline(p) && size <= InlineLimit {
		return nil, nil
	}
	return s.driver, nil
}

func isInline(p *commonpb.Payload) bool {
	return encodingOf(p) == converter.MetadataEncodingJSON && bytes.HasSuffix(p.GetData(), []byte{inlineMark})
}

// driver keeps payloads as blobs. The key of a payload is the digest of its
// deterministic protobuf encoding, so equal values of one workflow that are not
// sealed are stored once.
type driver struct {
	store   blob.Store
	sealing Sealing
}

func (driver) Name() string { return driverName }
func (driver) Type() string { return "chimera-blob" }

const (
	claimDigest = "digest"
	claimSize   = "size"
	// claimReport is set if the payload is a child's report: only its run reads
	// it, so the reference stays the SDK's.
	claimReport = "report"
	// claimProof authenticates the digest, if there are keys: this deployment
	// stored the payload, whether the store has it now or not.
	claimProof = "proof"
)

func (d driver) Store(ctx converter.StorageDriverStoreContext, payloads []*commonpb.Payload) ([]converter.StorageDriverClaim, error) {
	claims := make([]converter.StorageDriverClaim, len(payloads))
	for i, p := range payloads {
		protected, err := d.protect(ctx.Target, unscoped(p))
		if err != nil {
			return nil, err
		}
		if !isSealed(protected) {
			of := ownerOf(ctx.Target)
			if own, ok := p.GetMetadata()[metadataOwner]; ok { // compressed, it shows no more
				of = string(own)
			}
			protected = scoped(protected, of)
		}
		b, err := encode(protected)
		if err != nil {
			return nil, err
		}
		var digest string
		err = ctx.GetLimiter().Permit(orBackground(ctx.Context), p, func() (err error) {
			digest, err = d.store.Put(orBackground(ctx.Context), b)
			return err
		})
		if err != nil {
			return nil, away("store payload", err)
		}
		claims[i] = converter.StorageDriverClaim{ClaimData: map[string]string{
			claimDigest: digest,
			claimSize:   strconv.Itoa(len(b)),
		}}
		if _, ok := p.GetMetadata()[metadataOwner]; ok {
			claims[i].ClaimData[claimReport] = "1"
		}
		d.sealing.Keys.vouch(claims[i].ClaimData)
	}
	return claims, nil
}

// vouch adds the proof of its digest to a claim, if there are keys.
func (r *Keyring) vouch(claim map[string]string) {
	if proof := r.prove(claim[claimDigest]); proof != "" {
		claim[claimProof] = proof
	}
}

// protect returns the form in which a payload is stored. If sealed, it is bound to
// the workflow for which it is stored, and opens only there.
func (d driver) protect(target converter.StorageDriverTargetInfo, p *commonpb.Payload) (*commonpb.Payload, error) {
	switch {
	case isSealed(p):
		return p, nil
	case d.sealing.Keys != nil:
		at := scopeOf(nil)
		if w, ok := target.(converter.StorageDriverWorkflowInfo); ok {
			at = scopeOf(converter.WorkflowSerializationContext{Namespace: w.Namespace, WorkflowID: w.WorkflowID})
		}
		return seal(d.sealing.Keys, d.sealing.Keys.first, roleValues, p, at.context(sortValue), d.sealing.Compress)
	case d.sealing.Compress:
		return compress(p)
	}
	return p, nil
}

// Retrieve gives payloads with what binds them, their seal or their owner: only
// the data converter knows where they are read. An error fails the workflow task
// that the payload is in, again and again, which is right while the store is away.
// For what this deployment can never have stored, such as a reference to nothing
// that somebody has answered an activity with, a payload stands that the data
// converter refuses.
func (d driver) Retrieve(ctx converter.StorageDriverRetrieveContext, claims []converter.StorageDriverClaim) ([]*commonpb.Payload, error) {
	payloads := make([]*commonpb.Payload, len(claims))
	for i, claim := range claims {
		var err error
		if payloads[i], err = d.retrieve(ctx, claim); err == nil {
			continue
		}
		if !d.forged(claim, err) {
			return nil, err
		}
		payloads[i] = nothing()
	}
	return payloads, nil
}

// errNoPayload reports bytes in the store that this driver has not written.
var errNoPayload = errors.New("what is stored is no payload")

func (d driver) retrieve(ctx converter.StorageDriverRetrieveContext, claim converter.StorageDriverClaim) (*commonpb.Payload, error) {
	var b []byte
	err := ctx.GetLimiter().Permit(orBackground(ctx.Context), claim, func() (err error) {
		b, err = d.store.Get(orBackground(ctx.Context), claim.ClaimData[claimDigest])
		return err
	})
	if err != nil {
		return nil, away("retrieve payload", err)
	}
	p, err := retrieved(b)
	if err != nil {
		return nil, fmt.Errorf("payload %.80s: %w: %w", claim.ClaimData[claimDigest], errNoPayload, err)
	}
	return p, nil
}

// forged reports whether a claim that cannot be read is not this deployment's.
func (d driver) forged(claim converter.StorageDriverClaim, err error) bool {
	switch {
	case errors.Is(err, errNoPayload):
		return true
	case errors.Is(err, blob.ErrNotFound):
		return d.sealing.Keys != nil && !d.sealing.AcceptPlain && !d.sealing.Keys.proves(claim.ClaimData[claimDigest], claim.ClaimData[claimProof])
	}
	return false
}

// away reports an error as the store's, if it is neither the value's nor the
// caller's.
func away(what string, err error) error {
	if errors.Is(err, blob.ErrNotFound) || errors.Is(err, blob.ErrCorrupt) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return contract.Errorf(contract.StoreUnavailable, "%s: %w", what, err)
}

// retrieved reads what was stored.
func retrieved(b []byte) (*commonpb.Payload, error) {
	p, err := decode(b)
	if err != nil || isSealed(p) {
		return p, err
	}
	of, ok := p.GetMetadata()[metadataScope]
	if !ok {
		return nil, refusal("it was not stored as a payload")
	}
	p, err = decompress(unscoped(p), maxOpened)
	if err != nil {
		return nil, err
	}
	return scoped(p, string(of)), nil
}

// orBackground returns a context if the SDK has none.
func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// nothing is the payload in place of a reference to nothing.
func nothing() *commonpb.Payload {
	return &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encodingUnread)}}
}
