package store

import (
	"context"
	"errors"
	"fmt"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/ledger"
)

// database stores large values in the ledger's database.
type database struct{ blobs ledger.Blobs }

// Put implements [blob.Store].
func (d database) Put(ctx context.Context, b []byte) (string, error) { return d.blobs.PutBlob(ctx, b) }

// Get implements [blob.Store].
func (d database) Get(ctx context.Context, digest string) ([]byte, error) {
	b, err := d.blobs.GetBlob(ctx, digest)
	if errors.Is(err, ledger.ErrNotFound) {
		return nil, fmt.Errorf("%w: %w", blob.ErrNotFound, err)
	}
	return b, err
}

// Check implements [blob.Store].
func (d database) Check(ctx context.Context) error { return d.blobs.CheckBlobs(ctx, blob.CheckBytes) }
