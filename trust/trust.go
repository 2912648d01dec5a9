// Package trust defines where authority comes from, and how anybody can check it.
//
// It starts from one file, the [Bootstrap], whose digest every configuration
// pins: the name of the deployment, its audience (prod or dev), its first admins
// with their keys, how many of them must agree, the log's key and its witnesses.
// From there on authority changes only by statements. A statement is a DSSE
// envelope (https://github.com/secure-systems-lab/dsse) over the JSON of a
// [Statement]: its place n in the chain, the digest of the payload before (for
// the first, of the bootstrap), and acts of a closed set. It counts if a quorum of
// different persons, admins as of the previous statement, has signed it. [Chain]
// verifies all of that and returns the [State] at the end of the chain, or says at
// which statement it breaks and why.
//
// Whatever a database says about signers, agents, tools or budgets is only a copy of
// that: [Apply] writes it, and [Enrolled], [Known], [Trusted] and [Limited] refuse rows
// that contradict the chain.
//
// More things are signed: the source of a plan by its author ([SignPlan]), the manifest of an
// MCP server by its publisher ([SignManifest]), the start of a run by a key that may act for its
// agent ([SignGrant]), and the permit of one call of an effect by a guardian ([SignPermit]).
//
// # Forms
//
// A person is an id of small letters, digits and . _ @ - ([plan.IsPerson]); names for people to
// read have no place here.
//
// A public key is the base64 of its DER (SubjectPublicKeyInfo), Ed25519 or ECDSA
// on P-256. A private key is PKCS #8 in PEM. An Ed25519 signature is over the
// PAE, one with P-256 over its SHA-256, in ASN.1 or as r and s of 32 bytes each.
// Payloads are JSON without unknown, repeated or empty optional fields; digests
// are "sha256:" and 64 hex digits, of payloads as they were received, of the
// bootstrap in canonical form, so that it may be laid out in any way.
//
// The package reads no clock: instants are arguments.
package trust

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"chimera.ai/engine/internal/strict"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"

	"chimera.ai/engine/ledger"
)

// Bounds of documents.
const (
	// MaxEnvelope bounds an envelope, in bytes.
	MaxEnvelope = 192 << 10
	// MaxBootstrap bounds a bootstrap file, in bytes.
	MaxBootstrap = 64 << 10
	// MaxSignatures bounds the signatures of an envelope.
	MaxSignatures = 32
	// MaxAdmins bounds the admins of a deployment, and their keys.
	MaxAdmins = 32
	// MaxActs bounds the acts of a statement.
	MaxActs = 256
	// MaxStatements bounds a chain.
	MaxStatements = ledger.MaxStatements
	// maxName bounds each name, maxList each list of an act, in bytes and items.
	maxName, maxList = 256, 64
)

// ErrInvalid reports a document that is malformed, not signed as it must be, or not for
// this deployment.
var ErrInvalid = errors.New("not trusted")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// Audience says what signatures are for: one made for dev never counts in prod.
type Audience string

// The audiences.
const (
	Prod Audience = "prod"
	Dev  Audience = "dev"
)

// quorum is the least number of persons who must agree.
func (a Audience) quorum() int {
	if a == Dev {
		return 1
	}
	return 2
}

// exact decodes JSON that has only fields of T, each at most once and spelled as in T, and
// returns its canonical form.
func exact[T any](raw []byte, into *T) ([]byte, error) {
	v, err := schemas.Decode(raw)
	if err != nil {
		return nil, err
	}
	canonical, err := plan.Canonical(v)
	if err != nil {
		return nil, err
	}
	if err := strict.Decode(raw, into); err != nil {
		return nil, err
	}
	again, err := canon(into)
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(again, canonical) {
		return nil, errors.New("a field is missing, empty, or not written as its format says")
	}
	return canonical, nil
}

// canon returns the canonical JSON of v.
func canon(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	x, err := schemas.Decode(raw)
	if err != nil {
		return nil, err
	}
	return plan.Canonical(x)
}

// name checks that people can recognize a name: it has no control or invisible characters,
// and no spaces around it.
func name(what, s string) error {
	if s == "" || len(s) > maxName || !utf8.ValidString(s) || strings.TrimSpace(s) != s || strings.ContainsFunc(s, unseen) {
		return invalid("%.80q is not the name of %s: 1 to %d bytes of printable text", s, what, maxName)
	}
	return nil
}

// unseen reports characters that people do not see, also those that Unicode counts among
// letters and marks.
func unseen(r rune) bool {
	const brailleBlank = '\u2800'
	return !unicode.IsPrint(r) || r == brailleBlank || unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}

// PersonOf returns the id of a person for a user of the machine: small letters, and - for what an id
// does not have.
func PersonOf(user string) string {
	id := strings.Map(func(r rune) rune {
		if !plan.IsPerson(string(r)) {
			return '-'
		}
		return r
	}, strings.ToLower(user))
	return id[:min(len(id), maxName)]
}

func person(what, s string) error {
	if !plan.IsPerson(s) {
		return invalid("%.80q is not the id of %s: 1 to 256 small letters, digits and . _ @ -", s, what)
	}
	return nil
}

// digest checks the form of a digest.
func digest(what, s string) error {
	hex, ok := strings.CutPrefix(s, "sha256:")
	if !ok || len(hex) != 64 || strings.Trim(hex, "0123456789abcdef") != "" {
		return invalid("the digest of %s is %.80q, not sha256: and 64 hex digits", what, s)
	}
	return nil
}
