package sshsig

import (
	"bytes"
	"crypto/x509"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/internal/skdummy"
)

// keygen runs ssh-keygen in a folder of its own, without a terminal and without the files
// of whoever runs the test. It answers prompts for a PIN.
type keygen struct {
	t    *testing.T
	path string
	dir  string
	env  []string
}

func newKeygen(t *testing.T, env ...string) *keygen {
	t.Helper()
	path, err := exec.LookPath("ssh-keygen")
	require.NoError(t, err, "the tests need ssh-keygen: install openssh-client")
	dir := t.TempDir()
	pin := filepath.Join(dir, "pin")
	require.NoError(t, os.WriteFile(pin, []byte("#!/bin/sh\necho 0000\n"), 0o700))
	return &keygen{t, path, dir, append([]string{"HOME=" + dir, "PATH=" + os.Getenv("PATH"), "SSH_ASKPASS=" + pin, "SSH_ASKPASS_REQUIRE=force"}, env...)}
}

func (g *keygen) run(stdin []byte, args ...string) (string, error) {
	cmd := exec.CommandContext(g.t.Context(), g.path, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = g.dir, g.env, bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (g *keygen) must(args ...string) string {
	g.t.Helper()
	out, err := g.run(nil, args...)
	require.NoError(g.t, err, "ssh-keygen %s: %s", strings.Join(args, " "), out)
	return out
}

func (g *keygen) write(name string, content []byte) {
	g.t.Helper()
	require.NoError(g.t, os.WriteFile(filepath.Join(g.dir, name), content, 0o600))
}

func (g *keygen) read(name string) []byte {
	g.t.Helper()
	b, err := os.ReadFile(filepath.Join(g.dir, name))
	require.NoError(g.t, err)
	return b
}

// key makes a key in the file of that name and returns its public half.
func (g *keygen) key(name string, args ...string) Key {
	g.t.Helper()
	g.must(append([]string{"-q", "-N", "", "-C", "alice@laptop", "-f", name}, args...)...)
	k, err := ParseKey(string(g.read(name + ".pub")))
	require.NoError(g.t, err)
	return k
}

// sign lets ssh-keygen sign a message and returns the blob.
func (g *keygen) sign(key, namespace string, message []byte, args ...string) []byte {
	g.t.Helper()
	g.write("message", message)
	_ = os.Remove(filepath.Join(g.dir, "message.sig"))
	g.must(append([]string{"-Y", "sign", "-n", namespace, "-f", key}, append(args, "message")...)...)
	armored := g.read("message.sig")
	raw, err := Unarmor(armored)
	require.NoError(g.t, err)
	require.Equal(g.t, string(armored), string(Armor(raw)), "the armor is the same")
	return raw
}

// verify lets ssh-keygen verify a signature.
func (g *keygen) verify(k Key, namespace string, message, raw []byte) (string, error) {
	g.t.Helper()
	g.write("allowed", []byte("alice namespaces=\""+namespace+"\" "+k.String()+"\n"))
	g.write("sig", Armor(raw))
	return g.run(message, "-Y", "verify", "-f", "allowed", "-I", "alice", "-n", namespace, "-s", "sig")
}

func TestKeygen(t *testing.T) {
	for name, args := range map[string][]string{"ed25519": {"-t", "ed25519"}, "ecdsa": {"-t", "ecdsa", "-b", "256"}} {
		t.Run(name, func(t *testing.T) {
			g := newKeygen(t)
			k, other := g.key("key", args...), g.key("other", args...)
			require.Contains(t, g.must("-l", "-f", "key.pub"), " "+k.ID()+" ")
			g.must("-c", "-q", "-C", "another comment", "-f", "key")
			again, err := ParseKey(string(g.read("key.pub")))
			require.NoError(t, err)
			require.Equal(t, k, again)

			theirs := g.sign("key", Namespace, message)
			require.NoError(t, k.Verify(message, theirs))
			require.ErrorIs(t, other.Verify(message, theirs), ErrInvalid)
			require.ErrorIs(t, k.Verify(append([]byte("x"), message...), theirs), ErrInvalid)
			require.ErrorIs(t, k.Verify(message, g.sign("key", "file", message)), ErrInvalid)
			require.ErrorIs(t, k.Verify(message, g.sign("key", Namespace, message, "-O", "hashalg=sha256")), ErrInvalid)

			signer, err := ParsePrivate(g.read("key"))
			require.NoError(t, err)
			ours, err := Sign(signer, message)
			require.NoError(t, err)
			out, err := g.verify(k, Namespace, message, ours)
			require.NoError(t, err, out)
			require.Contains(t, out, k.ID())
			if name == "ed25519" {
				require.Equal(t, theirs, ours, "Ed25519 signs in one way")
			}
			_, err = g.verify(k, "file", message, ours)
			require.Error(t, err)
			_, err = g.verify(other, Namespace, message, ours)
			require.Error(t, err)

			g.must("-p", "-q", "-N", "long secret", "-f", "key")
			_, err = ParsePrivate(g.read("key"))
			require.ErrorContains(t, err, "encrypted")
		})
	}
}

// TestKeygenVerifiesDevice: what tests build as signatures of devices are such signatures.
func TestKeygenVerifiesDevice(t *testing.T) {
	g := newKeygen(t)
	for _, algorithm := range algorithms[2:] {
		s := newSigner(t, algorithm)
		s.application = "ssh:approvals"
		out, err := g.verify(s.public(t), Namespace, message, s.seal(t, message))
		require.NoError(t, err, out)
		_, err = g.verify(s.public(t), Namespace, []byte("x"), s.seal(t, message))
		require.Error(t, err)
	}
}

// TestKeygenDevice enrols and signs with OpenSSH's own code for devices.
func TestKeygenDevice(t *testing.T) {
	provider, err := skdummy.Find()
	require.NoError(t, err)
	for _, kind := range []string{"ed25519-sk", "ecdsa-sk"} {
		t.Run(kind, func(t *testing.T) {
			g := newKeygen(t, "SSH_SK_PROVIDER="+provider)
			challenge := bytes.Repeat([]byte("c"), 32)
			g.write("challenge", challenge)
			k := g.key("key", "-t", kind, "-O", "verify-required", "-O", "application=ssh:approvals", "-O", "challenge=challenge", "-O", "write-attestation=attestation")
			require.True(t, k.Hardware())
			require.Equal(t, "ssh:approvals", k.Application())
			require.Contains(t, g.must("-l", "-f", "key.pub"), " "+k.ID()+" ")

			raw := g.sign("key", Namespace, message)
			require.NoError(t, k.Verify(message, raw))
			require.ErrorIs(t, k.Verify([]byte("x"), raw), ErrInvalid)
			require.ErrorIs(t, k.Verify(message, g.sign("key", "file", message)), ErrInvalid)

			touched := g.key("touched", "-t", kind)
			err := touched.Verify(message, g.sign("touched", Namespace, message))
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, "did not verify its user")
			silent := g.key("silent", "-t", kind, "-O", "no-touch-required", "-O", "verify-required")
			err = silent.Verify(message, g.sign("silent", Namespace, message))
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, "did not see its user")
			// The imitation repeats the flags of the enrolment, 0x20 for a resident key.
			resident := g.key("resident", "-t", kind, "-O", "resident", "-O", "verify-required")
			err = resident.Verify(message, g.sign("resident", Namespace, message))
			require.ErrorIs(t, err, ErrInvalid)
			require.ErrorContains(t, err, "unknown flags")

			// The imitation attests nothing.
			a, err := ParseAttestation(g.read("attestation"))
			require.NoError(t, err)
			require.Equal(t, &Attestation{Version: 1, Certificate: []byte{}, Signature: []byte{}}, a)
			require.ErrorIs(t, k.Attested(g.read("attestation"), challenge, []*x509.Certificate{newMaker(t, 1).certificate}, time.Now()), ErrInvalid)
			// Its private file holds no key.
			_, err = ParsePrivate(g.read("key"))
			require.ErrorIs(t, err, ErrInvalid)
		})
	}
}
