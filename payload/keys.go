package payload

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"sync"
)

const (
	// keyBytes is the size of a key: AES-256.
	keyBytes = 32
	// maxKeys bounds how many keys a process has: the one that seals, and those
	// of rotations whose runs have not ended.
	maxKeys = 16
)

// keyID matches the names of keys. Histories contain the names.
var keyID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Keyring holds the keys of payloads: the first seals, all open. It is safe for
// concurrent use. A nil ring has no keys: nothing is sealed.
type Keyring struct {
	first string
	keys  map[string][]byte
	// locked is why the keys are not available, or nil.
	locked error

	mu sync.Mutex
	// ready caches derived ciphers by key id and context: a run uses the same
	// few for every value.
	ready map[string]cipher.AEAD
}

const (
	// maxReady bounds how many ciphers are kept, of about a kilobyte each, and
	// maxContext the length of contexts that one is kept for, in bytes: a hostile
	// payload may name any.
	maxReady   = 4096
	maxContext = 2048
)

// ParseKeys returns a ring of keys in the form of a configuration: "ID:KEY", where
// KEY is 32 bytes in base64 (standard or URL alphabet) or hex. Without keys it
// returns nil. Errors name the id or the place, and never the key.
func ParseKeys(texts []string) (*Keyring, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	if len(texts) > maxKeys {
		return nil, fmt.Errorf("%d payload keys, and at most %d can be told apart", len(texts), maxKeys)
	}
	ring := &Keyring{keys: make(map[string][]byte, len(texts))}
	for i, text := range texts {
		id, coded, ok := strings.Cut(text, ":")
		if !ok || !keyID.MatchString(id) {
			return nil, fmt.Errorf("payload key %d has no id: a key is ID:KEY, and an ID has 1 to 64 letters, digits, '.', '_' and '-'", i+1)
		}
		key, err := decodeKey(strings.TrimSpace(coded))
		if err != nil {
			return nil, fmt.Errorf("payload key %s: %w", id, err)
		}
		if _, twice := ring.keys[id]; twice {
			return nil, fmt.Errorf("payload key %s is there twice: a new key has an id of its own, since the id of each payload's key stands in the history", id)
		}
		for other, known := range ring.keys {
			if bytes.Equal(known, key) {
				return nil, fmt.Errorf("the payload keys %s and %s are the same", other, id)
			}
		}
		if i == 0 {
			ring.first = id
		}
		ring.keys[id] = key
	}
	return ring, nil
}

// LockedKeys returns the ring of a process that knows that payloads are sealed, but
// cannot get the keys: what needs none works, and everything else fails with the
// cause.
func LockedKeys(cause error) *Keyring { return &Keyring{locked: cause} }

func decodeKey(text string) ([]byte, error) {
	var key []byte
	var err error
	if len(text) == hex.EncodedLen(keyBytes) {
		key, err = hex.DecodeString(text)
	} else {
		plain := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
		key, err = base64.RawStdEncoding.Strict().DecodeString(plain)
	}
	if err != nil || len(key) != keyBytes {
		return nil, fmt.Errorf("not %d bytes in base64 or hex", keyBytes)
	}
	if bytes.Count(key, key[:1]) == keyBytes {
		return nil, errors.New("all bytes are the same: a key is random")
	}
	return key, nil
}

// KeyID is the id of the key that seals, or "" if there is none.
func (r *Keyring) KeyID() string {
	if r == nil {
		return ""
	}
	return r.first
}

// Format hides the keys from every verb.
func (r *Keyring) Format(f fmt.State, _ rune) {
	_, _ = io.WriteString(f, "payload keys, first "+r.KeyID())
}

// LogValue hides the keys from slog.
func (r *Keyring) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(r)) }

// domain separates what these keys do here from whatever else they may be used for.
const domain = "chimera payload v1\n"

// cipher returns AES-256-GCM with a derived key for each context: random nonces of
// 96 bits are safe for 2^32 messages with one key, which one run never seals, but a
// busy deployment does within weeks. The standard library prepends the nonces.
func (r *Keyring) cipher(id, context string) (cipher.AEAD, error) {
	if r.locked != nil {
		return nil, fmt.Errorf("%w: %w", errNoKey, r.locked)
	}
	key, ok := r.keys[id]
	if !ok {
		return nil, fmt.Errorf("%w: this process has no key %.64q (payload.keys)", errNoKey, id)
	}
	name := id + "\n" + context
	r.mu.Lock()
	kept, ok := r.ready[name]
	r.mu.Unlock()
	if ok {
		return kept, nil
	}
	made, err := derive(key, context)
	if err != nil || len(context) > maxContext {
		return made, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ready == nil || len(r.ready) >= maxReady {
		r.ready = make(map[string]cipher.AEAD)
	}
	r.ready[name] = made
	return made, nil
}

func derive(key []byte, context string) (cipher.AEAD, error) {
	own, err := hkdf.Key(sha256.New, key, nil, domain+context, keyBytes)
	if err != nil {
		return nil, fmt.Errorf("derive a key: %w", err)
	}
	block, err := aes.NewCipher(own)
	if err != nil {
		return nil, fmt.Errorf("prepare a key: %w", err)
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// seal encrypts text for a context, with the key of that id.
func (r *Keyring) seal(id string, text []byte, context string) ([]byte, error) {
	aead, err := r.cipher(id, context)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, text, associated(id, context)), nil
}

// open decrypts what key id has sealed for a context.
func (r *Keyring) open(id string, sealed []byte, context string) ([]byte, error) {
	aead, err := r.cipher(id, context)
	if err != nil {
		return nil, err
	}
	text, err := aead.Open(nil, nil, sealed, associated(id, context))
	if err != nil {
		return nil, errors.New("it does not open: it was changed, or sealed with another key of the same id")
	}
	return text, nil
}

func associated(id, context string) []byte { return []byte(domain + id + "\n" + context) }

// prove returns a text that authenticates another one, or "" without a key.
func (r *Keyring) prove(text string) string {
	if r == nil {
		return ""
	}
	sum := r.sum(r.first, text)
	if sum == nil {
		return ""
	}
	return r.first + ":" + base64.RawStdEncoding.EncodeToString(sum)
}

// proves reports whether a proof authenticates a text.
func (r *Keyring) proves(text, proof string) bool {
	id, encoded, _ := strings.Cut(proof, ":")
	sum, err := base64.RawStdEncoding.DecodeString(encoded)
	want := r.sum(id, text)
	return err == nil && want != nil && hmac.Equal(sum, want)
}

// sum is nil without that key.
func (r *Keyring) sum(id, text string) []byte {
	key, ok := r.keys[id]
	if !ok || r.locked != nil {
		return nil
	}
	own, err := hkdf.Key(sha256.New, key, nil, domain+"proof", keyBytes)
	if err != nil {
		return nil
	}
	h := hmac.New(sha256.New, own)
	_, _ = io.WriteString(h, text)
	return h.Sum(nil)
}

// NewKey returns a key for a configuration: id, and 32 random bytes in base64.
func NewKey(id string) (string, error) {
	if !keyID.MatchString(id) {
		return "", errors.New("an id has 1 to 64 letters, digits, '.', '_' and '-'")
	}
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // never fails
	return id + ":" + base64.StdEncoding.EncodeToString(key), nil
}
