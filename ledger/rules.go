package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"chimera.ai/engine/plan"
)

// rulesPage is how many entries are read at a time.
const rulesPage = 500

// ChainReader reads the entries of chains, and their bodies.
type ChainReader interface {
	Chain(ctx context.Context, name string, from int64, limit int) ([]Record, error)
	Body(ctx context.Context, digest string) ([]byte, error)
}

// ReadRules returns kept rules by their digests: see [RulesData]. Those that the log does not
// have are missing. Rules that are not those of their digest are [ErrInvalid].
func ReadRules(ctx context.Context, log ChainReader, digests ...string) (map[string]json.RawMessage, error) {
	found, wanted := map[string]json.RawMessage{}, map[string]bool{}
	for _, d := range digests {
		wanted[string(RulesKept)+"/"+d] = true
	}
	for n := int64(0); len(found) < len(wanted); {
		records, err := log.Chain(ctx, RulesChain, n, rulesPage)
		if err != nil || len(records) == 0 {
			return found, err
		}
		for _, r := range records {
			e, err := DecodeEntry(r.Bytes)
			if err != nil {
				return nil, err
			}
			n = e.N + 1
			if !wanted[e.Key] {
				continue
			}
			raw, err := log.Body(ctx, e.Body)
			if errors.Is(err, ErrGone) {
				continue
			}
			var b Body
			if err == nil {
				b, err = DecodeBody(raw)
			}
			var data RulesData
			if err == nil {
				err = json.Unmarshal(b.Data, &data)
			}
			if err != nil {
				return nil, fmt.Errorf("read rules: %w", err)
			}
			if string(RulesKept)+"/"+data.Digest != e.Key || plan.DigestOf(data.Rules) != data.Digest {
				return nil, fmt.Errorf("read rules: %w: those of %.80q have another digest", ErrInvalid, e.Key)
			}
			found[data.Digest] = data.Rules
		}
	}
	return found, nil
}
