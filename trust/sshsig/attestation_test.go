package sshsig

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

var (
	made      = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	challenge = []byte("a challenge of thirty-two bytes!")
	model     = [16]byte{0xee, 0x88, 0x28, 0x79}
)

// maker vouches for devices.
type maker struct {
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func newMaker(t testing.TB, seed byte) *maker {
	t.Helper()
	key := onP256(t, bytes.Repeat([]byte{seed}, 32))
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Root"}, NotBefore: made.AddDate(-1, 0, 0), NotAfter: made.AddDate(9, 0, 0),
		BasicConstraintsValid: true, IsCA: true,
	}
	return &maker{key, issue(t, c, c, key.Public(), key)}
}

func issue(t testing.TB, c, by *x509.Certificate, key any, with any) *x509.Certificate {
	t.Helper()
	// Without randomness the certificate is the same each time.
	der, err := x509.CreateCertificate(nil, c, by, key, with)
	require.NoError(t, err)
	c, err = x509.ParseCertificate(der)
	require.NoError(t, err)
	return c
}

// enrolment is what goes into an attestation file; tests change it on the way.
type enrolment struct {
	// template becomes the device's certificate.
	template *x509.Certificate
	// device is its key, which signs.
	device crypto.Signer
	// issuer signs the certificate.
	issuer *maker

	application string
	flags       byte
	id          []byte
	idLength    int
	cose        []byte
	extensions  []byte

	challenge []byte
	// certificate, signature, authData and file change what is done.
	certificate, signature, authData, file func([]byte) []byte
	reserved                               uint32
	reservedText                           string
}

// extension returns the extension that names the model of a device.
func extension(t testing.TB, model []byte) pkix.Extension {
	t.Helper()
	value, err := asn1.Marshal(model)
	require.NoError(t, err)
	return pkix.Extension{Id: aaguidExtension, Value: value}
}

func newEnrolment(t testing.TB, m *maker, s *signer) *enrolment {
	t.Helper()
	cose, err := s.public(t).cose()
	require.NoError(t, err)
	same := func(b []byte) []byte { return b }
	return &enrolment{
		template: &x509.Certificate{
			SerialNumber: big.NewInt(2), Subject: pkix.Name{Country: []string{"SE"}, Organization: []string{"Maker"}, OrganizationalUnit: []string{attestationUnit}, CommonName: "Device"},
			NotBefore: made.AddDate(0, -1, 0), NotAfter: made.AddDate(5, 0, 0), BasicConstraintsValid: true,
			ExtraExtensions: []pkix.Extension{extension(t, model[:])},
		},
		device: onP256(t, bytes.Repeat([]byte{3}, 32)), issuer: m, application: s.application, flags: flagPresent | flagVerified | flagCredential,
		id: bytes.Repeat([]byte{9}, 64), idLength: 64, cose: cose, challenge: challenge,
		certificate: same, signature: same, authData: same, file: same,
	}
}

// write returns the attestation file and the device's certificate.
func (e *enrolment) write(t testing.TB) ([]byte, *x509.Certificate) {
	t.Helper()
	c := issue(t, e.template, e.issuer.certificate, e.device.Public(), e.issuer.key)
	application := sha256.Sum256([]byte(e.application))
	data := append(application[:], e.flags, 0, 0, 0, 1)
	data = append(data, model[:]...)
	data = binary.BigEndian.AppendUint16(data, uint16(e.idLength))
	data = slices.Concat(data, e.id, e.cose, e.extensions)
	hash := sha256.Sum256(e.challenge)
	digest := sha256.Sum256(slices.Concat(data, hash[:]))
	hashed := crypto.SHA256
	if _, ok := e.device.(ed25519.PrivateKey); ok {
		hashed = crypto.Hash(0)
	}
	signature, err := e.device.Sign(nil, digest[:], hashed)
	require.NoError(t, err)
	wrapped := slices.Concat(byteString(len(data)), data)
	file := stringsOf(attestationV1, string(e.certificate(c.Raw)), string(e.signature(signature)), string(e.authData(wrapped)))
	file = binary.BigEndian.AppendUint32(file, e.reserved)
	return e.file(append(file, stringsOf(e.reservedText)...)), c
}

