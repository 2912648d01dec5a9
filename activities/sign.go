package activities

import (
	"errors"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/trust/pkcs11"
)

// unsigned assigns a kind to an error of the guardian's key on a token. The run waits for a
// token that is away, as it does for the store; a key that cannot be used is for people to
// repair.
func unsigned(err error) error {
	switch {
	case errors.Is(err, pkcs11.ErrAway):
		return contract.Errorf(contract.StoreUnavailable, "the guardian's key: %w", err)
	case errors.Is(err, pkcs11.ErrPIN), errors.Is(err, pkcs11.ErrKey):
		return contract.Errorf(contract.Blocked, "the guardian's key: %w", err)
	}
	return err
}
