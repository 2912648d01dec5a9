package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"chimera.ai/engine/internal/strict"
)

// EntryFormat is the first field of every entry.
const EntryFormat = "chimera.ai/ledger/entry/v1"

// Bounds of entries.
const (
	// MaxEntryBytes bounds the canonical bytes of an entry.
	MaxEntryBytes = 16 << 10
	// MaxBodyBytes bounds the body of an entry.
	MaxBodyBytes = 256 << 10
	// MaxRefs bounds the references of an entry.
	MaxRefs = 64
	// MaxStatements bounds the chain of admins' statements, and MaxAuthority their
	// bytes together: every reader verifies, and holds, the whole of it.
	MaxStatements = 100_000
	MaxAuthority  = 64 << 20
	// MaxTools bounds the tools that one call stores, changes or finds by their ids, and
	// MaxToolBytes what it finds.
	MaxTools     = 256
	MaxToolBytes = MaxTools * MaxBodyBytes
	// maxName bounds each name in an entry, in bytes.
	maxName = 1024
)

// Entry is one fact of the log. Its canonical bytes are what the log holds; the
// package comment gives their form.
type Entry struct {
	Format string `json:"format"`
	// Origin names the log, as its checkpoints do.
	Origin string `json:"origin"`
	// Chain is the sequence of facts that the entry belongs to, N its place in
	// it from 0, and Prev the hash of the entry before; the first has none.
	Chain string `json:"chain"`
	N     int64  `json:"n"`
	Prev  Hash   `json:"prev"`
	// Key is what the entry says, once: a chain has no two entries of one key.
	Key  string `json:"key"`
	Kind Kind   `json:"kind"`
	// At is when its writer stated it, on the store's clock.
	At Time `json:"at"`
	// Class is the retention class of the body.
	Class Class `json:"class"`

	Agent   string `json:"agent,omitempty"`
	Plan    string `json:"plan,omitempty"`
	Run     string `json:"run,omitempty"`
	Node    string `json:"node,omitempty"`
	Visit   int    `json:"visit,omitempty"`
	Element int    `json:"element,omitempty"`
	Task    string `json:"task,omitempty"`

	// Refs name what the entry is about by digest, sorted by name.
	Refs []Ref `json:"refs,omitempty"`
	// Body is the digest of the entry's body, "" if it has none. A body that was
	// pruned or erased leaves its digest behind.
	Body string `json:"body,omitempty"`
}

// Ref is a digest with its role: "input", "output", "evidence".
type Ref struct {
	Name   string `json:"name"`
	Digest string `json:"digest"`
}

// Time is an instant in UTC, in milliseconds, written as RFC 3339 with three
// decimals: one instant has one text.
type Time struct{ t time.Time }

const timeLayout = "2006-01-02T15:04:05.000Z"

// At returns an instant, cut to milliseconds.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Millisecond)} }

// Time is the instant.
func (t Time) Time() time.Time { return t.t }

// String is the instant's text.
func (t Time) String() string { return t.t.UTC().Format(timeLayout) }

// MarshalText writes the instant.
func (t Time) MarshalText() ([]byte, error) {
	if y := t.t.Year(); y < 1 || y > 9999 {
		return nil, fmt.Errorf("the year %d cannot be written", y)
	}
	return []byte(t.String()), nil
}

// UnmarshalText reads the one text of an instant.
func (t *Time) UnmarshalText(text []byte) error {
	v, err := time.Parse(timeLayout, string(text))
	// Package time also accepts a comma instead of the point.
	if err != nil || v.Year() < 1 || v.Format(timeLayout) != string(text) {
		return fmt.Errorf("%.40q is not an instant such as 2026-01-31T09:30:00.000Z", text)
	}
	*t = Time{v}
	return nil
}

// Encode returns the canonical bytes, or says why the entry is not well formed.
func (e *Entry) Encode() ([]byte, error) {
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("encode entry: %w: %w", ErrInvalid, err)
	}
	b, err := e.write(make([]byte, 0, 1024))
	if err != nil {
		return nil, fmt.Errorf("encode entry: %w: %w", ErrInvalid, err)
	}
	if len(b) > MaxEntryBytes {
		return nil, fmt.Errorf("encode entry: %w: %d bytes, more than %d", ErrInvalid, len(b), MaxEntryBytes)
	}
	return b, nil
}

// decodeEntry is DecodeEntry for any JSON.
func decodeEntry(b []byte) (*Entry, error) {
	e := new(Entry)
	if err := strict.Decode(b, e); err != nil {
		return nil, fmt.Errorf("decode entry: %w", err)
	}
	again, err := e.Encode()
	if err != nil {
		return nil, fmt.Errorf("decode entry: %w", err)
	}
	if !bytes.Equal(again, b) {
		return nil, errors.New("decode entry: the bytes are not canonical")
	}
	return e, nil
}

