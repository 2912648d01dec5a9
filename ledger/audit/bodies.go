package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"chimera.ai/engine/ledger"
)

// seal checks the sealing of a body against its kind and its chain, and returns ""
// if it is allowed. The statements of a run are all sealed, with one key, or not at
// all; statements on which others depend never are.
func (c *chain) seal(e *ledger.Entry, key string) string {
	if key != "" && e.Kind.Class().Rank() > ledger.Evidence.Rank() {
		return fmt.Sprintf("the body of an entry of kind %s is sealed, which none is", e.Kind)
	}
	if c.run == "" {
		return ""
	}
	if was := c.key; c.bodies && was != key {
		return fmt.Sprintf("it is sealed with the key %q, and what the run has stated before with %q: a run is sealed whole, or not at all", key, was)
	}
	c.bodies, c.key = true, strings.Clone(key)
	return ""
}

// body is a decoded line of bodies.jsonl.
type body struct {
	digest string
	data   json.RawMessage
	// sealed is the id of the key that it is sealed with, "" for none.
	sealed string
	err    error
}

func readBody(line []byte) body {
	b := body{digest: ledger.BodyDigest(line)}
	v, err := ledger.DecodeBody(line)
	switch {
	case errors.Is(err, ledger.ErrSealed):
		b.sealed, _ = ledger.Sealed(line)
	case err != nil:
		b.err = err
	default:
		b.data = v.Data
	}
	return b
}

// maxForeign bounds how many bodies in a row are told from those of entries where they stand.
const maxForeign = 8

// body returns the next body, for an entry. Bodies stand in the order of their entries, so that
// those before the entry's own are of none: they are reported, and left out.
func (v *verifier) body(i int64, digest string, bodies *stream[body]) (body, error) {
	b, err := bodies.peek()
	if err != nil || b.digest == digest {
		return b, err
	}
	for n := 1; n <= maxForeign; n++ {
		if next, ok := bodies.ahead(n); ok && next.digest == digest {
			v.problem(BadBody, i, "%s has %s too many before that of this entry, the first: %s", BodiesFile, count(n, "body", "bodies"), b.digest)
			for range n {
				_, _ = bodies.next() // they have been looked at
			}
			return bodies.peek()
		}
	}
	return b, nil
}
