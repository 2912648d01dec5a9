//go:build pkcs11 && cgo

package pkcs11

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/sha256"
	"encoding/asn1"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	p11 "github.com/miekg/pkcs11"
	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// TestTrust: an admin and a guardian whose keys are on a token sign, and trust verifies.
func TestTrust(t *testing.T) {
	lib, tokens := softhsm(t)
	newToken(t, lib, tokens, "trust")
	makeKeys(t, lib, "trust", spec{curve: ed25519Curve, label: "admin", id: "1"}, spec{curve: p256Curve, label: "guardian", id: "2"})
	signer := func(name string) *trust.Key {
		k, err := Open(t.Context(), URI{Token: "trust", Object: name, Module: lib}.String(), withPIN(userPIN))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, k.Close()) })
		key, err := trust.FromSigner(k)
		require.NoError(t, err)
		return key
	}
	admin, guardian := signer("admin"), signer("guardian")
	day := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	_, log, err := ledger.NewKey("example.com/log")
	require.NoError(t, err)
	for _, by := range []*trust.Key{admin, guardian} {
		b, err := trust.DevBootstrap("example", "ada", by, trust.LogKey{Origin: "example.com/log", Key: log}, day)
		require.NoError(t, err)
		root, problems := trust.VerifyStatements(b, nil)
		require.Empty(t, problems)
		e, err := root.Draft(day, &trust.AddGuardian{ID: "g", Key: guardian.Public()}).Envelope(by)
		require.NoError(t, err)
		raw, err := e.Encode()
		require.NoError(t, err)
		state, problems := trust.VerifyStatements(b, [][]byte{raw})
		require.Empty(t, problems)

		call := trust.Call{Operation: "bank/pay", Input: []byte("{}")}
		permit := trust.Permit{
			Deployment: "example", Audience: trust.Dev, Guardian: "g", Invocation: "i", Decision: "i/1", Call: call.Digest([]byte("salt")),
			Issued: ledger.At(day), Expires: ledger.At(day.Add(time.Minute)),
		}
		signed, err := trust.SignPermit(guardian, permit)
		require.NoError(t, err)
		_, err = trust.VerifyPermit(state, signed, permit, day)
		require.NoError(t, err)
		forged, err := trust.SignPermit(admin, permit)
		require.NoError(t, err)
		_, err = trust.VerifyPermit(state, forged, permit, day)
		require.ErrorIs(t, err, trust.ErrInvalid, "that is the other key")
	}
	source := plan.DigestOf([]byte("source"))
	raw, err := trust.SignPlan(admin, trust.Plan{
		Deployment: "example", Audience: trust.Dev, Author: "fay", Name: "pay", Version: "1", SourceDigest: source, Digest: source, Issued: ledger.At(day),
	})
	require.NoError(t, err)
	e, err := trust.ParseEnvelope(raw, trust.PlanType)
	require.NoError(t, err)
	public, err := trust.ParsePublic(admin.Public())
	require.NoError(t, err)
	require.Equal(t, []int{0}, e.By([]trust.Public{public}))
}

// both makes a token with a key of each kind, and returns their URIs.
func both(t *testing.T) (lib, folder string, uris []URI) {
	t.Helper()
	lib, tokens := softhsm(t)
	folder = newToken(t, lib, tokens, "both")
	makeKeys(t, lib, "both", spec{curve: ed25519Curve, label: "ed", id: "\x00\x01"}, spec{curve: p256Curve, label: "ec", id: "\xff\x02"})
	return lib, folder, []URI{{Token: "both", Object: "ed", Module: lib}, {Token: "both", ID: "\xff\x02", Module: lib}}
}

// signs reports whether a key signs, and the signature is right.
func signs(k *Key, text string) error {
	message, opts := []byte(text), crypto.SignerOpts(crypto.Hash(0))
	if _, ok := k.Public().(*ecdsa.PublicKey); ok {
		sum := sha256.Sum256(message)
		message, opts = sum[:], crypto.SHA256
	}
	sig, err := k.Sign(nil, message, opts)
	if err == nil && !verify(k.Public(), message, sig) {
		err = fmt.Errorf("the signature is wrong")
	}
	return err
}

