// Package verdict has the cases of the conformance suite for MCP servers, and what it found of a
// server as far as the server's manifest carries it. That is named by a digest:
//
//	conformance_hash = SHA-256(JCS({examples, server_fingerprint, suite, verdicts}))
//
// where suite is [Suite], server_fingerprint is [fingerprint.Server], verdicts is the list of {id,
// verdict} by id, and examples is the digest of the server's own suite: a file of example calls
// that its author keeps. Without such a file examples is absent.
package verdict

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"chimera.ai/engine/fingerprint"
)

// Suite names this version of the suite: it changes with the cases, and with what one of them means.
const Suite = "chimera-conform/1"

// Verdict says how a case ended.
type Verdict string

// The verdicts.
const (
	Passed  Verdict = "passed"
	Failed  Verdict = "failed"
	Warned  Verdict = "warned"
	Skipped Verdict = "skipped"
)

// Valid reports whether v is one of the verdicts.
func (v Verdict) Valid() bool { return slices.Contains([]Verdict{Passed, Failed, Warned, Skipped}, v) }

// cases are the ids of the suite's cases. It reports of each whether a server may be unable to take
// part in it: it has no standard output, or there are no example calls.
var cases = map[string]bool{
	"pages-end": false, "names-valid": false, "list-stable": false, "restart-stable": false, "definitions-pinnable": false,
	"schemas-compile": false, "hints-complete": false, "unknown-tool": false,
	"examples-match": true, "bad-arguments": true, "outputs-match": true, "replay": true,
	"cancel": true, "clean-output": true, "stops": true,
}

// Case is the verdict of a case.
type Case struct {
	ID      string  `json:"id"`
	Verdict Verdict `json:"verdict"`
}

// Summary is what a suite found of a server.
type Summary struct {
	Suite string
	// ServerFingerprint is that of the server where the suite ran.
	ServerFingerprint string
	// Cases are sorted by id.
	Cases []Case
	// Examples is the digest of the server's own suite, or "".
	Examples string
}

// Hash returns the conformance_hash.
func (s Summary) Hash() (string, error) {
	verdicts := make([]any, len(s.Cases))
	for i, c := range s.Cases {
		verdicts[i] = map[string]any{"id": c.ID, "verdict": string(c.Verdict)}
	}
	v := map[string]any{"suite": s.Suite, "server_fingerprint": s.ServerFingerprint, "verdicts": verdicts}
	if s.Examples != "" {
		v["examples"] = s.Examples
	}
	raw, err := fingerprint.Canonical(v)
	if err != nil {
		return "", fmt.Errorf("conformance hash: %w", err)
	}
	sum := sha256.Sum256(raw)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

// Suffices returns an error unless the suite is [Suite], all its cases and no others have
// verdicts, none failed, and only those were skipped that not every server can take part in.
func (s Summary) Suffices() error {
	if s.Suite != Suite {
		return fmt.Errorf("the suite is %.80q, not %s", s.Suite, Suite)
	}
	seen := map[string]bool{}
	for _, c := range s.Cases {
		optional, known := cases[c.ID]
		switch {
		case !known:
			return fmt.Errorf("the suite has no case %.80q", c.ID)
		case seen[c.ID]:
			return fmt.Errorf("there are two verdicts on the case %s", c.ID)
		case c.Verdict == Skipped && !optional:
			return fmt.Errorf("the case %s was skipped, in which every server can take part", c.ID)
		case c.Verdict != Passed && c.Verdict != Warned && c.Verdict != Skipped:
			return fmt.Errorf("the server fails the case %s", c.ID)
		}
		seen[c.ID] = true
	}
	for _, id := range IDs() {
		if !seen[id] {
			return fmt.Errorf("there is no verdict on the case %s", id)
		}
	}
	return nil
}

// IDs returns the ids of the suite's cases, sorted.
func IDs() []string { return slices.Sorted(maps.Keys(cases)) }
