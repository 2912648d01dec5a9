package ledger

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	formats "github.com/transparency-dev/formats/log"
	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Checkpoint is what the log's key signs: so many entries, with that root. Its
// text is a C2SP tlog-checkpoint (https://c2sp.org/tlog-checkpoint).
type Checkpoint struct {
	Origin string
	Size   int64
	Root   Hash
}

// MaxCheckpointBytes bounds a signed checkpoint with its cosignatures.
const MaxCheckpointBytes = 64 << 10

// ErrCheckpoint reports a checkpoint that is not well formed, or not signed by
// the keys that it must be signed by.
var ErrCheckpoint = errors.New("checkpoint")

// Key signs checkpoints. It is made by [NewKey]; its secret form, a note signer
// key "PRIVATE+KEY+…", is kept outside and read by [ParseKey].
type Key struct {
	signer note.Signer
	public string
}

// NewKey makes an Ed25519 key for a log or a witness of that name. The public
// form is a note verifier key, "NAME+HASH+KEY".
func NewKey(name string) (secret, public string, err error) {
	secret, public, err = note.GenerateKey(rand.Reader, name)
	if err != nil {
		return "", "", fmt.Errorf("make key: %w", err)
	}
	return secret, public, nil
}

// ParseKey reads the secret form. Its error does not repeat it.
func ParseKey(secret string) (*Key, error) {
	secret = strings.TrimSpace(secret)
	s, err := note.NewSigner(secret)
	if err != nil {
		return nil, errors.New("read key: it is not a note signer key, PRIVATE+KEY+NAME+HASH+…")
	}
	// The last part is the algorithm's number, 1 for Ed25519, and the seed.
	parts := strings.SplitN(secret, "+", 5)
	seed, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(seed) != 1+ed25519.SeedSize || seed[0] != 1 {
		return nil, errors.New("read key: it is not an Ed25519 key")
	}
	public, err := note.NewEd25519VerifierKey(s.Name(), ed25519.NewKeyFromSeed(seed[1:]).Public().(ed25519.PublicKey))
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	return &Key{s, public}, nil
}

// Public is the key's verifier form, "NAME+HASH+KEY".
func (k *Key) Public() string { return k.public }

// Name is the name of the log, or of whoever else owns the key.
func (k *Key) Name() string { return k.signer.Name() }

// Sign gives the signed text of a checkpoint. The key is that of its origin.
func (k *Key) Sign(c Checkpoint) ([]byte, error) {
	if c.Origin != k.Name() {
		return nil, fmt.Errorf("sign checkpoint: the key is that of %s, not of %s", k.Name(), c.Origin)
	}
	text := formats.Checkpoint{Origin: c.Origin, Size: uint64(c.Size), Hash: c.Root[:]}.Marshal()
	b, err := note.Sign(&note.Note{Text: string(text)}, k.signer)
	if err != nil {
		return nil, fmt.Errorf("sign checkpoint: %w", err)
	}
	return b, nil
}

// Signers says whose signatures a reader asks of a checkpoint.
type Signers struct {
	// Log is the log's verifier key.
	Log string
	// Witnesses are verifier keys of witnesses, of which Quorum must have
	// cosigned.
	Witnesses []string
	Quorum    int
}

// Signed is a checkpoint whose signatures were verified.
type Signed struct {
	Checkpoint
	// Witnesses are those who have cosigned, sorted, and Cosigned when each did so.
	Witnesses []string
	Cosigned  []time.Time
}

