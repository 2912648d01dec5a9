package sshsig

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/sha256"
	"crypto/x509"
	"encoding/asn1"
	"slices"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// MaxAttestation bounds an attestation file, in bytes.
	MaxAttestation = 16 << 10
	// MinChallenge and MaxChallenge bound the challenge of an enrolment, in bytes. One
	// that is shorter may come up twice.
	MinChallenge, MaxChallenge = 16, 4 << 10
	// MaxRoots bounds the list of certificates that vouch for devices.
	MaxRoots = 256
)

const (
	attestationV0 = "ssh-sk-attest-v00"
	attestationV1 = "ssh-sk-attest-v01"
	// attestationUnit is the unit in the subject of a certificate, from WebAuthn,
	// section 8.2.1.
	attestationUnit = "Authenticator Attestation"
)

// aaguidExtension names the model of a device in its certificate: id-fido-gen-ce-aaguid,
// from WebAuthn, section 8.2.1.
var aaguidExtension = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 45724, 1, 1, 4}

// Attestation is what a FIDO device says about a key at its enrolment. Nothing of it is
// true before [Key.Attested] has verified it.
type Attestation struct {
	// Version is the version of the file's format: 1, or 0 for one that OpenSSH wrote
	// before 8.4.
	Version int
	// Certificate is the device's certificate in DER. It is empty if the device has none
	// or does not show it.
	Certificate []byte
	// Signature is the certificate's, in ASN.1 DER, over AuthData and the SHA-256 of the
	// challenge.
	Signature []byte
	// AuthData is the authenticator data of WebAuthn, section 6.1. It is empty in
	// version 0, and if the device gave none.
	AuthData []byte
}

// ParseAttestation reads the file that ssh-keygen -O write-attestation=FILE makes, of at
// most [MaxAttestation] bytes, as OpenSSH's PROTOCOL.u2f describes it. It verifies
// nothing. The error is [ErrInvalid], wrapped with the reason.
func ParseAttestation(file []byte) (*Attestation, error) {
	if len(file) > MaxAttestation {
		return nil, invalid("an attestation of %d bytes, more than %d", len(file), MaxAttestation)
	}
	// What ssh.Unmarshal reads shares memory with its input.
	file = bytes.Clone(file)
	var head struct {
		Format string
		Rest   []byte `ssh:"rest"`
	}
	if err := ssh.Unmarshal(file, &head); err != nil {
		return nil, invalid("the attestation does not parse")
	}
	var a *Attestation
	var reserved struct {
		Flags uint32
		Text  string
	}
	switch head.Format {
	case attestationV0:
		var w struct {
			Certificate, Signature []byte
			Rest                   []byte `ssh:"rest"`
		}
		if err := ssh.Unmarshal(head.Rest, &w); err != nil || ssh.Unmarshal(w.Rest, &reserved) != nil {
			return nil, invalid("the attestation does not parse as %s", head.Format)
		}
		a = &Attestation{0, w.Certificate, w.Signature, nil}
	case attestationV1:
		var w struct {
			Certificate, Signature, AuthData []byte
			Rest                             []byte `ssh:"rest"`
		}
		if err := ssh.Unmarshal(head.Rest, &w); err != nil || ssh.Unmarshal(w.Rest, &reserved) != nil {
			return nil, invalid("the attestation does not parse as %s", head.Format)
		}
		a = &Attestation{1, w.Certificate, w.Signature, nil}
		if len(w.AuthData) > 0 {
			var ok bool
			if a.AuthData, ok = cborBytes(w.AuthData); !ok {
				return nil, invalid("the authenticator data is not one byte string in CBOR")
			}
		}
	default:
		return nil, invalid("the attestation is neither %s nor %s", attestationV1, attestationV0)
	}
	if reserved.Flags != 0 || reserved.Text != "" {
		return nil, invalid("the reserved fields of the attestation are not empty")
	}
	return a, nil
}

