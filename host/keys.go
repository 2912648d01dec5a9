package host

import (
	"context"
	"errors"
	"fmt"

	"chimera.ai/engine/config"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
	"chimera.ai/engine/trust/pkcs11"
)

// OpenKey opens the private key that a value names, such as that of guardian.key or of a
// flag: one on a token, or the one in the secret that the value refers to. The key is nil if
// the value is "". what names the value in errors. Whoever uses the key calls done
// afterwards, which is never nil.
func OpenKey(ctx context.Context, c config.Config, what string, value config.Secret) (key *trust.Key, done func() error, err error) {
	if value.OnToken() {
		token, done, err := openToken(ctx, c, what, value)
		if err != nil {
			return nil, done, err
		}
		if key, err = trust.FromSigner(token); err != nil {
			return nil, nothing, errors.Join(fmt.Errorf("%s: %w", what, err), done())
		}
		return key, done, nil
	}
	secret, err := c.Referred(what, value)
	if err != nil || secret == "" {
		return nil, nothing, err
	}
	if key, err = trust.ParseKey([]byte(secret)); err != nil {
		return nil, nothing, fmt.Errorf("%s: %w", what, err)
	}
	return key, nothing, nil
}

// OpenLogKey is like [OpenKey], for a value that names a key on a token, such as that of
// ledger.key. The key is that of the log of a name, as store.origin says it.
func OpenLogKey(ctx context.Context, c config.Config, what string, value config.Secret, name string) (key *ledger.Key, done func() error, err error) {
	if name == "" {
		return nil, nothing, fmt.Errorf("%s is on a token, which does not name the log: set store.origin", what)
	}
	token, done, err := openToken(ctx, c, what, value)
	if err != nil {
		return nil, done, err
	}
	if key, err = ledger.FromSigner(name, token); err != nil {
		return nil, nothing, errors.Join(fmt.Errorf("%s: %w", what, err), done())
	}
	return key, done, nil
}

func openToken(ctx context.Context, c config.Config, what string, value config.Secret) (*pkcs11.Key, func() error, error) {
	uri, err := c.Token(what, value)
	if err != nil {
		return nil, nothing, err
	}
	key, err := pkcs11.Open(ctx, uri, c.PIN)
	if errors.Is(err, context.DeadlineExceeded) {
		// Others of this process may wait for a server; this is not about one.
		err = fmt.Errorf("%w: it does not answer", pkcs11.ErrAway)
	}
	if err != nil {
		return nil, nothing, fmt.Errorf("%s: %w", what, err)
	}
	return key, key.Close, nil
}

// nothing is to be done at the end.
func nothing() error { return nil }

// Unusable reports whether an error says that a key on a token cannot be used as it is
// configured, that the database user lacks the rights of the host's roles, that the host
// lacks the keyring of its database, or that children cannot be confined, so that trying again is
// pointless.
func Unusable(err error) bool {
	rights, keyring := (*store.RightsError)(nil), (*store.KeyringError)(nil)
	if errors.As(err, &rights) || errors.As(err, &keyring) {
		return true
	}
	for _, e := range []error{errUnconfined, pkcs11.ErrNotBuilt, pkcs11.ErrURI, pkcs11.ErrPIN, pkcs11.ErrKey} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// openKeys opens the keys on tokens that the host signs with.
func (h *Host) openKeys(ctx context.Context) error {
	o := &h.options
	if o.OpenGuardianKey != nil && o.has(RoleGuardian) {
		key, done, err := o.OpenGuardianKey(ctx)
		if err != nil {
			return err
		}
		o.GuardianKey = key
		h.keys = append(h.keys, done)
	}
	if o.OpenLogKey != nil && o.has(RoleEngine) {
		key, done, err := o.OpenLogKey(ctx)
		if err != nil {
			return err
		}
		o.Store.Signer = key
		h.keys = append(h.keys, done)
	}
	return nil
}