func TestConcurrent(t *testing.T) {
	_, _, uris := both(t)
	w := newWorld()
	keys := []*Key{w.key(t, uris[0], withPIN(userPIN)), w.key(t, uris[1], withPIN(userPIN))}
	require.Equal(t, 1, w.logins, "keys on one token share a login")
	var g sync.WaitGroup
	errs := make(chan error, 8*20)
	for i := range 8 {
		g.Go(func() {
			for n := range 20 {
				errs <- signs(keys[(i+n)%2], fmt.Sprint(i, n))
			}
		})
	}
	g.Wait()
	close(errs)
	for err := range errs {
		require.NoError(t, err)
	}
}

func TestSigner(t *testing.T) {
	_, _, uris := both(t)
	w := newWorld()
	sum := sha256.Sum256(nil)
	ed, ec := w.key(t, uris[0], withPIN(userPIN)), w.key(t, uris[1], withPIN(userPIN))
	require.IsType(t, ed25519.PublicKey{}, ed.Public())
	require.IsType(t, new(ecdsa.PublicKey), ec.Public())
	require.NoError(t, signs(ed, ""), "nothing is a message too")
	for _, opts := range []crypto.SignerOpts{nil, crypto.SHA512, (*ed25519.Options)(nil), &ed25519.Options{Hash: crypto.SHA512}, &ed25519.Options{Context: "x"}} {
		_, err := ed.Sign(nil, sum[:], opts)
		require.Error(t, err, opts)
	}
	_, err := ed.Sign(nil, sum[:], new(ed25519.Options))
	require.NoError(t, err)
	for _, opts := range []crypto.SignerOpts{nil, crypto.Hash(0), crypto.SHA384} {
		_, err := ec.Sign(nil, sum[:], opts)
		require.Error(t, err, opts)
	}
	_, err = ec.Sign(nil, sum[:31], crypto.SHA256)
	require.Error(t, err)
	_, err = ec.Sign(nil, nil, crypto.SHA256)
	require.Error(t, err)
	_, err = new(Key).Sign(nil, sum[:], crypto.SHA256)
	require.Error(t, err)

	require.NoError(t, ed.Close())
	require.ErrorIs(t, signs(ed, "x"), os.ErrClosed)
	require.NoError(t, ed.Close())
	require.NoError(t, signs(ec, "x"), "the other key is still open")
	require.NoError(t, ec.Close())
	require.ErrorIs(t, signs(ec, "x"), os.ErrClosed)
	require.NoError(t, signs(w.key(t, uris[0], withPIN(userPIN)), "again"))
}

