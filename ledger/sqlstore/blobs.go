package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

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

// PutPacket implements [ledger.Blobs].
func (s *Store) PutPacket(ctx context.Context, p ledger.Packet) (string, error) {
	p.Format = ledger.PacketFormat
	p.Parts = slices.Clone(p.Parts)
	slices.SortFunc(p.Parts, func(a, b ledger.Part) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(p.Parts); i++ {
		if p.Parts[i].Name == p.Parts[i-1].Name {
			return "", fmt.Errorf("put evidence: %w: two parts are called %.80q", ledger.ErrInvalid, p.Parts[i].Name)
		}
	}
	raw, err := json.Marshal(p)
	if err == nil {
		raw, err = canonical(raw)
	}
	if err != nil {
		return "", fmt.Errorf("put evidence: %w: %w", ledger.ErrInvalid, err)
	}
	digest := plan.DigestOf(raw)
	err = s.do(ctx, "put evidence", func(t *tx) error {
		_, err := t.exec(ctx, "INSERT INTO evidence (digest, doc) VALUES ($1, $2) ON CONFLICT DO NOTHING", digest, string(raw))
		return err
	})
	return digest, err
}

// Packet implements [ledger.Blobs].
func (s *Store) Packet(ctx context.Context, digest string) (p ledger.Packet, err error) {
	var raw string
	if err := s.one(ctx, fmt.Sprintf("get evidence %.80s", digest), "SELECT doc FROM evidence WHERE digest = $1", []any{digest}, &raw); err != nil {
		return p, err
	}
	if plan.DigestOf([]byte(raw)) != digest {
		return p, fmt.Errorf("get evidence %s: the stored bytes have another digest", digest)
	}
	if err := json.Unmarshal([]byte(raw), &p); err != nil {
		return p, fmt.Errorf("get evidence %s: %w", digest, err)
	}
	if p.Format != ledger.PacketFormat {
		return p, errors.New("get evidence: it is of another format")
	}
	return p, nil
}
