package ledger

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	formats "github.com/transparency-dev/formats/log"
	cosign "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
)

// Checkpoint is what the log's key signs: a number of entries and their root. Its text is a
// C2SP tlog-checkpoint (https://c2sp.org/tlog-checkpoint).
type Checkpoint struct {
	Origin string
	Size   int64
	Root   Hash
}

// MaxCheckpointBytes bounds a signed checkpoint with its cosignatures.
const MaxCheckpointBytes = 64 << 10

// ErrCheckpoint reports a checkpoint that is malformed, or not signed by the required keys.
var ErrCheckpoint = errors.New("the checkpoint does not verify")

// errSign reports a key that has signed nothing.
var errSign = errors.New("sign checkpoint")

// Key signs checkpoints. It is made by [NewKey]; its secret form, a note signer
// key "PRIVATE+KEY+…", is stored elsewhere and read by [ParseKey]. [FromSigner] makes one
// whose secret form nobody has, such as that of a key on a token.
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

// FromSigner makes a key of a name from an Ed25519 signer.
func FromSigner(name string, s crypto.Signer) (*Key, error) {
	key, ok := s.Public().(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("read key: it is not an Ed25519 key")
	}
	public, err := note.NewEd25519VerifierKey(name, key)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	v, err := note.NewVerifier(public)
	if err != nil {
		return nil, fmt.Errorf("read key: %.120q is not the name of a log", name)
	}
	return &Key{noteSigner{v, s}, public}, nil
}

// noteSigner is a [note.Signer] whose private key lies elsewhere.
type noteSigner struct {
	note.Verifier
	key crypto.Signer
}

// Sign implements [note.Signer]. A signature that does not verify is an error: as a
// checkpoint's, it would end the log.
func (s noteSigner) Sign(msg []byte) ([]byte, error) {
	sig, err := s.key.Sign(rand.Reader, msg, crypto.Hash(0))
	if err == nil && !s.Verify(msg, sig) {
		err = errors.New("the signature does not verify")
	}
	return sig, err
}

// Public returns the verifier key, "NAME+HASH+KEY".
func (k *Key) Public() string { return k.public }

// Name returns the name of the log, or of another owner of the key.
func (k *Key) Name() string { return k.signer.Name() }

// Sign returns the signed text of a checkpoint. The key is that of its origin.
func (k *Key) Sign(c Checkpoint) ([]byte, error) {
	if c.Origin != k.Name() {
		return nil, fmt.Errorf("sign checkpoint: the key is that of %s, not of %s", k.Name(), c.Origin)
	}
	text := formats.Checkpoint{Origin: c.Origin, Size: uint64(c.Size), Hash: c.Root[:]}.Marshal()
	b, err := note.Sign(&note.Note{Text: string(text)}, k.signer)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSign, err)
	}
	return b, nil
}

// Signers says whose signatures a reader requires on a checkpoint.
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

