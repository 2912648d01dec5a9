package trust

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// BootstrapFormat is the first field of every bootstrap file.
const BootstrapFormat = "chimera.ai/trust/bootstrap/v1"

// Bootstrap is the root of a deployment's authority. Nothing signs it:
// configurations pin its digest.
type Bootstrap struct {
	Format string `json:"format"`
	// Deployment names it; no two deployments share a name and admins.
	Deployment string   `json:"deployment"`
	Audience   Audience `json:"audience"`
	Admins     []Admin  `json:"admins"`
	// Quorum is how many different persons must sign a statement: at least two in
	// prod.
	Quorum int `json:"quorum"`
	// Log is the audit log's first key.
	Log LogKey `json:"log"`
	// Witnesses cosign its checkpoints.
	Witnesses Witnesses   `json:"witnesses"`
	Issued    ledger.Time `json:"issued"`
}

// Admin is a key that may sign statements, with its owner.
type Admin struct {
	ID     string `json:"id"`
	Person string `json:"person"`
	Key    string `json:"key"`
}

// LogKey is the key under which a log signs checkpoints.
type LogKey struct {
	Origin string `json:"origin"`
	// Key is a note verifier key, whose name is the origin.
	Key string `json:"key"`
}

// Witnesses are keys of witnesses, as verifier keys of C2SP cosignatures, and
// how many of them must have cosigned a checkpoint.
type Witnesses struct {
	Keys   []string `json:"keys"`
	Quorum int      `json:"quorum"`
}

// ParseBootstrap reads a bootstrap file.
func ParseBootstrap(raw []byte) (*Bootstrap, error) {
	if len(raw) > MaxBootstrap {
		return nil, invalid("a bootstrap of %d bytes, more than %d", len(raw), MaxBootstrap)
	}
	b := new(Bootstrap)
	if _, err := exact(raw, b); err != nil {
		return nil, invalid("the bootstrap: %s", err)
	}
	if err := b.Check(); err != nil {
		return nil, err
	}
	return b, nil
}

// Pinned reads a bootstrap file whose digest must be pin.
func Pinned(raw []byte, pin string) (*Bootstrap, error) {
	b, err := ParseBootstrap(raw)
	if err != nil {
		return nil, err
	}
	if err := digest("the pinned bootstrap", pin); err != nil {
		return nil, err
	}
	if have := b.Digest(); have != pin {
		return nil, invalid("the bootstrap's digest is %s, but %s is pinned", have, pin)
	}
	return b, nil
}

// Check reports what is wrong with a bootstrap.
func (b *Bootstrap) Check() error {
	if b.Format != BootstrapFormat {
		return invalid("the bootstrap's format is %.80q, not %s", b.Format, BootstrapFormat)
	}
	if err := name("a deployment", b.Deployment); err != nil {
		return err
	}
	if b.Audience != Prod && b.Audience != Dev {
		return invalid("the audience is %.20q, not prod or dev", string(b.Audience))
	}
	if err := admins(b.Admins, b.Quorum, b.Audience.quorum()); err != nil {
		return err
	}
	if err := b.Log.check(); err != nil {
		return err
	}
	if err := b.Witnesses.check(); err != nil {
		return err
	}
	if err := apart(b.Log, b.Witnesses); err != nil {
		return err
	}
	for _, a := range b.Admins {
		if a.Key == b.Log.public() && b.Audience != Dev {
			return invalid("the key of the admin %s is that of the log: a key has one role", a.ID)
		}
	}
	if b.Issued.Time().IsZero() {
		return invalid("the bootstrap does not say when it was issued")
	}
	return nil
}

// Encode returns the canonical bytes.
func (b *Bootstrap) Encode() ([]byte, error) {
	if err := b.Check(); err != nil {
		return nil, err
	}
	raw, err := canon(b)
	if err != nil {
		return nil, invalid("the bootstrap: %s", err)
	}
	return raw, nil
}