// check checks the entry against the rules of the format.
func (e *Entry) check() error {
	if e.Format != EntryFormat {
		return fmt.Errorf("the format is %.80q, not %s", e.Format, EntryFormat)
	}
	for _, f := range []struct{ name, value string }{
		{"origin", e.Origin}, {"chain", e.Chain}, {"key", e.Key}, {"kind", string(e.Kind)}, {"class", string(e.Class)},
	} {
		if f.value == "" {
			return fmt.Errorf("there is no %s", f.name)
		}
	}
	for _, s := range []string{e.Origin, e.Chain, e.Key, e.Agent, e.Plan, e.Run, e.Node, e.Task} {
		if !isName(s) {
			return fmt.Errorf("%.80q is not a name: at most %d bytes of UTF-8 without control characters", s, maxName)
		}
	}
	if !e.Kind.Known() {
		return fmt.Errorf("the kind %.80q is not one of this format", string(e.Kind))
	}
	if !e.Class.Known() {
		return fmt.Errorf("the retention class %.80q is not one of this format", string(e.Class))
	}
	if e.N < 0 || e.Visit < 0 || e.Element < 0 {
		return errors.New("a place is negative")
	}
	if e.Prev.IsZero() != (e.N == 0) {
		return errors.New("the first entry of a chain, and no other, has no predecessor")
	}
	if len(e.Refs) > MaxRefs {
		return fmt.Errorf("%d references, more than %d", len(e.Refs), MaxRefs)
	}
	for i, r := range e.Refs {
		if r.Name == "" || !isName(r.Name) {
			return fmt.Errorf("reference %d has no proper name", i)
		}
		if i > 0 && e.Refs[i-1].Name >= r.Name {
			return errors.New("the references are not sorted by name, each name once")
		}
		if !isDigest(r.Digest) {
			return fmt.Errorf("the reference %s is not a digest: %.80q", r.Name, r.Digest)
		}
	}
	if e.Body != "" && !isDigest(e.Body) {
		return fmt.Errorf("the body is not a digest: %.80q", e.Body)
	}
	return nil
}

// isName reports whether s is at most maxName bytes of UTF-8 without control characters.
func isName(s string) bool {
	if len(s) > maxName {
		return false
	}
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= 0x7f {
			return utf8.ValidString(s) && !strings.ContainsFunc(s, control)
		}
	}
	return true
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

// isDigest reports whether s is "sha256:" and 64 lower-case hex digits.
func isDigest(s string) bool {
	hex, ok := strings.CutPrefix(s, "sha256:")
	if !ok {
		return false
	}
	return isHex(hex)
}

// Hash is the leaf hash of the entry's canonical bytes.
func (e *Entry) Hash() (Hash, error) {
	b, err := e.Encode()
	if err != nil {
		return Hash{}, err
	}
	return LeafHash(b), nil
}

// Ref returns the digest of the reference with that name, or "".
func (e *Entry) Ref(name string) string {
	for _, r := range e.Refs {
		if r.Name == name {
			return r.Digest
		}
	}
	return ""
}

// Draft is an entry before the store has assigned its place: the store fills in the origin,
// n, prev, time and body digest.
type Draft struct {
	Chain, Key string
	Kind       Kind
	Class      Class

	Agent, Plan, Run, Node string
	Visit, Element         int
	Task                   string
	Refs                   []Ref
	// Data is the body's content: a JSON object, or nil for no body.
	Data json.RawMessage
	// Subject names the person whose data the body holds, or is "". If it is set, the body
	// is sealed with the subject's key, and erased by deleting that key.
	Subject string
}

// Entry returns the draft as an entry at its place in the log.
func (d *Draft) Entry(origin string, n int64, prev Hash, at Time, body string) *Entry {
	class := d.Class
	if class == "" {
		class = d.Kind.Class()
	}
	refs := slices.Clone(d.Refs)
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.Name, b.Name) })
	return &Entry{
		Format: EntryFormat, Origin: origin, Chain: d.Chain, N: n, Prev: prev, Key: d.Key, Kind: d.Kind, At: at, Class: class,
		Agent: d.Agent, Plan: d.Plan, Run: d.Run, Node: d.Node, Visit: d.Visit, Element: d.Element, Task: d.Task,
		Refs: refs, Body: body,
	}
}

// Reference is how documents outside the log name an entry, as the audit_ref of
// a task does: "ledger://ORIGIN/HASH".
func Reference(origin string, h Hash) string { return "ledger://" + origin + "/" + h.String() }

// ParseReference reads a [Reference].
func ParseReference(s string) (origin string, h Hash, err error) {
	rest, ok := strings.CutPrefix(s, "ledger://")
	i := strings.LastIndexByte(rest, '/')
	if !ok || i <= 0 {
		return "", Hash{}, fmt.Errorf("%.120q is not a reference such as ledger://ORIGIN/HASH", s)
	}
	if h, err = ParseHash(rest[i+1:]); err != nil {
		return "", Hash{}, err
	}
	return rest[:i], h, nil
}
