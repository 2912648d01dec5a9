//go:build pkcs11 && cgo

package pkcs11

import (
	"errors"
	"fmt"
	"slices"

	p11 "github.com/miekg/pkcs11"
)

// away are the errors of a module after which a new session may help, if not now, then
// once the token is back.
var away = map[p11.Error]bool{
	p11.CKR_CRYPTOKI_NOT_INITIALIZED:  true,
	p11.CKR_DEVICE_ERROR:              true,
	p11.CKR_DEVICE_REMOVED:            true,
	p11.CKR_FUNCTION_FAILED:           true,
	p11.CKR_GENERAL_ERROR:             true,
	p11.CKR_KEY_HANDLE_INVALID:        true,
	p11.CKR_OBJECT_HANDLE_INVALID:     true,
	p11.CKR_OPERATION_ACTIVE:          true,
	p11.CKR_OPERATION_NOT_INITIALIZED: true,
	p11.CKR_SESSION_CLOSED:            true,
	p11.CKR_SESSION_COUNT:             true,
	p11.CKR_SESSION_HANDLE_INVALID:    true,
	p11.CKR_SLOT_ID_INVALID:           true,
	p11.CKR_TOKEN_NOT_PRESENT:         true,
	p11.CKR_TOKEN_NOT_RECOGNIZED:      true,
	p11.CKR_USER_NOT_LOGGED_IN:        true,
}

// pins are the errors of a module that are about the PIN.
var pins = map[p11.Error]bool{
	p11.CKR_PIN_EXPIRED:              true,
	p11.CKR_PIN_INCORRECT:            true,
	p11.CKR_PIN_INVALID:              true,
	p11.CKR_PIN_LEN_RANGE:            true,
	p11.CKR_PIN_LOCKED:               true,
	p11.CKR_USER_PIN_NOT_INITIALIZED: true,
}

// failed adds to the error of a module what was being done, and what it means: [ErrAway]
// or [ErrPIN].
func failed(doing string, err error) error {
	var code p11.Error
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &code):
	case away[code]:
		return fmt.Errorf("%w: %s: %w", ErrAway, doing, err)
	case pins[code]:
		return fmt.Errorf("%w: %s: %w", ErrPIN, doing, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// is reports whether an error is one of a module's codes.
func is(err error, codes ...p11.Error) bool {
	return slices.ContainsFunc(codes, func(code p11.Error) bool { return errors.Is(err, code) })
}