// Digest returns the digest that configurations pin, or "" for a malformed bootstrap.
func (b *Bootstrap) Digest() string {
	raw, err := b.Encode()
	if err != nil {
		return ""
	}
	return plan.DigestOf(raw)
}

// admins checks a set of admins: ids and keys are unique, and there are enough different
// persons for the quorum.
func admins(all []Admin, quorum, least int) error {
	if len(all) > MaxAdmins {
		return invalid("%d admins, more than %d", len(all), MaxAdmins)
	}
	ids, keys, persons := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for _, a := range all {
		if err := name("an admin", a.ID); err != nil {
			return err
		}
		if err := person("a person", a.Person); err != nil {
			return err
		}
		if _, err := ParsePublic(a.Key); err != nil {
			return err
		}
		if ids[a.ID] || keys[a.Key] {
			return invalid("the admin %s, or its key, is listed twice", a.ID)
		}
		ids[a.ID], keys[a.Key], persons[a.Person] = true, true, true
	}
	if quorum < least {
		return invalid("a quorum of %d is below %d", quorum, least)
	}
	if len(persons) < quorum {
		return invalid("%d persons are admins, but %d must agree", len(persons), quorum)
	}
	return nil
}

func (l LogKey) check() error {
	if err := name("a log", l.Origin); err != nil {
		return err
	}
	if len(l.Key) > 2*maxName {
		return invalid("a log's key of %d bytes", len(l.Key))
	}
	v, err := note.NewVerifier(l.Key)
	if err != nil {
		return invalid("the log's key %.120q is not a note verifier key", l.Key)
	}
	if v.Name() != l.Origin {
		return invalid("the log is called %s, but its key is that of %s", l.Origin, v.Name())
	}
	return nil
}

// public is the key as other roles write theirs, or "" for one that no other role can have.
func (l LogKey) public() string {
	parts := strings.SplitN(l.Key, "+", 3) // the name, a hash, and the key
	raw, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(raw) != 1+ed25519.PublicKeySize || raw[0] != noteEd25519 {
		return ""
	}
	der, err := x509.MarshalPKIXPublicKey(ed25519.PublicKey(raw[1:]))
	if err != nil {
		return ""
	}
	return base64.StdEncoding.EncodeToString(der)
}

// noteEd25519 is the first byte of the key in a note verifier key for Ed25519
// (golang.org/x/mod/sumdb/note).
const noteEd25519 = 1

// apart checks that the log and its witnesses have different keys, since no party can be
// its own witness.
func apart(l LogKey, w Witnesses) error {
	if err := (ledger.Signers{Log: l.Key, Witnesses: w.Keys}).Check(); err != nil {
		return invalid("%s", err)
	}
	return nil
}

func (w Witnesses) check() error {
	if w.Keys == nil || len(w.Keys) > maxList {
		return invalid("the witnesses' keys are not a list of at most %d", maxList)
	}
	var names []string
	for _, k := range w.Keys {
		if len(k) > 2*maxName {
			return invalid("a witness's key of %d bytes", len(k))
		}
		v, err := cosign.NewVerifierForCosignatureV1(k)
		if err != nil {
			return invalid("the witness's key %.120q is not a verifier key", k)
		}
		if slices.Contains(names, v.Name()) {
			return invalid("the witness %s is listed twice", v.Name())
		}
		names = append(names, v.Name())
	}
	if w.Quorum < 0 || w.Quorum > len(w.Keys) {
		return invalid("%d of %d witnesses cannot cosign", w.Quorum, len(w.Keys))
	}
	return nil
}

// DevBootstrap makes the bootstrap of a development deployment, which has one admin.
func DevBootstrap(deployment, person string, admin *Key, log LogKey, issued time.Time) (*Bootstrap, error) {
	b := &Bootstrap{
		Format: BootstrapFormat, Deployment: deployment, Audience: Dev, Quorum: 1, Log: log, Witnesses: Witnesses{Keys: []string{}},
		Admins: []Admin{{ID: "dev", Person: person, Key: admin.Public()}}, Issued: ledger.At(issued),
	}
	return b, b.Check()
}