// Attested returns nil if attestation, a file as [ParseAttestation] reads it, proves that
// k was made inside a FIDO device that one of roots vouches for, in answer to challenge.
//
// Each of roots is the certificate of a device itself, or of whoever has issued it: OpenSSH
// saves no certificates in between, so the direct issuer must be listed. Both must be valid
// at the instant at, and the device's have the form that WebAuthn, section 8.2.1, demands,
// with a key on P-256. The statement is for the application of k, made in the presence of
// the user, about a key that is exactly k, and that cannot leave the device (neither backed
// up nor eligible for it). Challenge is what was in the file given to ssh-keygen
// -O challenge; the caller has chosen it at random and takes it once.
//
// Only attestations in the format "packed" of FIDO2 verify, as OpenSSH writes them since
// 8.7. Older releases saved no authenticator data (version 0), or signed the challenge
// itself; devices that only know U2F cannot verify their users; and without a certificate
// (self attestation) nothing is proved. Models are not told apart, nor is it known here
// which certificates have been revoked: roots lists only what is trusted.
//
// The error is [ErrInvalid], wrapped with the reason.
func (k Key) Attested(attestation, challenge []byte, roots []*x509.Certificate, at time.Time) error {
	if !k.Hardware() {
		return invalid("the key is in software, and nothing attests it")
	}
	if n := len(challenge); n < MinChallenge || n > MaxChallenge {
		return invalid("a challenge of %d bytes; it has %d to %d", n, MinChallenge, MaxChallenge)
	}
	a, err := ParseAttestation(attestation)
	if err != nil {
		return err
	}
	if len(a.AuthData) == 0 {
		return invalid("the attestation has no authenticator data")
	}
	data, err := parseAuthData(a.AuthData)
	if err != nil {
		return err
	}
	if err := data.check(k); err != nil {
		return err
	}
	certificate, err := a.certificate(data.model, roots, at)
	if err != nil {
		return err
	}
	public, ok := certificate.PublicKey.(*ecdsa.PublicKey)
	if !ok || public.Curve != elliptic.P256() {
		return invalid("the key of the device's certificate is not of ECDSA on P-256")
	}
	hash := sha256.Sum256(challenge)
	digest := sha256.Sum256(slices.Concat(a.AuthData, hash[:]))
	if !ecdsa.VerifyASN1(public, digest[:], a.Signature) {
		return invalid("the signature of the attestation does not verify; it may be for another challenge")
	}
	return nil
}

// certificate returns the device's certificate once roots vouch for it.
func (a *Attestation) certificate(model [16]byte, roots []*x509.Certificate, at time.Time) (*x509.Certificate, error) {
	if len(a.Certificate) == 0 {
		return nil, invalid("the attestation has no certificate")
	}
	if len(roots) > MaxRoots {
		return nil, invalid("%d certificates vouch for devices, more than %d", len(roots), MaxRoots)
	}
	if at.IsZero() {
		return nil, invalid("there is no instant at which certificates are valid")
	}
	c, err := x509.ParseCertificate(a.Certificate)
	if err != nil {
		return nil, invalid("the device's certificate does not parse: %.200q", err.Error())
	}
	// A pool that is not nil keeps the roots of the system out.
	pool := x509.NewCertPool()
	for _, root := range roots {
		if root != nil {
			pool.AddCert(root)
		}
	}
	if _, err := c.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: at, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}}); err != nil {
		return nil, invalid("no listed certificate vouches for the device's: %.200q", err.Error())
	}
	if c.Version != 3 || !c.BasicConstraintsValid || c.IsCA || !slices.Contains(c.Subject.OrganizationalUnit, attestationUnit) {
		return nil, invalid("the device's certificate is not one for attestation: version 3, not of an authority, unit %q", attestationUnit)
	}
	for _, e := range c.Extensions {
		if !e.Id.Equal(aaguidExtension) {
			continue
		}
		var named []byte
		if rest, err := asn1.Unmarshal(e.Value, &named); err != nil || len(rest) > 0 || !bytes.Equal(named, model[:]) {
			return nil, invalid("the device's certificate is for another model")
		}
	}
	return c, nil
}
