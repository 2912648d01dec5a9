package main

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"math/big"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"chimera.ai/engine/internal/skdummy"
)

// fido lets ssh-keygen use OpenSSH's imitation of a FIDO device, with a PIN.
func fido(ts *testscript.TestScript, _ bool, _ []string) {
	provider, err := skdummy.Find()
	ts.Check(err)
	pin := ts.MkAbs("fido-pin")
	ts.Check(os.WriteFile(pin, []byte("#!/bin/sh\necho 0000\n"), 0o700))
	ts.Setenv("SSH_SK_PROVIDER", provider)
	ts.Setenv("SSH_ASKPASS", pin)
	ts.Setenv("SSH_ASKPASS_REQUIRE", "force")
}

// attest PUB CHALLENGE ATTESTATION ROOT writes what a device that holds the Ed25519 key of a
// file would attest in answer to a challenge, and the certificate of its maker. OpenSSH's
// imitation attests nothing.
func attest(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 4 {
		ts.Fatalf("usage: attest PUB CHALLENGE ATTESTATION ROOT")
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey([]byte(ts.ReadFile(args[0])))
	ts.Check(err)
	var wire struct{ Algorithm, Point, Application string }
	ts.Check(ssh.Unmarshal(public.Marshal(), &wire))
	if wire.Algorithm != ssh.KeyAlgoSKED25519 || len(wire.Point) != ed25519.PublicKeySize {
		ts.Fatalf("%s is a key of %s", args[0], wire.Algorithm)
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		ts.Check(err)
		return k
	}
	maker, device := key(), key()
	root := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Maker"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		BasicConstraintsValid: true, IsCA: true,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, maker.Public(), maker)
	ts.Check(err)
	leaf, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{Country: []string{"SE"}, Organization: []string{"Maker"}, OrganizationalUnit: []string{"Authenticator Attestation"}, CommonName: "Device"},
		NotBefore: root.NotBefore, NotAfter: root.NotAfter, BasicConstraintsValid: true,
	}, root, device.Public(), maker)
	ts.Check(err)

	// The authenticator data of WebAuthn, sections 6.1 and 6.5.1: application, flags (user
	// present and verified, credential), counter, model, id, and the key in COSE.
	application := sha256.Sum256([]byte(wire.Application))
	id := make([]byte, 32)
	data := append(application[:], 0x45, 0, 0, 0, 1)
	data = append(data, make([]byte, 16)...)
	data = binary.BigEndian.AppendUint16(data, uint16(len(id)))
	data = slices.Concat(data, id, []byte{0xa4, 0x01, 0x01, 0x03, 0x27, 0x20, 0x06, 0x21, 0x58, 32}, []byte(wire.Point))
	challenge := sha256.Sum256([]byte(ts.ReadFile(args[1])))
	digest := sha256.Sum256(slices.Concat(data, challenge[:]))
	signature, err := ecdsa.SignASN1(rand.Reader, device, digest[:])
	ts.Check(err)
	file := ssh.Marshal(struct {
		Format                           string
		Certificate, Signature, AuthData []byte
		Flags                            uint32
		Reserved                         string
	}{"ssh-sk-attest-v01", leaf, signature, append([]byte{0x58, byte(len(data))}, data...), 0, ""})
	ts.Check(os.WriteFile(ts.MkAbs(args[2]), file, 0o600))
	ts.Check(os.WriteFile(ts.MkAbs(args[3]), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER}), 0o600))
}

// TestLastOf: a signer is valid for a year unless it is said otherwise.
func TestLastOf(t *testing.T) {
	from := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		valid, until string
		want         time.Time
	}{
		"neither":  {"", "", from.AddDate(0, 0, 365)},
		"days":     {"10d", "", from.AddDate(0, 0, 10)},
		"hours":    {"36h", "", from.Add(36 * time.Hour)},
		"the day":  {"", "2026-03-01", time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)},
		"a time":   {"", "2026-03-01T13:30:00+01:00", from.Add(30 * time.Minute)},
		"both":     {"1d", "2027-01-01", time.Time{}},
		"past":     {"", "2026-02-28", time.Time{}},
		"now":      {"", "2026-03-01T12:00:00Z", time.Time{}},
		"no date":  {"", "tomorrow", time.Time{}},
		"no time":  {"soon", "", time.Time{}},
		"negative": {"-1h", "", time.Time{}},
		"zero":     {"0d", "", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			have, err := lastOf(c.valid, c.until, from)
			if c.want.IsZero() {
				var wrong *failure
				require.ErrorAs(t, err, &wrong)
				require.Equal(t, exitUsage, wrong.code)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, have.UTC())
		})
	}
}
