//go:build pkcs11 && cgo

package pkcs11

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	p11 "github.com/miekg/pkcs11"
	"github.com/stretchr/testify/require"
)

// TestPIN: a wrong PIN is refused, and not tried twice.
func TestPIN(t *testing.T) {
	_, _, uris := both(t)
	w := newWorld()
	open := func(pin func() (string, error)) error {
		k, err := w.open(t.Context(), uris[0].String(), pin)
		if err != nil {
			require.ErrorIs(t, err, ErrPIN)
			require.NotErrorIs(t, err, ErrAway)
			return err
		}
		require.NoError(t, signs(k, "x"))
		return k.Close()
	}
	err := open(withPIN("4321"))
	require.ErrorIs(t, err, p11.Error(p11.CKR_PIN_INCORRECT))
	require.NotContains(t, err.Error(), "4321")
	require.Equal(t, 1, w.logins)
	for range 3 {
		require.ErrorContains(t, open(withPIN("4321")), "was refused before")
	}
	require.Equal(t, 1, w.logins)
	require.ErrorIs(t, open(withPIN("5678")), p11.Error(p11.CKR_PIN_INCORRECT))
	require.NoError(t, open(withPIN(userPIN)))
	require.Equal(t, 3, w.logins)

	for _, pin := range []string{"", "12\x0034", strings.Repeat("1", 257)} {
		require.ErrorContains(t, open(withPIN(pin)), "1 to 256 bytes")
	}
	require.ErrorContains(t, open(nil), "none is given")
	locked := errors.New("the safe is locked")
	require.ErrorIs(t, open(func() (string, error) { return "", locked }), locked)
	require.Equal(t, 3, w.logins)

	w.flags = p11.CKF_USER_PIN_FINAL_TRY
	require.ErrorContains(t, open(withPIN(userPIN)), "has one try left")
	w.flags = p11.CKF_USER_PIN_LOCKED
	require.ErrorContains(t, open(withPIN(userPIN)), "is locked")
	require.Equal(t, 3, w.logins)
	w.flags = 0
	require.NoError(t, open(withPIN(userPIN)))
}

// TestPINChanges: a key that must log in again asks for the PIN of that moment.
func TestPINChanges(t *testing.T) {
	lib, _, uris := both(t)
	w := newWorld()
	pin := userPIN
	k := w.key(t, uris[0], func() (string, error) { return pin, nil })
	other := p11.New(lib)
	lose := func() { require.NoError(t, other.CloseAllSessions(slotOf(t, other, "both"))) }
	pin = "4321"
	require.NoError(t, signs(k, "x"), "it is logged in")
	logins := w.logins
	lose()
	for range 3 {
		require.ErrorIs(t, signs(k, "x"), ErrPIN)
	}
	require.Equal(t, logins+1, w.logins)
	pin = userPIN
	require.NoError(t, signs(k, "x"))
}

func TestPINSource(t *testing.T) {
	_, _, uris := both(t)
	w := newWorld()
	file := filepath.Join(t.TempDir(), "pin")
	u := uris[0]
	u.PINSource = file
	open := func(content string) error {
		require.NoError(t, os.WriteFile(file, []byte(content), 0o600))
		// The URI's own source comes first.
		k, err := w.open(t.Context(), u.String(), withPIN("9999"))
		if err == nil {
			err = k.Close()
		}
		return err
	}
	for _, content := range []string{"1234", "1234\n", "1234\r\n"} {
		require.NoError(t, open(content))
	}
	for _, content := range []string{"", "\n", "1234\n\n", " 1234", strings.Repeat("1", 257), strings.Repeat("1", 1000)} {
		require.ErrorIs(t, open(content), ErrPIN, "%q", content)
	}
	require.NoError(t, os.Remove(file))
	_, err := w.open(t.Context(), u.String(), withPIN(userPIN))
	require.ErrorIs(t, err, ErrPIN)
	require.ErrorIs(t, err, os.ErrNotExist)
	u.PINSource = filepath.Dir(file)
	_, err = w.open(t.Context(), u.String(), withPIN(userPIN))
	require.ErrorContains(t, err, "not a regular file")
}

// TestAlways: a key that wants the PIN for each signature gets it.
func TestAlways(t *testing.T) {
	lib, tokens := softhsm(t)
	newToken(t, lib, tokens, "t")
	makeKeys(t, lib, "t", spec{curve: p256Curve, label: "k", id: "1", always: true})
	w := newWorld()
	pin := userPIN
	k := w.key(t, URI{Token: "t", Object: "k", Module: lib}, func() (string, error) { return pin, nil })
	require.NoError(t, signs(k, "x"))
	logins := w.logins
	for range 3 {
		require.NoError(t, signs(k, "x"))
	}
	require.Equal(t, logins+3, w.logins)
	pin = "4321"
	for range 3 {
		require.ErrorIs(t, signs(k, "x"), ErrPIN)
	}
	require.Equal(t, logins+4, w.logins)
	pin = userPIN
	require.NoError(t, signs(k, "x"))
}
