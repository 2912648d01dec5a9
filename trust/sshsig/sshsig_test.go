package sshsig

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"io"
	"math/big"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"
)

var message = []byte("pay 12.50 EUR to alice\n")

func TestVerify(t *testing.T) {
	for _, algorithm := range algorithms {
		t.Run(algorithm, func(t *testing.T) {
			s := newSigner(t, algorithm)
			k, raw := s.public(t), s.seal(t, message)
			require.NoError(t, k.Verify(message, raw))
			require.NoError(t, k.Verify(nil, s.seal(t, nil)), "an empty message")
			require.Equal(t, s.application, k.Application())
			require.Equal(t, strings.HasPrefix(algorithm, "sk-"), k.Hardware())

			other := newSigner(t, algorithm)
			signed, err := Sign(s, message)
			require.NoError(t, err)
			require.NoError(t, k.Verify(message, signed))
			for name, raw := range map[string][]byte{
				"nothing":                nil,
				"magic alone":            []byte(magic),
				"armored":                Armor(raw),
				"too long":               append(bytes.Clone(raw), make([]byte, MaxSignature)...),
				"extra byte":             append(bytes.Clone(raw), 0),
				"other magic":            patch(t, raw, func(b *blob) { b.Magic[5] = 'H' }),
				"version 0":              patch(t, raw, func(b *blob) { b.Version = 0 }),
				"version 2":              patch(t, raw, func(b *blob) { b.Version = 2 }),
				"other key":              other.seal(t, message),
				"other key named as own": patch(t, other.seal(t, message), func(b *blob) { b.PublicKey = string(s.wire()) }),
				"own key named as other": patch(t, raw, func(b *blob) { b.PublicKey = string(other.wire()) }),
				"no key":                 patch(t, raw, func(b *blob) { b.PublicKey = "" }),
				"key with extra byte":    patch(t, raw, func(b *blob) { b.PublicKey += "x" }),
				"namespace file":         s.seal(t, message, func(b *blob) { b.Namespace = "file" }),
				"namespace empty":        s.seal(t, message, func(b *blob) { b.Namespace = "" }),
				"namespace longer":       s.seal(t, message, func(b *blob) { b.Namespace += "\x00" }),
				"namespace patched":      patch(t, s.seal(t, message, func(b *blob) { b.Namespace = "file" }), func(b *blob) { b.Namespace = Namespace }),
				"reserved, signed":       s.seal(t, message, func(b *blob) { b.Reserved = "x" }),
				"reserved, not signed":   patch(t, raw, func(b *blob) { b.Reserved = "x" }),
				"sha256":                 s.seal(t, message, func(b *blob) { b.Hash = "sha256" }),
				"sha1":                   s.seal(t, message, func(b *blob) { b.Hash = "sha1" }),
				"hash patched":           patch(t, raw, func(b *blob) { b.Hash = "sha256" }),
				"no signature":           patch(t, raw, func(b *blob) { b.Signature = "" }),
				"altered":                patchInner(t, raw, func(s *ssh.Signature) { s.Blob[len(s.Blob)-1] ^= 1 }),
				"signature of rsa":       patchInner(t, raw, func(s *ssh.Signature) { s.Format = ssh.KeyAlgoRSASHA512 }),
				"signature of webauthn":  patchInner(t, raw, func(s *ssh.Signature) { s.Format = "webauthn-" + s.Format }),
				"inner blob longer":      patchInner(t, raw, func(s *ssh.Signature) { s.Blob = append(s.Blob, 0) }),
				"inner rest longer":      patchInner(t, raw, func(s *ssh.Signature) { s.Rest = append(s.Rest, 0) }),
				"empty inner blob":       patchInner(t, raw, func(s *ssh.Signature) { s.Blob = nil }),
			} {
				require.ErrorIs(t, k.Verify(message, raw), ErrInvalid, name)
			}
			for i := range raw {
				require.ErrorIs(t, k.Verify(message, raw[:i]), ErrInvalid, "%d bytes of it", i)
				changed := bytes.Clone(raw)
				changed[i] ^= 0x10
				require.ErrorIs(t, k.Verify(message, changed), ErrInvalid, "byte %d changed", i)
			}
			require.ErrorIs(t, k.Verify(append(bytes.Clone(message), '\n'), raw), ErrInvalid, "altered message")
			require.ErrorIs(t, k.Verify(nil, raw), ErrInvalid, "no message")
			require.ErrorIs(t, other.public(t).Verify(message, raw), ErrInvalid, "by another key")
			require.ErrorIs(t, Key{}.Verify(message, raw), ErrInvalid, "no key")
		})
	}
}

