package config

import (
	"errors"
	"fmt"
	"path/filepath"

	"chimera.ai/engine/trust/pkcs11"
)

// OnToken reports whether the value of a key such as guardian.key names a key on a token,
// rather than refer to a secret.
func (s Secret) OnToken() bool { return pkcs11.IsURI(s.Reveal()) }

// checkURI says what is wrong with the URI of a key on a token.
func checkURI(uri string) error {
	if _, err := pkcs11.Parse(uri); err != nil {
		return fmt.Errorf("names no key on a token: %w", err)
	}
	return nil
}

// Token returns the URI of a key on a token, completed by pkcs11.module; what names the
// value in errors.
func (c Config) Token(what string, key Secret) (string, error) {
	u, err := pkcs11.Parse(key.Reveal())
	if err != nil {
		return "", fmt.Errorf("%s names no key on a token: %w", what, err)
	}
	if u.Module == "" {
		if c.PKCS11.Module == "" {
			return "", fmt.Errorf("%s names no module of its token: set pkcs11.module, or give module-path in the URI", what)
		}
		if u.Module, err = filepath.Abs(c.PKCS11.Module); err != nil {
			return "", fmt.Errorf("finding pkcs11.module: %w", err)
		}
	}
	return u.String(), nil
}

// PIN resolves the reference to the tokens' PIN.
func (c Config) PIN() (string, error) {
	if c.PKCS11.PIN == "" {
		return "", errors.New("pkcs11.pin is not set, and the key's URI has no pin-source")
	}
	return c.secret("pkcs11.pin", c.PKCS11.PIN)
}

// tokenKeys are the keys on tokens that a worker of this configuration opens, or a command
// if the secrets are not those of roles yet.
func (c Config) tokenKeys() []pkcs11.URI {
	var all []pkcs11.URI
	for _, k := range keys {
		if k.sort != private || c.resolved != nil && !c.needs(k.name) {
			continue
		}
		if s := *k.at(&c).(*Secret); s.OnToken() {
			if u, err := pkcs11.Parse(s.Reveal()); err == nil {
				all = append(all, u)
			}
		}
	}
	return all
}