// TestUnusable: keys that the token would give away, and keys that are none, are refused.
func TestUnusable(t *testing.T) {
	lib, tokens := softhsm(t)
	newToken(t, lib, tokens, "t")
	makeKeys(t, lib, "t",
		spec{curve: ed25519Curve, label: "good", id: "1"},
		spec{curve: ed25519Curve, label: "extractable", id: "2", extractable: true},
		spec{curve: p256Curve, label: "plain", id: "3", plain: true},
		spec{curve: p256Curve, label: "mute", id: "4", mute: true},
		spec{curve: p384Curve, label: "p384", id: "5"},
		spec{curve: ed25519Curve, label: "lonely", id: "6", lonely: true},
		spec{curve: p256Curve, label: "twin", id: "7"}, spec{curve: p256Curve, label: "twin", id: "8"},
		// Two pairs of one id: each private key must find its own half.
		spec{curve: ed25519Curve, label: "left", id: "9"}, spec{curve: ed25519Curve, label: "right", id: "9"},
		// The label does for a key without an id.
		spec{curve: p256Curve, label: "bare"},
	)
	admin(t, lib, func(ctx *p11.Ctx) {
		session, err := ctx.OpenSession(slotOf(t, ctx, "t"), p11.CKF_SERIAL_SESSION|p11.CKF_RW_SESSION)
		require.NoError(t, err)
		require.NoError(t, ctx.Login(session, p11.CKU_USER, userPIN))
		_, _, err = ctx.GenerateKeyPair(session, []*p11.Mechanism{p11.NewMechanism(p11.CKM_RSA_PKCS_KEY_PAIR_GEN, nil)},
			[]*p11.Attribute{p11.NewAttribute(p11.CKA_TOKEN, true), p11.NewAttribute(p11.CKA_MODULUS_BITS, 1024)},
			[]*p11.Attribute{p11.NewAttribute(p11.CKA_TOKEN, true), p11.NewAttribute(p11.CKA_LABEL, "rsa"), p11.NewAttribute(p11.CKA_SENSITIVE, true), p11.NewAttribute(p11.CKA_EXTRACTABLE, false), p11.NewAttribute(p11.CKA_SIGN, true)})
		require.NoError(t, err)
	})
	w := newWorld()
	for name, want := range map[string]string{
		"extractable": "is extractable", "plain": "is not sensitive", "mute": "is not allowed to sign", "p384": "this one is neither", "rsa": "this one is neither",
		"lonely": "no public key that belongs", "twin": "several private keys", "nobody": "no private key of that name",
	} {
		_, err := w.open(t.Context(), URI{Token: "t", Object: name, Module: lib}.String(), withPIN(userPIN))
		require.ErrorIs(t, err, ErrKey, name)
		require.ErrorContains(t, err, want, name)
	}
	_, err := w.open(t.Context(), URI{Token: "t", Object: "good", ID: "2", Module: lib}.String(), withPIN(userPIN))
	require.ErrorIs(t, err, ErrKey, "the label and the id are those of two keys")
	for _, u := range []URI{{Object: "good"}, {ID: "1"}, {Object: "twin", ID: "8"}, {Object: "left", ID: "9"}, {Object: "right"}, {Object: "bare"}} {
		u.Token, u.Module, u.Manufacturer, u.Model = "t", lib, "SoftHSM project", "SoftHSM v2"
		require.NoError(t, signs(w.key(t, u, withPIN(userPIN)), "x"), u)
	}
}

// TestAttributes: tokens that say strange things of a key.
func TestAttributes(t *testing.T) {
	_, _, uris := both(t)
	w := newWorld()
	open := func(u URI, values map[uint][]byte) error {
		w.values = values
		k, err := w.open(t.Context(), u.String(), withPIN(userPIN))
		if err == nil {
			require.NoError(t, signs(k, "x"))
			require.NoError(t, k.Close())
		}
		return err
	}
	for _, u := range uris {
		for _, attribute := range []uint{p11.CKA_SENSITIVE, p11.CKA_EXTRACTABLE, p11.CKA_SIGN} {
			for _, value := range [][]byte{nil, {}, {2}, {0xff}, {0, 0}, {1, 0, 0, 0}} {
				require.ErrorIs(t, open(u, map[uint][]byte{attribute: value}), ErrKey, "%X %v", attribute, value)
			}
		}
		require.NoError(t, open(u, map[uint][]byte{p11.CKA_ALWAYS_AUTHENTICATE: nil}), "it is older than the attribute")
		require.NoError(t, open(u, map[uint][]byte{p11.CKA_ALWAYS_AUTHENTICATE: {}}))
		require.ErrorIs(t, open(u, map[uint][]byte{p11.CKA_ALWAYS_AUTHENTICATE: {2}}), ErrKey)
		for _, attribute := range []uint{p11.CKA_KEY_TYPE, p11.CKA_EC_PARAMS, p11.CKA_EC_POINT} {
			for _, value := range [][]byte{{}, {0}, make([]byte, 8), make([]byte, 32), make([]byte, 65), make([]byte, 1<<16)} {
				require.ErrorIs(t, open(u, map[uint][]byte{attribute: value}), ErrKey, "%X %d", attribute, len(value))
			}
		}
	}
	require.NoError(t, open(uris[0], map[uint][]byte{p11.CKA_EC_PARAMS: append([]byte{0x13, 12}, "edwards25519"...)}))
}

