//go:build pkcs11 && cgo

package pkcs11

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"strings"

	p11 "github.com/miekg/pkcs11"
)

// maxPIN bounds a PIN, in bytes.
const maxPIN = 256

// ask returns the PIN: that of the file which the URI names, or else the caller's. It is
// asked for whenever the token needs it, and not kept.
func (k *Key) ask() (string, error) {
	var pin string
	var err error
	switch {
	case k.uri.PINSource != "":
		pin, err = pinFile(k.uri.PINSource)
	case k.pin != nil:
		pin, err = k.pin()
	default:
		return "", fmt.Errorf("%w: none is given", ErrPIN)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", ErrPIN, err)
	case pin == "" || len(pin) > maxPIN || strings.ContainsRune(pin, 0):
		return "", fmt.Errorf("%w: it must have 1 to %d bytes, none of which is zero", ErrPIN, maxPIN)
	}
	return pin, nil
}

// pinFile reads a PIN from a regular file, without the final line end that editors add.
func pinFile(file string) (string, error) {
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a regular file", file)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }()
	// One that is too long stays too long without its line end.
	raw, err := io.ReadAll(io.LimitReader(f, maxPIN+3))
	return strings.TrimSuffix(strings.TrimSuffix(string(raw), "\n"), "\r"), err
}

// login logs in, unless another key on the token has done so: the login belongs to the
// process. A PIN that the token has refused is not tried again, and its last try is left to
// a person, so that no program locks a token.
func (k *Key) login(token p11.TokenInfo, session p11.SessionHandle) error {
	info, err := k.module.lib.GetSessionInfo(session)
	if err != nil {
		return failed("looking at the session", err)
	}
	if info.State == p11.CKS_RO_USER_FUNCTIONS || info.State == p11.CKS_RW_USER_FUNCTIONS {
		return nil
	}
	switch {
	case token.Flags&p11.CKF_USER_PIN_LOCKED != 0:
		return fmt.Errorf("%w is locked", ErrPIN)
	case token.Flags&p11.CKF_USER_PIN_FINAL_TRY != 0:
		return fmt.Errorf("%w has one try left before the token locks: log in with the token's own program first", ErrPIN)
	}
	return k.enter(named(token), session, p11.CKU_USER)
}

// named tells tokens apart.
func named(token p11.TokenInfo) string { return token.SerialNumber + "\x00" + token.Label }

// enter passes the PIN to a token, unless the token has refused it before.
func (k *Key) enter(token string, session p11.SessionHandle, user uint) error {
	pin, err := k.ask()
	if err != nil {
		return err
	}
	denied := k.module.denied
	sum := sha256.Sum256([]byte(pin))
	if refused, ok := denied[token]; ok && refused == sum {
		return fmt.Errorf("%w was refused before, and is not tried again", ErrPIN)
	}
	err = k.module.lib.Login(session, user, pin)
	switch {
	case err == nil:
		delete(denied, token)
	case is(err, p11.CKR_USER_ALREADY_LOGGED_IN):
		return nil
	case is(err, p11.CKR_PIN_INCORRECT, p11.CKR_PIN_INVALID, p11.CKR_PIN_LEN_RANGE):
		denied[token] = sum
	}
	return failed("logging in", err)
}
