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
	"slices"
	"strings"
	"sync"

	"chimera.ai/engine/contract"
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

// A key has an id, and comes in two forms. The whole key is the engine's: from it the
// keys of all roles are derived. A key of a role seals what that role answers and is
// asked, and large values, which all roles read: a process that has no more answers for no
// other role.
type key struct {
	// whole is nil where a process has keys of roles only.
	whole []byte
	roles map[role][]byte
}

// role says for whom something is sealed. What the engine seals for itself has the role "".
type role string

const (
	roleEngine   role = ""
	roleTools    role = "tools"
	roleGuardian role = "guardian"
	roleEffects  role = "effects"
	// roleValues seals large values, which every role and clients store and read.
	// Histories and answers have their digests.
	roleValues role = "values"
)

// Roles lists the roles for which there are keys of their own: "values" is that of clients
// that start runs with large inputs.
func Roles() []string {
	return []string{string(roleTools), string(roleGuardian), string(roleEffects), string(roleValues)}
}

// roleOfQueue is the role that answers what is asked on a queue.
func roleOfQueue(queue string) role {
	switch queue {
	case contract.QueueTools:
		return roleTools
	case contract.QueueGuardian:
		return roleGuardian
	case contract.QueueEffects:
		return roleEffects
	}
	return roleEngine
}

