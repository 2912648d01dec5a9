//go:build pkcs11 && cgo

package pkcs11

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	p11 "github.com/miekg/pkcs11"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/trust"
)

// move takes a token out, or puts it back.
func move(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.Rename(from, to))
}

// TestTakenOut: while the token is out nothing is signed, and once it is back all keys on
// it sign again.
func TestTakenOut(t *testing.T) {
	_, folder, uris := both(t)
	w := newWorld()
	keys := []*Key{w.key(t, uris[0], withPIN(userPIN)), w.key(t, uris[1], withPIN(userPIN))}
	out := filepath.Join(t.TempDir(), "out")
	for i := range 4 {
		logins := w.logins
		move(t, folder, out)
		if i%2 == 1 { // before the module may be reloaded again
			for _, k := range keys {
				require.ErrorIs(t, signs(k, "x"), ErrAway)
			}
		}
		w.clock = w.clock.Add(reloadEvery)
		for range 2 {
			for _, k := range keys {
				require.ErrorIs(t, signs(k, "x"), ErrAway)
			}
		}
		signer, err := trust.FromSigner(keys[i%2])
		require.NoError(t, err)
		e := &trust.Envelope{Type: "type", Payload: []byte("payload")}
		require.ErrorIs(t, e.Sign(signer), ErrAway)
		require.Empty(t, e.Signatures)
		_, err = w.open(t.Context(), uris[0].String(), withPIN(userPIN))
		require.ErrorIs(t, err, ErrAway)
		require.Equal(t, logins, w.logins)

		move(t, out, folder)
		w.clock = w.clock.Add(reloadEvery)
		for _, k := range keys {
			require.NoError(t, signs(k, "x"))
		}
		require.Equal(t, logins+1, w.logins)
	}
}

// TestTakenOutAtWork: whoever signs when the token goes gets an error or a signature.
func TestTakenOutAtWork(t *testing.T) {
	_, folder, uris := both(t)
	w := newWorld()
	keys := []*Key{w.key(t, uris[0], withPIN(userPIN)), w.key(t, uris[1], withPIN(userPIN))}
	out := filepath.Join(t.TempDir(), "out")
	var g sync.WaitGroup
	gone := make(chan error, 8)
	for i := range 8 {
		g.Go(func() {
			for {
				if err := signs(keys[i%2], "x"); err != nil {
					gone <- err
					return
				}
			}
		})
	}
	move(t, folder, out)
	g.Wait()
	close(gone)
	for err := range gone {
		require.ErrorIs(t, err, ErrAway)
	}
	move(t, out, folder)
	w.clock = w.clock.Add(reloadEvery)
	for _, k := range keys {
		require.NoError(t, signs(k, "x"))
	}
}

// TestExchanged: a token of the same name does not stand in for the one that was opened.
func TestExchanged(t *testing.T) {
	lib, tokens := softhsm(t)
	aside := t.TempDir()
	token := func(name string, specs ...spec) (in, out string) {
		in, out = newToken(t, lib, tokens, "t"), filepath.Join(aside, name)
		makeKeys(t, lib, "t", specs...)
		move(t, in, out)
		return in, out
	}
	in, out := token("first", spec{curve: ed25519Curve, label: "k", id: "1"})
	empty, emptyOut := token("empty")
	other, otherOut := token("other", spec{curve: ed25519Curve, label: "k", id: "1"})
	loose, looseOut := token("loose", spec{curve: ed25519Curve, label: "k", id: "1", extractable: true})
	move(t, out, in)
	w := newWorld()
	k := w.key(t, URI{Token: "t", Object: "k", Module: lib}, withPIN(userPIN))
	for _, c := range []struct{ in, out, want string }{
		{empty, emptyOut, "no private key of that name"}, {other, otherOut, "not by the key that was opened"}, {loose, looseOut, "is extractable"},
	} {
		move(t, in, out)
		move(t, c.out, c.in)
		w.clock = w.clock.Add(reloadEvery)
		for range 2 {
			err := signs(k, "x")
			require.ErrorIs(t, err, ErrKey)
			require.ErrorContains(t, err, c.want)
		}
		move(t, c.in, c.out)
		move(t, out, in)
		w.clock = w.clock.Add(reloadEvery)
		require.NoError(t, signs(k, "x"), c.want)
	}
}

// TestNeighbor: reloading the module for a token that is out leaves those of others alone,
// and happens only so often.
func TestNeighbor(t *testing.T) {
	lib, folder, uris := both(t)
	newToken(t, lib, filepath.Dir(folder), "neighbor")
	makeKeys(t, lib, "neighbor", spec{curve: p256Curve, label: "n", id: "1"})
	w := newWorld()
	k := w.key(t, uris[0], withPIN(userPIN))
	n := w.key(t, URI{Token: "neighbor", Object: "n", Module: lib}, withPIN(userPIN))
	move(t, folder, filepath.Join(t.TempDir(), "out"))
	reloads := 0
	w.before = func(call string) error {
		if call == "Initialize" {
			reloads++
		}
		return nil
	}
	for i := range 12 {
		w.clock = w.clock.Add(reloadEvery / 4)
		require.ErrorIs(t, signs(k, "x"), ErrAway)
		require.NoError(t, signs(n, fmt.Sprint(i)))
	}
	require.Equal(t, 3, reloads)
}

