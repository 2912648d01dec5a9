package ledger

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	"chimera.ai/engine/internal/strict"
	"chimera.ai/engine/plan"
)

// KeyBytes is the length of the key of a subject.
const KeyBytes = 32

// nonceBytes and tagBytes are those of AES-GCM as the format has it.
const nonceBytes, tagBytes = 12, 16

// sealed is the stored form of a body that is encrypted with a subject's key.
type sealed struct {
	Sealed struct {
		Key    string `json:"key"`
		Nonce  string `json:"nonce"`
		Sealed string `json:"text"`
	} `json:"sealed"`
}

// Seal encrypts the bytes of a body with AES-256-GCM. id names the key, and is
// bound to what it seals.
func Seal(id string, key []byte, body []byte) ([]byte, error) {
	aead, err := gcm(key)
	if err != nil {
		return nil, fmt.Errorf("seal body: %w", err)
	}
	nonce := make([]byte, aead.NonceSize())
	// It does not fail: crypto/rand ends the process instead.
	_, _ = rand.Read(nonce)
	text := aead.Seal(nil, nonce, body, []byte(id))
	raw, err := plan.Canonical(map[string]any{"sealed": map[string]any{
		"key": id, "nonce": base64.StdEncoding.EncodeToString(nonce), "text": base64.StdEncoding.EncodeToString(text),
	}})
	if err != nil {
		return nil, fmt.Errorf("seal body: %w", err)
	}
	return raw, nil
}

// Sealed names the key under which a stored body is sealed; ok is false for one
// that is not.
func Sealed(raw []byte) (id string, ok bool) {
	if !bytes.HasPrefix(raw, []byte(`{"sealed":`)) {
		return "", false // as most are, and this takes no time
	}
	var s sealed
	if err := strict.Decode(raw, &s); err != nil || s.Sealed.Key == "" {
		return "", false
	}
	return s.Sealed.Key, true
}

// checkSealed returns an error unless a body is one that [Seal] made: one that only claims
// to be sealed could be anything.
func checkSealed(raw []byte) error {
	bad := errors.New("it says that it is sealed, and is not written as sealed bodies are")
	var s sealed
	if err := strict.Decode(raw, &s); err != nil || s.Sealed.Key == "" {
		return bad
	}
	nonce, err := base64.StdEncoding.Strict().DecodeString(s.Sealed.Nonce)
	text, err2 := base64.StdEncoding.Strict().DecodeString(s.Sealed.Sealed)
	if err != nil || err2 != nil || len(nonce) != nonceBytes || len(text) < tagBytes {
		return bad
	}
	again, err := plan.Canonical(map[string]any{"sealed": map[string]any{"key": s.Sealed.Key, "nonce": s.Sealed.Nonce, "text": s.Sealed.Sealed}})
	if err != nil || !bytes.Equal(again, raw) {
		return bad
	}
	return nil
}

// Unseal returns the bytes of a body that was sealed.
func Unseal(key []byte, raw []byte) ([]byte, error) {
	var s sealed
	if err := strict.Decode(raw, &s); err != nil {
		return nil, fmt.Errorf("unseal body: %w", err)
	}
	aead, err := gcm(key)
	if err != nil {
		return nil, fmt.Errorf("unseal body: %w", err)
	}
	nonce, err := base64.StdEncoding.DecodeString(s.Sealed.Nonce)
	if err != nil || len(nonce) != aead.NonceSize() {
		return nil, errors.New("unseal body: it is not sealed")
	}
	text, err := base64.StdEncoding.DecodeString(s.Sealed.Sealed)
	if err != nil {
		return nil, errors.New("unseal body: it is not sealed")
	}
	out, err := aead.Open(nil, nonce, text, []byte(s.Sealed.Key))
	if err != nil {
		return nil, errors.New("unseal body: it was changed, or sealed with another key")
	}
	if !json.Valid(out) {
		return nil, errors.New("unseal body: it is not JSON")
	}
	return out, nil
}

func gcm(key []byte) (cipher.AEAD, error) {
	if len(key) != KeyBytes {
		return nil, fmt.Errorf("a key of %d bytes, not %d", len(key), KeyBytes)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