// byteString is the head of a byte string in CBOR.
func byteString(n int) []byte {
	switch {
	case n < 24:
		return []byte{0x40 | byte(n)}
	case n < 256:
		return []byte{0x58, byte(n)}
	}
	return []byte{0x59, byte(n >> 8), byte(n)}
}

func TestAttested(t *testing.T) {
	m, stranger := newMaker(t, 1), newMaker(t, 2)
	for _, algorithm := range algorithms[2:] {
		t.Run(algorithm, func(t *testing.T) {
			s := newSigner(t, algorithm)
			s.application = "ssh:approvals"
			k := s.public(t)
			file, own := newEnrolment(t, m, s).write(t)
			roots := []*x509.Certificate{stranger.certificate, nil, m.certificate}
			require.NoError(t, k.Attested(file, challenge, roots, made))
			require.NoError(t, k.Attested(file, challenge, []*x509.Certificate{own}, made), "the certificate itself")
			for name, list := range map[string][]*x509.Certificate{
				"none": nil, "empty": {}, "nil": {nil}, "another": {stranger.certificate}, "not parsed": {{}}, "too many": make([]*x509.Certificate, MaxRoots+1),
			} {
				require.ErrorIs(t, k.Attested(file, challenge, list, made), ErrInvalid, "roots: %s", name)
			}
			for name, at := range map[string]time.Time{
				"none": {}, "before the device": made.AddDate(0, -2, 0), "after the device": made.AddDate(6, 0, 0), "after the maker": made.AddDate(20, 0, 0),
			} {
				require.ErrorIs(t, k.Attested(file, challenge, roots, at), ErrInvalid, "instant: %s", name)
			}
			for name, other := range map[string][]byte{
				"none": nil, "short": challenge[:15], "other": append([]byte("b"), challenge[1:]...), "long": make([]byte, MaxChallenge+1),
				"its hash": func() []byte { h := sha256.Sum256(challenge); return h[:] }(),
			} {
				require.ErrorIs(t, k.Attested(file, other, roots, made), ErrInvalid, "challenge: %s", name)
			}
			for n, fine := range map[int]bool{MinChallenge - 1: false, MinChallenge: true, MaxChallenge: true, MaxChallenge + 1: false} {
				e := newEnrolment(t, m, s)
				e.challenge = make([]byte, n)
				file, _ := e.write(t)
				require.Equal(t, fine, k.Attested(file, e.challenge, roots, made) == nil, "a challenge of %d bytes", n)
			}
			many := append(make([]*x509.Certificate, MaxRoots-1), m.certificate)
			require.NoError(t, k.Attested(file, challenge, many, made))
			require.ErrorIs(t, k.Attested(file, challenge, append(many, nil), made), ErrInvalid)
			otherKey := newSigner(t, algorithm)
			otherKey.application = s.application
			require.ErrorIs(t, otherKey.public(t).Attested(file, challenge, roots, made), ErrInvalid, "another key")
			otherApplication := *s
			otherApplication.application = "ssh:"
			require.ErrorIs(t, otherApplication.public(t).Attested(file, challenge, roots, made), ErrInvalid, "another application")
			software := &signer{algorithm: map[string]string{ssh.KeyAlgoSKED25519: ssh.KeyAlgoED25519, ssh.KeyAlgoSKECDSA256: ssh.KeyAlgoECDSA256}[algorithm], key: s.key}
			require.ErrorIs(t, software.public(t).Attested(file, challenge, roots, made), ErrInvalid, "the same point in software")
			nowhere, _ := newEnrolment(t, m, software).write(t)
			require.ErrorIs(t, software.public(t).Attested(nowhere, challenge, roots, made), ErrInvalid, "software attested for no application")
			require.ErrorIs(t, Key{}.Attested(file, challenge, roots, made), ErrInvalid, "no key")
			for i := range file {
				require.ErrorIs(t, k.Attested(file[:i], challenge, roots, made), ErrInvalid, "%d bytes of it", i)
				changed := bytes.Clone(file)
				changed[i] ^= 0x04
				require.ErrorIs(t, k.Attested(changed, challenge, roots, made), ErrInvalid, "byte %d changed", i)
			}
		})
	}
}