// TestMissingAfterReload: a key that is missing, or another, counts as away until the module has
// been reloaded: it may show what it knew of a token that was taken out.
func TestMissingAfterReload(t *testing.T) {
	_, _, uris := both(t)
	for _, u := range uris {
		w := newWorld()
		k := w.key(t, u, withPIN(userPIN))
		w.before = failing("SignInit", p11.CKR_TOKEN_NOT_PRESENT, -1)
		require.ErrorIs(t, signs(k, "x"), ErrAway)
		w.before, w.values = nil, map[uint][]byte{p11.CKA_EXTRACTABLE: {1}}
		require.ErrorIs(t, signs(k, "x"), ErrAway)
		w.clock = w.clock.Add(reloadEvery)
		for range 2 {
			require.ErrorIs(t, signs(k, "x"), ErrKey)
		}
		w.values = nil
		require.NoError(t, signs(k, "x"))
		require.NoError(t, k.Close()) // the next world initializes the module by itself
	}
}

// TestLost: a session that was lost is replaced without the caller noticing, and a token
// that stays away is an error.
func TestLost(t *testing.T) {
	_, _, uris := both(t)
	for _, u := range uris {
		w := newWorld()
		k := w.key(t, u, withPIN(userPIN))
		for code := range away {
			for _, call := range []string{"SignInit", "Sign"} {
				w.before = failing(call, code, 1)
				require.NoError(t, signs(k, "x"), "%s %s", call, code)
				w.before = failing(call, code, -1)
				require.ErrorIs(t, signs(k, "x"), ErrAway, "%s %s", call, code)
				w.before = nil
				require.NoError(t, signs(k, "x"), "%s %s", call, code)
			}
			for _, call := range []string{"GetSlotList", "OpenSession", "Login"} {
				w.clock = w.clock.Add(reloadEvery)
				lost := failing("Sign", p11.CKR_DEVICE_REMOVED, 1)
				again := failing(call, code, -1)
				w.before = func(call string) error {
					if err := lost(call); err != nil {
						return err
					}
					return again(call)
				}
				require.ErrorIs(t, signs(k, "x"), ErrAway, "%s %s", call, code)
			}
			w.before = nil
			require.NoError(t, signs(k, "x"))
		}
		for _, code := range []p11.Error{p11.CKR_MECHANISM_INVALID, p11.CKR_FUNCTION_CANCELED, p11.CKR_HOST_MEMORY, p11.CKR_VENDOR_DEFINED + 1} {
			w.before = failing("Sign", code, 1)
			err := signs(k, "x")
			require.ErrorIs(t, err, code, "it is not tried again")
			require.NotErrorIs(t, err, ErrAway)
			require.NoError(t, signs(k, "x"))
		}
		require.NoError(t, k.Close())
	}
}

// TestBehindOurBack: others in the process may end sessions, logins, and the use of the
// module as a whole.
func TestBehindOurBack(t *testing.T) {
	lib, _, uris := both(t)
	w := newWorld()
	keys := []*Key{w.key(t, uris[0], withPIN(userPIN)), w.key(t, uris[1], withPIN(userPIN))}
	other := p11.New(lib)
	for name, do := range map[string]func() error{
		"sessions": func() error { return other.CloseAllSessions(slotOf(t, other, "both")) },
		"logout":   func() error { return other.Logout(keys[0].on.session) },
		"session":  func() error { return other.CloseSession(keys[1].on.session) },
		"module":   func() error { return other.Finalize() },
	} {
		require.NoError(t, do(), name)
		w.clock = w.clock.Add(reloadEvery)
		for _, k := range keys {
			require.NoError(t, signs(k, "x"), name)
		}
	}
	// A module that fails to come back is tried again later.
	require.NoError(t, other.Finalize())
	w.clock = w.clock.Add(reloadEvery)
	w.before = failing("Initialize", p11.CKR_GENERAL_ERROR, 1)
	for _, k := range keys {
		require.ErrorIs(t, signs(k, "x"), ErrAway)
	}
	w.clock = w.clock.Add(reloadEvery)
	for _, k := range keys {
		require.NoError(t, signs(k, "x"))
	}
}

// TestShared: a module that something else in the process uses is not finalized.
func TestShared(t *testing.T) {
	lib, _, uris := both(t)
	other := p11.New(lib)
	require.NoError(t, other.Initialize())
	w := newWorld()
	k := w.key(t, uris[0], withPIN(userPIN))
	require.NoError(t, signs(k, "x"))
	require.NoError(t, k.Close())
	require.NoError(t, other.Finalize(), "it still was initialized")
}

// TestWrongSignature: a signature that does not verify is not returned.
func TestWrongSignature(t *testing.T) {
	_, _, uris := both(t)
	for _, u := range uris {
		w := newWorld()
		k := w.key(t, u, withPIN(userPIN))
		w.alter = func(sig []byte) { sig[40] ^= 1 }
		require.ErrorIs(t, signs(k, "x"), ErrKey)
		_, err := w.open(t.Context(), u.String(), withPIN(userPIN))
		require.ErrorIs(t, err, ErrKey)
		w.alter = nil
		require.NoError(t, signs(k, "x"))
		require.NoError(t, k.Close())
	}
}
