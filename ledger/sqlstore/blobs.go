package sqlstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// PutBlob implements [ledger.Blobs].
func (s *Store) PutBlob(ctx context.Context, b []byte) (string, error) {
	digest := plan.DigestOf(b)
	if b == nil {
		b = []byte{}
	}
	err := s.do(ctx, "put blob", func(t *tx) error {
		_, err := t.exec(ctx, "INSERT INTO blobs (digest, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING", digest, b)
		return err
	})
	return digest, err
}

// GetBlob implements [ledger.Blobs].
func (s *Store) GetBlob(ctx context.Context, digest string) (b []byte, err error) {
	if err := s.one(ctx, fmt.Sprintf("get blob %.80s", digest), "SELECT bytes FROM blobs WHERE digest = $1", []any{digest}, &b); err != nil {
		return nil, err
	}
	if plan.DigestOf(b) != digest {
		return nil, fmt.Errorf("get blob %s: the stored bytes have another digest", digest)
	}
	return b, nil
}

// errDiscard rolls back a transaction whose rows are not wanted.
var errDiscard = errors.New("discard")

// CheckBlobs implements [ledger.Blobs].
func (s *Store) CheckBlobs(ctx context.Context, size int) error {
	b := make([]byte, size)
	_, _ = rand.Read(b) // never fails; what is there already would not be written
	err := s.do(ctx, "check the blob store", func(t *tx) error {
		if _, err := t.exec(ctx, "INSERT INTO blobs (digest, bytes) VALUES ($1, $2)", plan.DigestOf(b), b); err != nil {
			return err
		}
		return errDiscard
	})
	if errors.Is(err, errDiscard) {
		return nil
	}
	return err
}

// packet stores an evidence packet, sealed if key is not nil, and returns its digest.
func (t *tx) packet(ctx context.Context, p ledger.Packet, key *sealKey) (string, error) {
	raw, err := p.Encode()
	if err != nil {
		return "", err
	}
	digest, doc := plan.DigestOf(raw), string(raw)
	if key != nil {
		if raw, err = ledger.Seal(key.id, key.key, raw); err != nil {
			return "", err
		}
		doc = string(raw)
	}
	_, err = t.exec(ctx, "INSERT INTO evidence (digest, doc) VALUES ($1, $2) ON CONFLICT DO NOTHING", digest, doc)
	return digest, err
}

// Packet implements [ledger.Blobs].
func (s *Store) Packet(ctx context.Context, digest string) (p ledger.Packet, err error) {
	what := fmt.Sprintf("get evidence %.80s", digest)
	var doc string
	if err := s.one(ctx, what, "SELECT doc FROM evidence WHERE digest = $1", []any{digest}, &doc); err != nil {
		return p, err
	}
	raw, err := s.opener().open(ctx, doc)
	if err != nil {
		return p, s.explain(what, err)
	}
	if plan.DigestOf(raw) != digest {
		return p, fmt.Errorf("%s: the stored bytes have another digest", what)
	}
	if p, err = ledger.DecodePacket(raw); err != nil {
		return p, fmt.Errorf("get evidence %s: %w", digest, err)
	}
	return p, nil
}