// TestVerifyReasons: a person is told what to do otherwise.
func TestVerifyReasons(t *testing.T) {
	s, other := newSigner(t, ssh.KeyAlgoSKED25519), newSigner(t, ssh.KeyAlgoSKED25519)
	k, raw := s.public(t), s.seal(t, message)
	for reason, raw := range map[string][]byte{
		"more than 16384":                        make([]byte, MaxSignature+1),
		"remove its armor first":                 Armor(raw),
		"by the key " + other.public(t).ID():     other.seal(t, message),
		`for the namespace "file"`:               s.seal(t, message, func(b *blob) { b.Namespace = "file" }),
		"over a hash by sha256":                  s.seal(t, message, func(b *blob) { b.Hash = "sha256" }),
		`the signature is by "ssh-ed25519"`:      patchInner(t, raw, func(s *ssh.Signature) { s.Format = ssh.KeyAlgoED25519 }),
		"10 bytes follow the signature":          patchInner(t, raw, func(s *ssh.Signature) { s.Rest = make([]byte, 10) }),
		"its reserved field is not empty":        patch(t, raw, func(b *blob) { b.Reserved = "x" }),
		"the signature does not verify":          patchInner(t, raw, func(s *ssh.Signature) { s.Blob[0] ^= 1 }),
		"unsupported signature version 2":        patch(t, raw, func(b *blob) { b.Version = 2 }),
		"unsupported hash algorithm \\\"md5\\\"": s.seal(t, message, func(b *blob) { b.Hash = "md5" }),
	} {
		require.ErrorContains(t, k.Verify(message, raw), reason)
	}
	require.ErrorContains(t, Key{}.Verify(message, raw), "there is no public key")
	_, err := ParseKey("restrict " + k.String())
	require.ErrorContains(t, err, `without options, and "restrict" is none of`)
}

// TestVerifyMixesNoKinds: a signature counts for the kind of key that has made it. The
// points are the same here.
func TestVerifyMixesNoKinds(t *testing.T) {
	for _, pair := range [][2]string{{ssh.KeyAlgoED25519, ssh.KeyAlgoSKED25519}, {ssh.KeyAlgoECDSA256, ssh.KeyAlgoSKECDSA256}} {
		device := newSigner(t, pair[1])
		software := &signer{algorithm: pair[0], key: device.key}
		elsewhere := &signer{algorithm: pair[1], key: device.key, application: "ssh:elsewhere", flags: device.flags}
		all := []*signer{device, software, elsewhere}
		for i, by := range all {
			raw := by.seal(t, message)
			for j, of := range all {
				k := of.public(t)
				require.Equal(t, i == j, k.Equal(by.public(t)))
				patched := patch(t, raw, func(b *blob) { b.PublicKey = string(of.wire()) })
				renamed := patchInner(t, patched, func(s *ssh.Signature) { s.Format = of.algorithm })
				if i == j {
					require.NoError(t, k.Verify(message, renamed))
					continue
				}
				for _, forged := range [][]byte{raw, patched, renamed} {
					require.ErrorIs(t, k.Verify(message, forged), ErrInvalid, "by %d for %d", i, j)
				}
			}
		}
	}
}

func TestVerifyFlags(t *testing.T) {
	for _, algorithm := range []string{ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256} {
		s := newSigner(t, algorithm)
		k := s.public(t)
		for flags := range 256 {
			s.flags = byte(flags)
			raw := s.seal(t, message)
			if flags == flagPresent|flagVerified {
				require.NoError(t, k.Verify(message, raw))
				continue
			}
			require.ErrorIs(t, k.Verify(message, raw), ErrInvalid, "flags %#02x", flags)
			forged := patchInner(t, raw, func(s *ssh.Signature) { s.Rest[0] = flagPresent | flagVerified })
			require.ErrorIs(t, k.Verify(message, forged), ErrInvalid, "flags %#02x, not signed", flags)
		}
		s.flags = flagPresent
		_, err := Sign(s, message)
		require.ErrorIs(t, err, ErrInvalid)
		require.ErrorContains(t, err, "did not verify its user")
		s.flags = flagVerified
		require.ErrorContains(t, k.Verify(message, s.seal(t, message)), "did not see its user")

		s.flags = flagPresent | flagVerified
		counter := patchInner(t, s.seal(t, message), func(s *ssh.Signature) { s.Rest[4]++ })
		require.ErrorIs(t, k.Verify(message, counter), ErrInvalid, "counter, not signed")
		short := patchInner(t, s.seal(t, message), func(s *ssh.Signature) { s.Rest = s.Rest[:4] })
		require.ErrorIs(t, k.Verify(message, short), ErrInvalid, "short counter")
	}
}

