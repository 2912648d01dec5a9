//go:build pkcs11 && cgo

package pkcs11

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"

	p11 "github.com/miekg/pkcs11"
)

// Key is a private key on a token: a [crypto.Signer], which is safe for concurrent use.
// Signatures with keys of one module are made one after the other. If the token is taken
// out, [Key.Sign] returns [ErrAway] until it is back, and then logs in again by itself.
type Key struct {
	uri    URI
	pin    func() (string, error)
	module *module
	public crypto.PublicKey

	// The rest is guarded by module.mu.
	closed bool
	// on is the session, or nil.
	on *connection
	// wrong is the generation of the module in which the key was found missing or another
	// right after a reload, or 0: then the token itself says so.
	wrong int
}

// Open opens the private key that a URI of RFC 7512 names, which must have a module-path:
// see [Parse]. The PIN is that of the URI's pin-source, or, if it has none, the one that
// pin returns. The PIN is not kept, but asked for whenever a login is needed, so pin must
// remain callable until the key is closed; it must not use keys of this package. Keys on
// one token share a login: while one is open, another opens without a PIN.
//
// Open signs a random text to find out whether the key works, and which public key belongs
// to it. A token that is not there is [ErrAway]; one that refuses the PIN [ErrPIN]; one
// without the key, with several of that name, or with one that is not an Ed25519 or P-256
// key, may not sign, is not sensitive or is extractable [ErrKey].
//
// A module cannot be interrupted: if the context ends, Open returns its error while the
// module goes on.
func Open(ctx context.Context, uri string, pin func() (string, error)) (*Key, error) {
	return process.open(ctx, uri, pin)
}

func (r *registry) open(ctx context.Context, uri string, pin func() (string, error)) (*Key, error) {
	u, err := Parse(uri)
	if err != nil {
		return nil, err
	}
	if u.Module == "" {
		return nil, fmt.Errorf("%w: it names no module: give module-path", ErrURI)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("opening a key on a token: %w", err)
	}
	type result struct {
		key *Key
		err error
	}
	done := make(chan result, 1)
	go func() {
		k, err := r.openNow(u, pin)
		done <- result{k, err}
	}()
	select {
	case got := <-done:
		if got.err != nil {
			return nil, fmt.Errorf("opening a key on a token: %w", got.err)
		}
		return got.key, nil
	case <-ctx.Done():
		go func() {
			if late := <-done; late.key != nil {
				_ = late.key.Close()
			}
		}()
		return nil, fmt.Errorf("opening a key on a token: %w", ctx.Err())
	}
}