// Open verifies a signed checkpoint. The error is [ErrCheckpoint] where it is
// not what was asked for.
func (s Signers) Open(raw []byte) (Signed, error) {
	if len(raw) > MaxCheckpointBytes {
		return Signed{}, fmt.Errorf("%w: %d bytes, more than %d", ErrCheckpoint, len(raw), MaxCheckpointBytes)
	}
	log, err := note.NewVerifier(s.Log)
	if err != nil {
		return Signed{}, fmt.Errorf("the log's verifier key %.120q: %w", s.Log, err)
	}
	var others []note.Verifier
	for _, w := range s.Witnesses {
		v, err := cosign.NewVerifierForCosignatureV1(w)
		if err != nil {
			return Signed{}, fmt.Errorf("the witness's verifier key %.120q: %w", w, err)
		}
		others = append(others, v)
	}
	c, _, n, err := formats.ParseCheckpoint(raw, log.Name(), log, others...)
	if err != nil {
		return Signed{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	for _, sig := range n.Sigs {
		// The library takes any bits where base64 has none to take: a signature has
		// one text.
		if _, err := base64.StdEncoding.Strict().DecodeString(sig.Base64); err != nil {
			return Signed{}, fmt.Errorf("%w: the signature of %s: %w", ErrCheckpoint, sig.Name, err)
		}
	}
	if c.Size > math.MaxInt64 || len(c.Hash) != len(Hash{}) {
		return Signed{}, fmt.Errorf("%w: no such tree", ErrCheckpoint)
	}
	out := Signed{Checkpoint: Checkpoint{Origin: c.Origin, Size: int64(c.Size), Root: Hash(c.Hash)}}
	if out.Size == 0 && out.Root != EmptyRoot() {
		return Signed{}, fmt.Errorf("%w: an empty tree with a root", ErrCheckpoint)
	}
	for _, v := range others {
		for _, sig := range n.Sigs {
			if sig.Name != v.Name() || sig.Hash != v.KeyHash() {
				continue
			}
			at, err := cosign.CoSigV1Timestamp(sig)
			if err != nil {
				return Signed{}, fmt.Errorf("%w: the cosignature of %s: %w", ErrCheckpoint, v.Name(), err)
			}
			out.Witnesses, out.Cosigned = append(out.Witnesses, v.Name()), append(out.Cosigned, at)
			break
		}
	}
	if len(out.Witnesses) < s.Quorum {
		return Signed{}, fmt.Errorf("%w: %d of the known witnesses have cosigned, %d must", ErrCheckpoint, len(out.Witnesses), s.Quorum)
	}
	return out, nil
}

// EmptyRoot is the root of the tree without entries (RFC 6962, section 2.1).
func EmptyRoot() Hash {
	root, err := tlog.TreeHash(0, nil)
	if err != nil {
		panic(err) // nothing is read
	}
	return Hash(root)
}

// Witness is a key that cosigns checkpoints (https://c2sp.org/tlog-cosignature).
// It signs only what extends what it has signed before.
type Witness struct {
	signer *cosign.Signer
	log    Signers
	last   Signed
}

// NewWitness gives a witness of one log. last is the checkpoint that it has
// cosigned last, nil for none; it is verified like a new one.
func NewWitness(secret, logKey string, last []byte) (*Witness, error) {
	s, err := cosign.NewSignerForCosignatureV1(strings.TrimSpace(secret))
	if err != nil {
		return nil, errors.New("read witness key: it is not a note signer key, PRIVATE+KEY+NAME+HASH+…")
	}
	w := &Witness{signer: s, log: Signers{Log: logKey}}
	if len(last) > 0 {
		if w.last, err = w.log.Open(last); err != nil {
			return nil, fmt.Errorf("the checkpoint that the witness %s has cosigned last: %w", s.Name(), err)
		}
	}
	return w, nil
}

// Cosign gives the checkpoint with the witness's signature added, if proof
// shows that it extends the last one; a first one needs no proof.
func (w *Witness) Cosign(raw []byte, proof []Hash) ([]byte, error) {
	c, err := w.log.Open(raw)
	if err != nil {
		return nil, err
	}
	if w.last.Origin != "" {
		if err := Extends(w.last.Checkpoint, c.Checkpoint, proof); err != nil {
			return nil, fmt.Errorf("the witness %s refuses: %w", w.signer.Name(), err)
		}
	}
	log, err := note.NewVerifier(w.log.Log)
	if err != nil {
		return nil, err
	}
	n, err := note.Open(raw, note.VerifierList(log))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	out, err := note.Sign(n, w.signer)
	if err != nil {
		return nil, fmt.Errorf("cosign checkpoint: %w", err)
	}
	w.last = c
	return out, nil
}

// Merge adds the signatures of more to those of checkpoint, which has the same
// text; signatures of the same key are not repeated.
func Merge(checkpoint, more []byte) ([]byte, error) {
	text, have, ok := bytes.Cut(checkpoint, []byte("\n\n"))
	other, new, ok2 := bytes.Cut(more, []byte("\n\n"))
	if !ok || !ok2 || !bytes.Equal(text, other) {
		return nil, fmt.Errorf("%w: signatures of another checkpoint", ErrCheckpoint)
	}
	out := bytes.Clone(checkpoint)
	for _, line := range bytes.SplitAfter(new, []byte("\n")) {
		who, _, _ := bytes.Cut(bytes.TrimPrefix(line, []byte("— ")), []byte(" "))
		known := false
		for _, l := range bytes.SplitAfter(have, []byte("\n")) {
			name, _, _ := bytes.Cut(bytes.TrimPrefix(l, []byte("— ")), []byte(" "))
			known = known || len(line) > 0 && bytes.Equal(name, who)
		}
		if len(line) > 0 && !known {
			out = append(out, line...)
		}
	}
	if len(out) > MaxCheckpointBytes {
		return nil, fmt.Errorf("%w: more than %d bytes of signatures", ErrCheckpoint, MaxCheckpointBytes)
	}
	return out, nil
}