// TestVerifyNumbers: the numbers of ECDSA have one encoding, though -s verifies like s.
func TestVerifyNumbers(t *testing.T) {
	type numbers struct{ R, S *big.Int }
	for _, algorithm := range []string{ssh.KeyAlgoECDSA256, ssh.KeyAlgoSKECDSA256} {
		s := newSigner(t, algorithm)
		k, raw := s.public(t), s.seal(t, message)
		edit := func(f func(*numbers) []byte) []byte {
			return patchInner(t, raw, func(s *ssh.Signature) {
				var n numbers
				require.NoError(t, ssh.Unmarshal(s.Blob, &n))
				s.Blob = f(&n)
			})
		}
		order := elliptic.P256().Params().N
		require.NoError(t, k.Verify(message, edit(func(n *numbers) []byte {
			n.S.Sub(order, n.S)
			return ssh.Marshal(n)
		})), "whoever counts signatures counts keys")
		for name, raw := range map[string][]byte{
			"leading zeros": edit(func(n *numbers) []byte {
				return stringsOf("\x00\x00"+string(n.R.Bytes()), "\x00\x00"+string(n.S.Bytes()))
			}),
			"r + order": edit(func(n *numbers) []byte { n.R.Add(n.R, order); return ssh.Marshal(n) }),
			"zero":      edit(func(*numbers) []byte { return ssh.Marshal(numbers{new(big.Int), new(big.Int)}) }),
			"negative":  edit(func(n *numbers) []byte { n.R.Neg(n.R); n.S.Neg(n.S); return ssh.Marshal(n) }),
			"huge":      edit(func(n *numbers) []byte { n.R.Lsh(n.R, 8<<10); return ssh.Marshal(n) }),
		} {
			require.ErrorIs(t, k.Verify(message, raw), ErrInvalid, name)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	require.NoError(t, err)
	other, err := ssh.NewSignerFromKey(p384)
	require.NoError(t, err)
	_, err = Sign(other, message)
	require.ErrorIs(t, err, ErrInvalid)

	_, err = Sign(broken{newSigner(t, ssh.KeyAlgoED25519)}, message)
	require.ErrorIs(t, err, errBroken)
	require.NotErrorIs(t, err, ErrInvalid)
}

var errBroken = errors.New("the agent is gone")

type broken struct{ *signer }

func (broken) Sign(io.Reader, []byte) (*ssh.Signature, error) { return nil, errBroken }

func TestArmor(t *testing.T) {
	for n := range 300 {
		raw := append([]byte(magic), make([]byte, n)...)
		armored := Armor(raw)
		got, err := Unarmor(armored)
		require.NoError(t, err)
		require.Equal(t, raw, got)
		got, err = Unarmor(bytes.ReplaceAll(armored, []byte("\n"), []byte("\r\n")))
		require.NoError(t, err, "CRLF")
		require.Equal(t, raw, got)
		got, err = Unarmor(bytes.TrimSuffix(armored, []byte("\n")))
		require.NoError(t, err, "no line end")
		require.Equal(t, raw, got)
	}
	most, err := Unarmor(Armor(append([]byte(magic), make([]byte, MaxSignature-len(magic))...)))
	require.NoError(t, err)
	require.Len(t, most, MaxSignature)

	for name, text := range map[string]string{
		"nothing":          "",
		"raw":              magic,
		"only begin":       armorBegin + "\n",
		"no lines":         armorBegin + "\n" + armorEnd + "\n",
		"empty line":       armorBegin + "\n\n" + armorEnd + "\n",
		"empty line first": armorBegin + "\n\nU1NIU0lH\n" + armorEnd + "\n",
		"empty line last":  armorBegin + "\nU1NIU0lH\n\n" + armorEnd + "\n",
		"before":           "x\n" + armorBegin + "\nU1NIU0lH\n" + armorEnd + "\n",
		"space before":     " " + armorBegin + "\nU1NIU0lH\n" + armorEnd + "\n",
		"after":            armorBegin + "\nU1NIU0lH\n" + armorEnd + "\nx",
		"two ends":         armorBegin + "\nU1NIU0lH\n" + armorEnd + "\n\n",
		"twice":            strings.Repeat(armorBegin+"\nU1NIU0lH\n"+armorEnd+"\n", 2),
		"header":           armorBegin + "\nVersion: 1\n\nU1NIU0lH\n" + armorEnd + "\n",
		"no begin's end":   armorBegin + "U1NIU0lH\n" + armorEnd + "\n",
		"no end's begin":   armorBegin + "\nU1NIU0lH" + armorEnd + "\n",
		"lone CR":          armorBegin + "\nU1NI\rU0lH\n" + armorEnd + "\n",
		"space":            armorBegin + "\nU1NI U0lH\n" + armorEnd + "\n",
		"not base64":       armorBegin + "\nU1NIU0l-\n" + armorEnd + "\n",
		"no padding":       armorBegin + "\nU1NIU0lHAA\n" + armorEnd + "\n",
		"stray bits":       armorBegin + "\nU1NIU0lHAB==\n" + armorEnd + "\n",
		"after padding":    armorBegin + "\nU1NIU0lHAA==\nU1NI\n" + armorEnd + "\n",
		"other PEM":        strings.ReplaceAll(armorBegin+"\nU1NIU0lH\n"+armorEnd+"\n", "SSH SIGNATURE", "CERTIFICATE"),
		"other magic":      armorBegin + "\nU1NIU0lI\n" + armorEnd + "\n",
		"short magic":      armorBegin + "\nU1NI\n" + armorEnd + "\n",
		"too long":         string(Armor(append([]byte(magic), make([]byte, MaxSignature)...))),
		"lines too short":  armorBegin + "\n" + strings.Repeat("U\n1\nN\nI\nU\n0\nl\nH\n", MaxSignature/8) + armorEnd + "\n",
		"far too long":     string(Armor(append([]byte(magic), make([]byte, 2*MaxSignature)...))),
	} {
		_, err := Unarmor([]byte(text))
		require.ErrorIs(t, err, ErrInvalid, name)
	}
}
