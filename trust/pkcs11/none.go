//go:build !pkcs11 || !cgo

package pkcs11

import (
	"context"
	"crypto"
	"io"
)

// Key is a private key on a token. This program cannot open any.
type Key struct{}

// Open returns [ErrURI] if the URI is malformed, and otherwise [ErrNotBuilt].
func Open(_ context.Context, uri string, _ func() (string, error)) (*Key, error) {
	if _, err := Parse(uri); err != nil {
		return nil, err
	}
	return nil, ErrNotBuilt
}

// Public returns nil.
func (k *Key) Public() crypto.PublicKey { return nil }

// Sign returns [ErrNotBuilt].
func (k *Key) Sign(io.Reader, []byte, crypto.SignerOpts) ([]byte, error) { return nil, ErrNotBuilt }

// Close does nothing.
func (k *Key) Close() error { return nil }