// Open verifies a signed checkpoint. If it lacks a required signature or is malformed, the
// error is [ErrCheckpoint].
func (s Signers) Open(raw []byte) (Signed, error) {
	if len(raw) > MaxCheckpointBytes {
		return Signed{}, fmt.Errorf("%w: %d bytes, more than %d", ErrCheckpoint, len(raw), MaxCheckpointBytes)
	}
	log, others, err := s.verifiers()
	if err != nil {
		return Signed{}, err
	}
	c, _, n, err := formats.ParseCheckpoint(raw, log.Name(), log, others...)
	if err != nil {
		return Signed{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	for _, sig := range n.Sigs {
		// The library ignores stray bits at the end of base64, but a signature must have
		// exactly one text.
		if _, err := base64.StdEncoding.Strict().DecodeString(sig.Base64); err != nil {
			return Signed{}, fmt.Errorf("%w: the signature of %s: %w", ErrCheckpoint, sig.Name, err)
		}
	}
	// Nor does one stand there twice.
	if _, signatures, _ := strings.Cut(string(raw), "\n\n"); repeated(strings.Split(signatures, "\n")) {
		return Signed{}, fmt.Errorf("%w: a signature stands there twice", ErrCheckpoint)
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

// Check reports whether the keys are keys.
func (s Signers) Check() error {
	_, _, err := s.verifiers()
	return err
}

func (s Signers) verifiers() (log note.Verifier, others []note.Verifier, err error) {
	if log, err = note.NewVerifier(s.Log); err != nil {
		return nil, nil, fmt.Errorf("the log's verifier key %.120q: %w", s.Log, err)
	}
	// All parties must differ: a key under two names, or that of the log, would count twice.
	keys := map[string]bool{material(s.Log): true}
	for _, w := range s.Witnesses {
		v, err := cosign.NewVerifierForCosignatureV1(w)
		if err != nil {
			return nil, nil, fmt.Errorf("the witness's verifier key %.120q: %w", w, err)
		}
		key := material(w)
		if keys[key] {
			return nil, nil, fmt.Errorf("the witness %.120q: its key is also that of the log, or of another witness", v.Name())
		}
		keys[key] = true
		others = append(others, v)
	}
	return log, others, nil
}

// material is the key itself in a verifier key, "NAME+HASH+KEY", without its name and
// the algorithm that it is meant for.
func material(key string) string {
	parts := strings.SplitN(key, "+", 3)
	raw, err := base64.StdEncoding.DecodeString(parts[len(parts)-1])
	if err != nil || len(raw) < 1 {
		return key
	}
	return string(raw[1:])
}

// Alone is [Signers.Open] for a checkpoint that is passed on: it returns the text
// with the log's signature and no other.
func (s Signers) Alone(raw []byte) ([]byte, error) {
	if _, err := s.Open(raw); err != nil {
		return nil, err
	}
	v, err := note.NewVerifier(s.Log)
	if err != nil {
		return nil, fmt.Errorf("the log's verifier key %.120q: %w", s.Log, err)
	}
	_, n, err := alone(raw, v)
	if err != nil {
		return nil, err
	}
	return note.Sign(n)
}

// Witness is a key that cosigns checkpoints (https://c2sp.org/tlog-cosignature).
// It signs only what extends what it has signed before.
type Witness struct {
	signer *cosign.Signer
	log    Signers
	last   Checkpoint
}

// NewWitness returns a witness of one log. last is the checkpoint that it has
// cosigned last, nil for none. It must have the witness's own cosignature, and
// none of the log: the log may have another key by now.
func NewWitness(secret, logKey string, last []byte) (*Witness, error) {
	s, err := cosign.NewSignerForCosignatureV1(strings.TrimSpace(secret))
	if err != nil {
		return nil, errors.New("read witness key: it is not a note signer key, PRIVATE+KEY+NAME+HASH+…")
	}
	w := &Witness{signer: s, log: Signers{Log: logKey}}
	if len(last) > 0 {
		if w.last, _, err = alone(last, s.Verifier()); err != nil {
			return nil, fmt.Errorf("the checkpoint that the witness %s has cosigned last: %w", s.Name(), err)
		}
	}
	return w, nil
}

// CosignatureKey returns a witness's verifier key as cosignatures have it
// (https://c2sp.org/tlog-cosignature), of the one that [Key.Public] gives.
func CosignatureKey(public string) (string, error) {
	key, err := cosign.VKeyToCosignatureV1(public)
	if err != nil {
		return "", fmt.Errorf("the verifier key %.120q: %w", public, err)
	}
	return key, nil
}

// Last is the checkpoint that the witness has cosigned last; its origin is "" if
// there is none.
func (w *Witness) Last() Checkpoint { return w.last }

// Cosign returns the checkpoint with the witness's signature added, if proof
// shows that it extends the last one; a first one needs no proof.
func (w *Witness) Cosign(raw []byte, proof []Hash) ([]byte, error) {
	c, err := w.log.Open(raw)
	if err != nil {
		return nil, err
	}
	if w.last.Origin != "" {
		if err := Extends(w.last, c.Checkpoint, proof); err != nil {
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
	w.last = c.Checkpoint
	return out, nil
}

// maxSignatures bounds the signatures of a merged checkpoint. Readers of notes take no more than 100.
const maxSignatures = 64

// Merge adds the signatures of more to those of checkpoint, which has the same text. Further
// signatures of the same key and lines that are no signatures are left out. More than 64
// signatures, or [MaxCheckpointBytes], are [ErrCheckpoint].
func Merge(checkpoint, more []byte) ([]byte, error) {
	m, err := openMerge(checkpoint)
	if err != nil {
		return nil, err
	}
	if err := m.add(more, nil); err != nil {
		return nil, err
	}
	return m.out, nil
}

// MergeAll adds what fits of the signatures of some texts to those of checkpoint, as [Merge] does. It
// leaves out texts of other checkpoints.
func MergeAll(checkpoint []byte, more [][]byte) []byte {
	m, err := openMerge(checkpoint)
	if err != nil {
		return checkpoint
	}
	for _, c := range more {
		_ = m.add(c, nil)
	}
	return m.out
}

// merge is a checkpoint to which signatures are added.
type merge struct {
	// text is what they sign, with the empty line after it.
	text, out []byte
	makers    map[string]bool
}

// newMerge begins with no signatures.
func newMerge(checkpoint []byte) (*merge, error) {
	i := bytes.Index(checkpoint, []byte("\n\n"))
	if i < 0 {
		return nil, fmt.Errorf("%w: it has no signatures", ErrCheckpoint)
	}
	text := checkpoint[:i+2]
	return &merge{text: text, out: bytes.Clone(text), makers: map[string]bool{}}, nil
}

// openMerge begins with the signatures of the checkpoint.
func openMerge(checkpoint []byte) (*merge, error) {
	m, err := newMerge(checkpoint)
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(checkpoint[len(m.text):]) {
		by, ok := maker(line)
		if !ok {
			return nil, fmt.Errorf("%w: a line is no signature", ErrCheckpoint)
		}
		m.makers[by] = true
	}
	m.out = bytes.Clone(checkpoint)
	return m, nil
}

// add adds the signatures of another text but those of some makers. It returns an error if some do
// not fit, and adds the others.
func (m *merge) add(more []byte, except map[string]string) (err error) {
	signatures, ok := bytes.CutPrefix(more, m.text)
	if !ok {
		return fmt.Errorf("%w: signatures of another checkpoint", ErrCheckpoint)
	}
	for line := range bytes.Lines(signatures) {
		by, ok := maker(line)
		if _, not := except[by]; !ok || not || m.makers[by] {
			continue
		}
		switch {
		case len(m.makers) >= maxSignatures:
			return fmt.Errorf("%w: more than %d signatures", ErrCheckpoint, maxSignatures)
		case len(m.out)+len(line) > MaxCheckpointBytes:
			err = fmt.Errorf("%w: more than %d bytes of signatures", ErrCheckpoint, MaxCheckpointBytes)
		default:
			m.out, m.makers[by] = append(m.out, line...), true
		}
	}
	return err
}

// search looks for the cosignatures of witnesses among texts that anybody may have added.
type search struct {
	// text is what they sign, with the empty line after it.
	text []byte
	// missing are the verifier keys of those whose cosignature was not found, by maker, and
	// found the texts with one cosignature each.
	missing map[string]string
	found   [][]byte
}

// in looks in one text, at the first signature of each maker.
func (s *search) in(more []byte) {
	signatures, ok := bytes.CutPrefix(more, s.text)
	if !ok {
		return
	}
	tried := map[string]bool{}
	for line := range bytes.Lines(signatures) {
		by, _ := maker(line)
		key, ok := s.missing[by]
		if !ok || tried[by] {
			continue
		}
		tried[by] = true
		if _, _, only, err := Cosignature(slices.Concat(s.text, line), key); err == nil {
			s.found = append(s.found, only)
			delete(s.missing, by)
		}
	}
}

// makers returns the verifier keys of witnesses by the makers of their cosignatures.
func makers(witnesses []string) (map[string]string, error) {
	out := map[string]string{}
	for _, key := range witnesses {
		v, err := cosign.NewVerifierForCosignatureV1(key)
		if err != nil {
			return nil, fmt.Errorf("the witness's verifier key %.120q: %w", key, err)
		}
		out[string(binary.BigEndian.AppendUint32([]byte(v.Name()+" "), v.KeyHash()))] = key
	}
	return out, nil
}

// maker tells the key of a signature line, by its name and the hash that the signature begins with: a
// witness that changes its key keeps its name. It reports false for what is no such line of a note
// (https://c2sp.org/signed-note), which would make the whole note malformed.
func maker(line []byte) (string, bool) {
	rest, begins := bytes.CutPrefix(line, []byte("— "))
	rest, ends := bytes.CutSuffix(rest, []byte("\n"))
	name, sig, _ := bytes.Cut(rest, []byte(" "))
	if !begins || !ends || len(name) == 0 || !utf8.Valid(name) {
		return "", false
	}
	if bytes.ContainsFunc(rest, func(r rune) bool { return r < ' ' }) || bytes.ContainsFunc(name, func(r rune) bool { return r == '+' || unicode.IsSpace(r) }) {
		return "", false
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(string(sig))
	if err != nil || len(raw) < 5 {
		return "", false
	}
	return string(name) + " " + string(raw[:4]), true
}

// Cosignature verifies the cosignature of one witness, and of nobody else: what
// the log's key has signed is another question. It returns the checkpoint, when it
// was cosigned, and the text with that signature alone.
func Cosignature(raw []byte, key string) (c Checkpoint, at time.Time, only []byte, err error) {
	if len(raw) > MaxCheckpointBytes {
		return c, at, nil, fmt.Errorf("%w: %d bytes, more than %d", ErrCheckpoint, len(raw), MaxCheckpointBytes)
	}
	v, err := cosign.NewVerifierForCosignatureV1(key)
	if err != nil {
		return c, at, nil, fmt.Errorf("the witness's verifier key %.120q: %w", key, err)
	}
	c, n, err := alone(raw, v)
	if err != nil {
		return c, at, nil, err
	}
	if at, err = cosign.CoSigV1Timestamp(n.Sigs[0]); err != nil {
		return c, at, nil, fmt.Errorf("%w: the cosignature of %s: %w", ErrCheckpoint, v.Name(), err)
	}
	if only, err = note.Sign(n); err != nil {
		return c, at, nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	return c, at, only, nil
}

// alone opens a checkpoint by one signature.
func alone(raw []byte, v note.Verifier) (Checkpoint, *note.Note, error) {
	n, err := note.Open(raw, note.VerifierList(v))
	if err != nil {
		return Checkpoint{}, nil, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	n.UnverifiedSigs = nil
	if _, err := base64.StdEncoding.Strict().DecodeString(n.Sigs[0].Base64); err != nil {
		return Checkpoint{}, nil, fmt.Errorf("%w: the signature of %s: %w", ErrCheckpoint, v.Name(), err)
	}
	c, err := ParseCheckpoint(raw)
	return c, n, err
}

// repeated reports whether two lines are the same.
func repeated(lines []string) bool {
	n := len(lines)
	slices.Sort(lines)
	return len(slices.Compact(lines)) < n
}

// ParseCheckpoint reads a checkpoint without looking at its signatures.
func ParseCheckpoint(raw []byte) (Checkpoint, error) {
	if len(raw) > MaxCheckpointBytes {
		return Checkpoint{}, fmt.Errorf("%w: %d bytes, more than %d", ErrCheckpoint, len(raw), MaxCheckpointBytes)
	}
	var c formats.Checkpoint
	if _, err := c.Unmarshal(raw); err != nil {
		return Checkpoint{}, fmt.Errorf("%w: %w", ErrCheckpoint, err)
	}
	if c.Size > math.MaxInt64 || len(c.Hash) != len(Hash{}) {
		return Checkpoint{}, fmt.Errorf("%w: no such tree", ErrCheckpoint)
	}
	return Checkpoint{Origin: c.Origin, Size: int64(c.Size), Root: Hash(c.Hash)}, nil
}