// Keyring holds the keys of payloads: the first seals, all open. It is safe for
// concurrent use. A nil ring has no keys: nothing is sealed.
type Keyring struct {
	first string
	keys  map[string]*key
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

// ParseKeys returns a ring of keys in the form of a configuration: "ID:KEY", where KEY is
// 32 bytes in base64 (standard or URL alphabet) or hex, or "ID/ROLE:KEY" as [RoleKey]
// returns it. Without keys it returns nil. Errors name the id or the place, and never the
// key.
func ParseKeys(texts []string) (*Keyring, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	if len(texts) > maxKeys {
		return nil, fmt.Errorf("%d payload keys, and at most %d can be told apart", len(texts), maxKeys)
	}
	ring := &Keyring{keys: make(map[string]*key, len(texts))}
	known := map[string]string{}
	for i, text := range texts {
		name, coded, ok := strings.Cut(text, ":")
		id, of, ofRole := strings.Cut(name, "/")
		switch {
		case !ok || !keyID.MatchString(id):
			return nil, fmt.Errorf("payload key %d has no id: a key is ID:KEY or ID/ROLE:KEY, and an ID has 1 to 64 letters, digits, '.', '_' and '-'", i+1)
		case ofRole && !slices.Contains(Roles(), of):
			return nil, fmt.Errorf("payload key %s is of the role %.40q; the roles are %s", id, of, strings.Join(Roles(), ", "))
		}
		size := keyBytes
		if ofRole && role(of) != roleValues {
			size = 2 * keyBytes
		}
		secret, err := decodeKey(strings.TrimSpace(coded), size)
		if err != nil {
			return nil, fmt.Errorf("payload key %s: %w", name, err)
		}
		if other, same := known[string(secret)]; same && other != name {
			return nil, fmt.Errorf("the payload keys %s and %s are the same", other, name)
		}
		known[string(secret)] = name
		k := ring.keys[id]
		if k == nil {
			k = &key{roles: map[role][]byte{}}
			ring.keys[id] = k
		}
		if k.whole != nil || len(k.roles) > 0 && (!ofRole || k.roles[role(of)] != nil && role(of) != roleValues) {
			return nil, fmt.Errorf("payload key %s is there twice: a new key has an id of its own, since the id of each payload's key stands in the history", id)
		}
		switch {
		case !ofRole:
			k.whole = secret
		case size == keyBytes:
			k.roles[roleValues] = secret
		default:
			k.roles[role(of)], k.roles[roleValues] = secret[:keyBytes], secret[keyBytes:]
		}
		if i == 0 {
			ring.first = id
		}
	}
	return ring, nil
}

// LockedKeys returns the ring of a process that knows that payloads are sealed, but
// cannot get the keys: what needs none works, and everything else fails with the
// cause.
func LockedKeys(cause error) *Keyring { return &Keyring{locked: cause} }

func decodeKey(text string, size int) ([]byte, error) {
	var key []byte
	var err error
	if len(text) == hex.EncodedLen(size) {
		key, err = hex.DecodeString(text)
	} else {
		plain := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
		key, err = base64.RawStdEncoding.Strict().DecodeString(plain)
	}
	if err != nil || len(key) != size {
		return nil, fmt.Errorf("not %d bytes in base64 or hex", size)
	}
	if bytes.Count(key, key[:1]) == size {
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

// Whole reports whether the ring has a key from which those of all roles are derived.
func (r *Keyring) Whole() bool {
	if r == nil {
		return false
	}
	for _, k := range r.keys {
		if k.whole != nil {
			return true
		}
	}
	return false
}

// Seals reports whether the key that seals is one for a role.
func (r *Keyring) Seals(of string) bool {
	if r == nil || r.keys[r.first] == nil {
		return false
	}
	_, err := r.keys[r.first].of(role(of))
	return err == nil
}

// own is the role of a process, for what it seals for nobody in particular.
func (r *Keyring) own() role {
	if r == nil {
		return roleEngine
	}
	k := r.keys[r.first]
	if k == nil || k.whole != nil {
		return roleEngine
	}
	for _, of := range []role{roleTools, roleGuardian, roleEffects} {
		if k.roles[of] != nil {
			return of
		}
	}
	return roleValues
}

// of returns the secret of a role.
func (k *key) of(r role) ([]byte, error) {
	switch {
	case k.whole != nil && r == roleEngine:
		return k.whole, nil
	case k.whole != nil:
		return hkdf.Key(sha256.New, k.whole, nil, domain+"role "+string(r), keyBytes)
	case k.roles[r] != nil:
		return k.roles[r], nil
	case r == roleEngine:
		return nil, errors.New("the key is one of a role (payload.keys), and this needs the engine's")
	}
	return nil, fmt.Errorf("the key is not the one of the role %s (payload.keys)", r)
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
func (r *Keyring) cipher(id string, of role, context string) (cipher.AEAD, error) {
	if r.locked != nil {
		return nil, fmt.Errorf("%w: %w", errNoKey, r.locked)
	}
	k, ok := r.keys[id]
	if !ok {
		return nil, fmt.Errorf("%w: this process has no key %.64q (payload.keys)", errNoKey, id)
	}
	name := id + "/" + string(of) + "\n" + context
	r.mu.Lock()
	kept, ok := r.ready[name]
	r.mu.Unlock()
	if ok {
		return kept, nil
	}
	secret, err := k.of(of)
	if err != nil {
		return nil, fmt.Errorf("%w: %.64q: %w", errNoKey, id, err)
	}
	made, err := derive(secret, context)
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

// seal encrypts text for a role and a context, with the key of that id.
func (r *Keyring) seal(id string, of role, text []byte, context string) ([]byte, error) {
	aead, err := r.cipher(id, of, context)
	if err != nil {
		return nil, err
	}
	return aead.Seal(nil, nil, text, associated(id, context)), nil
}

// open decrypts what key id has sealed for a role and a context.
func (r *Keyring) open(id string, of role, sealed []byte, context string) ([]byte, error) {
	aead, err := r.cipher(id, of, context)
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
	sum := r.sum(r.first, roleValues, text)
	if sum == nil {
		return ""
	}
	return r.first + "/" + string(roleValues) + ":" + base64.RawStdEncoding.EncodeToString(sum)
}

// proves reports whether a proof authenticates a text.
func (r *Keyring) proves(text, proof string) bool {
	name, encoded, _ := strings.Cut(proof, ":")
	id, of, _ := strings.Cut(name, "/")
	sum, err := base64.RawStdEncoding.DecodeString(encoded)
	if of := role(of); err != nil || of != roleValues && of != roleEngine {
		return false
	}
	want := r.sum(id, role(of), text)
	return want != nil && hmac.Equal(sum, want)
}

// sum is nil without that key.
func (r *Keyring) sum(id string, of role, text string) []byte {
	k, ok := r.keys[id]
	if !ok || r.locked != nil {
		return nil
	}
	secret, err := k.of(of)
	if err != nil {
		return nil
	}
	own, err := hkdf.Key(sha256.New, secret, nil, domain+"proof", keyBytes)
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

// RoleKey returns the key of a role for a configuration, from a whole key: what it seals
// no other role can seal.
func RoleKey(whole, of string) (string, error) {
	if !slices.Contains(Roles(), of) {
		return "", fmt.Errorf("payload keys have the roles %s, not %.40q", strings.Join(Roles(), ", "), of)
	}
	ring, err := ParseKeys([]string{whole})
	if err != nil {
		return "", err
	}
	k := ring.keys[ring.first]
	if k.whole == nil {
		return "", fmt.Errorf("payload key %s is one of a role, and no other is derived from it", ring.first)
	}
	var secret []byte
	for _, part := range slices.Compact([]role{role(of), roleValues}) {
		own, err := k.of(part)
		if err != nil {
			return "", err
		}
		secret = append(secret, own...)
	}
	return ring.first + "/" + of + ":" + base64.StdEncoding.EncodeToString(secret), nil
}