func (r *registry) openNow(u URI, pin func() (string, error)) (*Key, error) {
	m, err := r.acquire(u.Module)
	if err != nil {
		return nil, err
	}
	k := &Key{uri: u, pin: pin, module: m}
	m.mu.Lock()
	err = k.first()
	if errors.Is(err, ErrAway) && m.reload() {
		err = k.first()
	}
	m.mu.Unlock()
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// first opens the first session of a key, and learns its public half.
func (k *Key) first() error {
	k.disconnect()
	if err := k.connect(); err != nil {
		return err
	}
	return k.probe()
}

// probe finds the public key that belongs to the private one.
func (k *Key) probe() error {
	publics, err := k.publics()
	if err != nil {
		return err
	}
	// No payload that this project signs begins like this.
	message := []byte("chimera.ai/trust/pkcs11 probe " + rand.Text())
	if k.on.kind == &p256Kind {
		sum := sha256.Sum256(message)
		message = sum[:]
	}
	sig, err := k.signature(message)
	if err != nil {
		return err
	}
	for _, public := range publics {
		if verify(public, message, sig) {
			k.public = public
			return nil
		}
	}
	return fmt.Errorf("%w: it has no public key that belongs to the private one (with the same id)", ErrKey)
}

// Public returns the public key: an [ed25519.PublicKey], or an [*ecdsa.PublicKey] on P-256.
func (k *Key) Public() crypto.PublicKey { return k.public }

// Sign signs a message with an Ed25519 key, or the SHA-256 digest of one with a P-256 key,
// in which case the signature is in ASN.1 DER. Other hash functions, and the variants of
// Ed25519 with a context or a hash, are refused. The token makes its own randomness. Sign
// waits as long as the module does.
func (k *Key) Sign(_ io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	if err := k.suits(digest, opts); err != nil {
		return nil, fmt.Errorf("signing with a token: %w", err)
	}
	k.module.mu.Lock()
	defer k.module.mu.Unlock()
	sig, err := k.sign(digest)
	if err != nil {
		return nil, fmt.Errorf("signing with a token: %w", err)
	}
	return sig, nil
}

// suits checks what is to be signed.
func (k *Key) suits(digest []byte, opts crypto.SignerOpts) error {
	if opts == nil {
		return errors.New("there are no options")
	}
	switch k.public.(type) {
	case ed25519.PublicKey:
		if o, ok := opts.(*ed25519.Options); ok && (o == nil || o.Context != "") || opts.HashFunc() != 0 {
			return errors.New("an Ed25519 key signs messages, not digests, and without a context")
		}
	case *ecdsa.PublicKey:
		if opts.HashFunc() != crypto.SHA256 || len(digest) != sha256.Size {
			return errors.New("a P-256 key signs SHA-256 digests")
		}
	default:
		return errors.New("the key is not open")
	}
	return nil
}

// sign signs in the session that is open, if one is. Only its use shows that it was lost.
// Then it is replaced and, if the token or the key is missing still, the module reloaded. As
// long as that may not be done again, a missing key counts as a token that is away: a module
// may go on listing a token that was taken out.
func (k *Key) sign(digest []byte) ([]byte, error) {
	if k.closed {
		return nil, os.ErrClosed
	}
	if k.on != nil && k.on.generation == k.module.generation {
		if sig, err := k.verified(digest); err == nil || !missing(err) {
			return sig, err
		}
	}
	sig, err := k.anew(digest)
	switch {
	case !missing(err):
	case k.module.reload():
		if sig, err = k.anew(digest); errors.Is(err, ErrKey) {
			k.wrong = k.module.generation
		}
	case errors.Is(err, ErrKey) && k.module.own && k.wrong != k.module.generation:
		err = fmt.Errorf("%w: %v", ErrAway, err)
	}
	return sig, err
}

func missing(err error) bool { return errors.Is(err, ErrAway) || errors.Is(err, ErrKey) }

// anew signs in a new session.
func (k *Key) anew(digest []byte) ([]byte, error) {
	k.disconnect()
	if err := k.connect(); err != nil {
		return nil, err
	}
	return k.verified(digest)
}

// verified signs and verifies the signature. If that fails, it ends the session.
func (k *Key) verified(digest []byte) ([]byte, error) {
	sig, err := k.signature(digest)
	if err == nil && !verify(k.public, digest, sig) {
		err = fmt.Errorf("%w: the signature is not by the key that was opened", ErrKey)
	}
	if err != nil {
		k.disconnect()
		return nil, err
	}
	return sig, nil
}

// signature signs in the session. It verifies nothing.
func (k *Key) signature(digest []byte) ([]byte, error) {
	lib, on := k.module.lib, k.on
	if err := lib.SignInit(on.session, []*p11.Mechanism{p11.NewMechanism(on.kind.mechanism, nil)}, on.key); err != nil {
		return nil, failed("beginning a signature", err)
	}
	if on.always {
		if err := k.enter(on.token, on.session, p11.CKU_CONTEXT_SPECIFIC); err != nil {
			return nil, err
		}
	}
	raw, err := lib.Sign(on.session, digest)
	if err != nil {
		return nil, failed("making a signature", err)
	}
	return on.kind.encode(raw)
}

// Close ends the session, and with the last one on the token the login. Afterwards
// [Key.Sign] returns [os.ErrClosed]. Closing twice is harmless.
func (k *Key) Close() error {
	k.module.mu.Lock()
	defer k.module.mu.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	k.disconnect()
	return k.module.release()
}