// TestPoint: modules differ in how they give a public key.
func TestPoint(t *testing.T) {
	ed, _, err := ed25519.GenerateKey(nil)
	require.NoError(t, err)
	private, err := ecdsa.GenerateKey(elliptic.P256(), nil)
	require.NoError(t, err)
	point, err := private.PublicKey.Bytes()
	require.NoError(t, err)
	for _, c := range []struct {
		kind  *kind
		point []byte
		want  crypto.PublicKey
	}{{&ed25519Kind, ed, ed}, {&p256Kind, point, &private.PublicKey}} {
		octets, err := asn1.Marshal(c.point)
		require.NoError(t, err)
		bits, err := asn1.Marshal(asn1.BitString{Bytes: c.point, BitLength: 8 * len(c.point)})
		require.NoError(t, err)
		for _, raw := range [][]byte{c.point, octets, bits} {
			public, err := c.kind.read(raw)
			require.NoError(t, err)
			require.Equal(t, c.want, public)
			_, err = c.kind.read(raw[1:])
			require.Error(t, err)
			_, err = c.kind.read(append(raw[:len(raw):len(raw)], 0))
			require.Error(t, err)
		}
	}
	_, err = p256Kind.read(make([]byte, 65))
	require.Error(t, err, "that is no point of the curve")
	_, err = p256Kind.encode(make([]byte, 63))
	require.Error(t, err)
	require.Equal(t, uint(7), number([]byte{7, 7, 7, 7})&0xff)
}

func TestNoToken(t *testing.T) {
	lib, tokens := softhsm(t)
	newToken(t, lib, tokens, "t")
	w := newWorld()
	open := func(u URI) error {
		_, err := w.open(t.Context(), u.String(), withPIN(userPIN))
		require.Error(t, err)
		return err
	}
	require.ErrorIs(t, open(URI{Token: "other", Object: "k", Module: lib}), ErrAway)
	require.ErrorIs(t, open(URI{Token: "t", Serial: "0", Object: "k", Module: lib}), ErrAway)
	require.ErrorIs(t, open(URI{Token: "t", Model: "X", Object: "k", Module: lib}), ErrAway)
	require.ErrorIs(t, open(URI{Token: "t", Object: "k"}), ErrURI)
	require.ErrorIs(t, open(URI{Token: "t", Object: "k", Module: "/nowhere.so"}), os.ErrNotExist)
	require.ErrorContains(t, open(URI{Token: "t", Object: "k", Module: tokens}), "not a regular file")
	_, err := Open(t.Context(), "pkcs11:token=t", nil)
	require.ErrorIs(t, err, ErrURI)
	file := filepath.Join(t.TempDir(), "text.so")
	require.NoError(t, os.WriteFile(file, []byte("text"), 0o600))
	_, err = Open(t.Context(), URI{Token: "t", Object: "k", Module: file}.String(), nil)
	require.ErrorContains(t, err, "is not a PKCS #11 module")

	newToken(t, lib, tokens, "t")
	require.ErrorContains(t, open(URI{Token: "t", Object: "k", Module: lib}), "2 tokens have the same name")
}

// TestOpenEnds: whoever opens a key need not wait for the module.
func TestOpenEnds(t *testing.T) {
	_, _, uris := both(t)
	w := newWorld()
	ctx, cancel := context.WithCancel(t.Context())
	hang, hung, ended := make(chan struct{}), make(chan struct{}), make(chan struct{})
	w.before = func(call string) error {
		switch call {
		case "Login":
			close(hung)
			<-hang
		case "Finalize":
			close(ended)
		}
		return nil
	}
	go func() {
		<-hung
		cancel()
	}()
	_, err := w.open(ctx, uris[0].String(), withPIN(userPIN))
	require.ErrorIs(t, err, context.Canceled)
	_, err = w.open(ctx, uris[0].String(), withPIN(userPIN))
	require.ErrorIs(t, err, context.Canceled)
	close(hang)
	<-ended // the key that comes too late is closed
}
