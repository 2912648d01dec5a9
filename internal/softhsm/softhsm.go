// Package softhsm gives tests tokens of SoftHSM 2, which are folders. It needs neither cgo
// nor the tag pkcs11: keys are made by softhsm2-util.
//
// A process has one configuration of SoftHSM, so tests with tokens do not run in parallel.
package softhsm

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// PIN is that of every token.
const PIN = "token-secret"

var modules = []string{
	"/usr/lib/softhsm/libsofthsm2.so", "/usr/lib/pkcs11/libsofthsm2.so", "/usr/lib64/pkcs11/libsofthsm2.so",
	"/usr/local/lib/softhsm/libsofthsm2.so", "/opt/homebrew/lib/softhsm/libsofthsm2.so",
}

// Token is a token.
type Token struct {
	Label string
	// Module is the path of SoftHSM's module.
	Module string
	// folder is that of the token, and out where it is while it is taken out.
	folder, out string
}

// Module returns the path of SoftHSM's module.
func Module(t testing.TB) string {
	t.Helper()
	i := slices.IndexFunc(modules, func(p string) bool { _, err := os.Stat(p); return err == nil })
	require.GreaterOrEqual(t, i, 0, "SoftHSM is missing: make setup installs it (package softhsm2)")
	return modules[i]
}

// New makes a token, the only one of the test.
func New(t testing.TB, label string) *Token {
	t.Helper()
	dir := t.TempDir()
	tokens, file := filepath.Join(dir, "tokens"), filepath.Join(dir, "softhsm2.conf")
	require.NoError(t, os.Mkdir(tokens, 0o700))
	require.NoError(t, os.WriteFile(file, []byte("directories.tokendir = "+tokens+"\nobjectstore.backend = file\nlog.level = ERROR\n"), 0o600))
	t.Setenv("SOFTHSM2_CONF", file)
	util(t, "--init-token", "--free", "--label", label, "--so-pin", "12345678", "--pin", PIN)
	entries, err := os.ReadDir(tokens)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	return &Token{Label: label, Module: Module(t), folder: filepath.Join(tokens, entries[0].Name()), out: filepath.Join(dir, "out")}
}

// Key makes an Ed25519 key on the token, and returns its URI, without a module.
func (k *Token) Key(t testing.TB, label string) string {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	util(t, "--import", file, "--token", k.Label, "--label", label, "--id", hex.EncodeToString([]byte(label)), "--pin", PIN)
	return "pkcs11:token=" + k.Label + ";object=" + label
}

// TakeOut takes the token out, and PutBack puts it back.
func (k *Token) TakeOut(t testing.TB) {
	t.Helper()
	require.NoError(t, os.Rename(k.folder, k.out))
}

// PutBack is described at [Token.TakeOut].
func (k *Token) PutBack(t testing.TB) {
	t.Helper()
	require.NoError(t, os.Rename(k.out, k.folder))
}

func util(t testing.TB, args ...string) {
	t.Helper()
	said, err := exec.CommandContext(t.Context(), "softhsm2-util", args...).CombinedOutput()
	require.NoError(t, err, "%s", said)
}
