// Package testca provides tests with certificates, of authorities of their own.
package testca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Authority issues certificates, which are valid for a day.
type Authority struct {
	// Cert is its own certificate, Key the key of that, and File holds it in PEM.
	Cert *x509.Certificate
	Key  crypto.Signer
	File string

	dir string
}

// New makes an authority.
func New(t testing.TB, name string) *Authority {
	t.Helper()
	a := &Authority{dir: t.TempDir()}
	own, file, _ := a.Issue(t, name, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	a.Cert, a.File = own.Leaf, file
	a.Key, _ = own.PrivateKey.(crypto.Signer)
	return a
}

// Issue makes a certificate with a new key, and files in PEM with it and with its key. It completes the
// template c with serial number, subject and time.
func (a *Authority) Issue(t testing.TB, name string, c *x509.Certificate) (made tls.Certificate, certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<60))
	require.NoError(t, err)
	c.Subject, c.NotBefore, c.NotAfter = pkix.Name{CommonName: name}, time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	parent, signer := a.Cert, a.Key
	if parent == nil { // its own
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), signer)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(a.dir, name+".pem"), filepath.Join(a.dir, name+".key")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, []byte(PEM(t, key)), 0o600))
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, certFile, keyFile
}

// Server makes the certificate of a server with DNS names, or of one at 127.0.0.1.
func (a *Authority) Server(t testing.TB, name string, dns ...string) tls.Certificate {
	t.Helper()
	c := &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, DNSNames: dns}
	if len(dns) == 0 {
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	made, _, _ := a.Issue(t, name, c)
	return made
}

// Client makes the certificate of a client.
func (a *Authority) Client(t testing.TB) (made tls.Certificate, certFile, keyFile string) {
	t.Helper()
	return a.Issue(t, "client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
}

// Pin names the key of a certificate as the configuration does, in tls.pins of an MCP server.
func Pin(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// PEM writes a private key.
func PEM(t testing.TB, key any) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}