func TestAttestedForms(t *testing.T) {
	m := newMaker(t, 1)
	s := newSigner(t, ssh.KeyAlgoSKED25519)
	k := s.public(t)
	roots := []*x509.Certificate{m.certificate}
	credProtect := append([]byte{0xa1, 0x6b}, "credProtect\x03"...)
	nested := append(bytes.Repeat([]byte{0x81}, 9), 0)
	authority := newMaker(t, 2)
	leaf := &maker{authority.key, issue(t, &x509.Certificate{
		SerialNumber: big.NewInt(3), Subject: pkix.Name{CommonName: "A device, no authority"}, NotBefore: m.certificate.NotBefore, NotAfter: m.certificate.NotAfter, BasicConstraintsValid: true,
	}, m.certificate, authority.key.Public(), m.key)}
	// The maker's name with another key.
	renamed := *m.certificate
	renamed.PublicKey = authority.key.Public()
	impostor := &maker{authority.key, &renamed}
	for name, c := range map[string]struct {
		edit func(*enrolment)
		fine bool
	}{
		"as it is":               {func(*enrolment) {}, true},
		"user not verified":      {func(e *enrolment) { e.flags &^= flagVerified }, true},
		"verification required":  {func(e *enrolment) { e.flags |= flagExtensions; e.extensions = credProtect }, true},
		"long credential id":     {func(e *enrolment) { e.id = make([]byte, maxCredentialID); e.idLength = len(e.id) }, true},
		"model not named":        {func(e *enrolment) { e.template.ExtraExtensions = nil }, true},
		"user not present":       {func(e *enrolment) { e.flags &^= flagPresent }, false},
		"no credential":          {func(e *enrolment) { e.flags &^= flagCredential }, false},
		"may be backed up":       {func(e *enrolment) { e.flags |= 0x08 }, false},
		"is backed up":           {func(e *enrolment) { e.flags |= 0x18 }, false},
		"reserved flag":          {func(e *enrolment) { e.flags |= 0x02 }, false},
		"extensions unsaid":      {func(e *enrolment) { e.extensions = credProtect }, false},
		"extensions missing":     {func(e *enrolment) { e.flags |= flagExtensions }, false},
		"extensions no map":      {func(e *enrolment) { e.flags |= flagExtensions; e.extensions = []byte{0x01} }, false},
		"extensions and more":    {func(e *enrolment) { e.flags |= flagExtensions; e.extensions = append(bytes.Clone(credProtect), 0) }, false},
		"extensions too deep":    {func(e *enrolment) { e.flags |= flagExtensions; e.extensions = append([]byte{0xa1, 0x00}, nested...) }, false},
		"application":            {func(e *enrolment) { e.application = "ssh:x" }, false},
		"no credential id":       {func(e *enrolment) { e.id = nil; e.idLength = 0 }, false},
		"credential id too long": {func(e *enrolment) { e.id = make([]byte, maxCredentialID+1); e.idLength = len(e.id) }, false},
		"credential id past end": {func(e *enrolment) { e.idLength = 1000 }, false},
		"no key":                 {func(e *enrolment) { e.cose = nil }, false},
		"key first, then more":   {func(e *enrolment) { e.cose = append(bytes.Clone(e.cose), 0) }, false},
		"key with another kty":   {func(e *enrolment) { e.cose = bytes.Clone(e.cose); e.cose[2] = 2 }, false},
		"other challenge":        {func(e *enrolment) { e.challenge = []byte("another challenge") }, false},
		"data not in CBOR":       {func(e *enrolment) { e.authData = func(b []byte) []byte { return b[2:] } }, false},
		"data in longer CBOR": {func(e *enrolment) {
			e.authData = func(b []byte) []byte { return append([]byte{0x59, 0, b[1]}, b[2:]...) }
		}, false},
		"data and more":        {func(e *enrolment) { e.authData = func(b []byte) []byte { return append(b, 0) } }, false},
		"data as text":         {func(e *enrolment) { e.authData = func(b []byte) []byte { b[0] |= 0x20; return b } }, false},
		"no data":              {func(e *enrolment) { e.authData = func([]byte) []byte { return nil } }, false},
		"short data":           {func(e *enrolment) { e.authData = func([]byte) []byte { return []byte("\x44data") } }, false},
		"empty data":           {func(e *enrolment) { e.authData = func([]byte) []byte { return []byte{0x40} } }, false},
		"no signature":         {func(e *enrolment) { e.signature = func([]byte) []byte { return nil } }, false},
		"signature and more":   {func(e *enrolment) { e.signature = func(b []byte) []byte { return append(b, 0) } }, false},
		"no certificate":       {func(e *enrolment) { e.certificate = func([]byte) []byte { return nil } }, false},
		"certificate and more": {func(e *enrolment) { e.certificate = func(b []byte) []byte { return append(b, 0) } }, false},
		"the maker's own":      {func(e *enrolment) { e.certificate = func([]byte) []byte { return m.certificate.Raw } }, false},
		"an authority":         {func(e *enrolment) { e.template.IsCA = true }, false},
		"no constraints":       {func(e *enrolment) { e.template.BasicConstraintsValid = false }, false},
		"another unit":         {func(e *enrolment) { e.template.Subject.OrganizationalUnit = []string{"Web"} }, false},
		"another model":        {func(e *enrolment) { e.template.ExtraExtensions[0] = extension(t, make([]byte, 16)) }, false},
		"model not in ASN.1":   {func(e *enrolment) { e.template.ExtraExtensions[0].Value = model[:] }, false},
		"critical extension":   {func(e *enrolment) { e.template.ExtraExtensions[0].Critical = true }, false},
		"by another device":    {func(e *enrolment) { e.issuer = leaf }, false},
		"by another maker":     {func(e *enrolment) { e.issuer = impostor }, false},
		"key of Ed25519":       {func(e *enrolment) { _, e.device, _ = ed25519.GenerateKey(rand.Reader) }, false},
		"key of RSA":           {func(e *enrolment) { e.device, _ = rsa.GenerateKey(rand.Reader, 2048) }, false},
		"key on P-384":         {func(e *enrolment) { e.device, _ = ecdsa.GenerateKey(elliptic.P384(), rand.Reader) }, false},
		"reserved flags":       {func(e *enrolment) { e.reserved = 1 }, false},
		"reserved text":        {func(e *enrolment) { e.reservedText = "x" }, false},
		"file and more":        {func(e *enrolment) { e.file = func(b []byte) []byte { return append(b, 0) } }, false},
		"certificate too long": {func(e *enrolment) { e.template.Subject.CommonName = strings.Repeat("x", MaxAttestation) }, false},
		"file too long": {func(e *enrolment) {
			e.file = func(b []byte) []byte { return append(b, make([]byte, MaxAttestation)...) }
		}, false},
		"other format": {func(e *enrolment) { e.file = func(b []byte) []byte { b[len(attestationV1)+3] = '2'; return b } }, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnrolment(t, m, s)
			c.edit(e)
			file, _ := e.write(t)
			err := k.Attested(file, challenge, append(roots, leaf.certificate), made)
			if c.fine {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrInvalid)
			t.Log(err)
		})
	}
}
