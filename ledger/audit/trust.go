package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/internal/strict"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/trust"
)

// TrustFormat is the format of trust files.
const TrustFormat = "chimera.ai/trust/v1"

// maxTrustBytes bounds a trust file.
const maxTrustBytes = 1 << 20

// Trust is what an auditor knows from elsewhere: the log's public key, and the
// witnesses that must have cosigned.
type Trust struct {
	Format string `json:"format"`
	// Origin names the log.
	Origin string `json:"origin"`
	// Log is the log's verifier key, "NAME+HASH+KEY".
	Log string `json:"log"`
	// Witnesses are verifier keys, of which Quorum must have cosigned.
	Witnesses []string `json:"witnesses,omitempty"`
	Quorum    int      `json:"quorum,omitempty"`
	// Audience is "dev" for a log of development, which proves nothing to others.
	Audience string `json:"audience,omitempty"`
	// Namespaces are the Temporal namespaces of the deployment: start grants, orders to runs and
	// requests for approval that are for another count for nothing. Without any the report says that
	// they are not compared.
	Namespaces []string `json:"namespaces,omitempty"`
	// Bootstrap is the root of the deployment's authority. Without it the
	// statements of admins are not verified, and the report says so.
	Bootstrap *trust.Bootstrap `json:"bootstrap,omitempty"`
	// Known are entries that the auditor has looked into: what they state is a warning, and no
	// problem, of the kinds [BadStory] and [BadAuthority]. A log keeps for ever what somebody wrote
	// into it by hand.
	Known []KnownEntry `json:"known,omitempty"`
}

// KnownEntry is an entry of which an auditor knows how it came to be.
type KnownEntry struct {
	Entry ledger.Hash `json:"entry"`
	// Why says that, in at most 1000 bytes.
	Why string `json:"why"`
}

// Bounds of the entries that a trust file knows, and of what it says of each, in bytes.
const maxKnown, maxKnownWhy = 1000, 1000

var trustFields = []string{"format", "origin", "log", "witnesses", "quorum", "audience", "namespaces", "bootstrap", "known"}

// ParseTrust reads a trust file. It refuses unknown fields.
func ParseTrust(raw []byte) (Trust, error) {
	var t Trust
	if len(raw) > maxTrustBytes {
		return t, fmt.Errorf("read trust file: %d bytes, more than %d", len(raw), maxTrustBytes)
	}
	if _, err := schemas.Decode(raw); err != nil {
		return t, fmt.Errorf("read trust file: %w", err)
	}
	// Before the fields, which those of another file are not.
	var is struct{ Format string }
	if err := json.Unmarshal(raw, &is); err != nil {
		return t, errors.New("read trust file: it is not a JSON object with a format")
	}
	switch is.Format {
	case TrustFormat:
	case trust.BootstrapFormat:
		return t, errors.New("read trust file: it is a bootstrap, not a trust file")
	default:
		return t, fmt.Errorf("read trust file: the format is %.80q, not %s", is.Format, TrustFormat)
	}
	if err := strict.Decode(raw, &t); err != nil {
		return t, fmt.Errorf("read trust file: %w", err)
	}
	// encoding/json accepts a field in any case, but another reader of the file must not see
	// other keys.
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return t, fmt.Errorf("read trust file: %w", err)
	}
	for name := range fields {
		if !slices.Contains(trustFields, name) {
			return t, fmt.Errorf("read trust file: unknown field %.80q", name)
		}
	}
	switch {
	case t.Origin == "" || t.Log == "":
		return t, errors.New("read trust file: it names no origin, or no key of the log")
	case t.Quorum < 0 || t.Quorum > len(t.Witnesses):
		return t, fmt.Errorf("read trust file: a quorum of %d among %d witnesses", t.Quorum, len(t.Witnesses))
	}
	if slices.Contains(t.Namespaces, "") || t.Namespaces != nil && len(t.Namespaces) == 0 {
		return t, errors.New("read trust file: a namespace has no name")
	}
	for i, key := range t.Witnesses {
		name, _, _ := strings.Cut(key, "+")
		if slices.ContainsFunc(t.Witnesses[:i], func(k string) bool { return strings.HasPrefix(k, name+"+") }) {
			return t, fmt.Errorf("read trust file: the witness %.80s is listed twice", name)
		}
	}
	if len(t.Known) > maxKnown {
		return t, fmt.Errorf("read trust file: it knows %d entries, more than %d", len(t.Known), maxKnown)
	}
	for i, k := range t.Known {
		switch {
		case k.Entry.IsZero() || strings.TrimSpace(k.Why) == "" || len(k.Why) > maxKnownWhy:
			return t, fmt.Errorf("read trust file: an entry that is known has a hash, and why it is in at most %d bytes", maxKnownWhy)
		case slices.ContainsFunc(t.Known[:i], func(other KnownEntry) bool { return other.Entry == k.Entry }):
			return t, fmt.Errorf("read trust file: the entry %s is known twice", k.Entry)
		}
	}
	if t.Bootstrap != nil {
		b, err := trust.ParseBootstrap(fields["bootstrap"])
		if err != nil {
			return t, fmt.Errorf("read trust file: %w", err)
		}
		if t.Audience != string(b.Audience) {
			return t, fmt.Errorf("read trust file: the audience is %.20q, and that of the bootstrap %s", t.Audience, b.Audience)
		}
	}
	return t, nil
}

// open verifies a checkpoint by the trust file alone.
func (t Trust) open(raw []byte) (ledger.Signed, error) {
	c, err := ledger.Signers{Log: t.Log, Witnesses: t.Witnesses, Quorum: t.Quorum}.Open(raw)
	if err == nil && c.Origin != t.Origin {
		err = fmt.Errorf("%w: it is of the log %s, not %s", ledger.ErrCheckpoint, c.Origin, t.Origin)
	}
	return c, err
}

// elsewhere says that a namespace is not one of the deployment, or is nil if it is, or if the trust
// file names none.
func (t Trust) elsewhere(namespace string) error {
	if len(t.Namespaces) == 0 || slices.Contains(t.Namespaces, namespace) {
		return nil
	}
	return fmt.Errorf("it is for the namespace %.120q, and the trust file has %s", namespace, strings.Join(t.Namespaces, ", "))
}

// usable reports whether the keys of the trust file are keys.
func (t Trust) usable() error {
	if err := (ledger.Signers{Log: t.Log, Witnesses: t.Witnesses}).Check(); err != nil {
		return fmt.Errorf("the trust file: %w", err)
	}
	return nil
}
