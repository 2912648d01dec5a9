package catalog

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// digested is what the digest of a catalog covers of a template.
type digested struct {
	Tool    string          `json:"tool"`
	Facts   json.RawMessage `json:"facts"`
	Status  plan.Trust      `json:"status"`
	Trust   plan.Trust      `json:"trust_requirement,omitempty"`
	Timeout int64           `json:"timeout_ms,omitempty"`
	Retry   *statedRetry    `json:"retry_policy,omitempty"`
}

// digestedAdapter is what it covers of an adapter.
type digestedAdapter struct {
	Adapter   string          `json:"adapter"`
	Input     json.RawMessage `json:"input_schema"`
	Output    json.RawMessage `json:"output_schema"`
	Transform json.RawMessage `json:"transform"`
}

// Digest identifies what the catalog says: "sha256:" and 64 hex digits over "chimera-catalog/1", a zero
// byte, and for each template and each adapter canonical JSON and a line feed, sorted. Order, notation,
// descriptions and statements do not count. It fails if a schema or a transform has no canonical form.
func (c *Catalog) Digest() (string, error) {
	var lines [][]byte
	add := func(v any) error {
		raw, err := json.Marshal(v)
		if err != nil {
			return err
		}
		decoded, err := schemas.Decode(raw)
		if err != nil {
			return err
		}
		line, err := plan.Canonical(decoded)
		lines = append(lines, append(line, '\n'))
		return err
	}
	for i := range c.Templates {
		t := &c.Templates[i]
		facts, err := t.Facts()
		if err == nil {
			d := digested{Tool: t.ToolID(), Facts: facts, Status: t.State(), Trust: t.Trust, Timeout: t.TimeoutMS}
			if t.Retry.MaxAttempts > 0 {
				d.Retry = stateRetry(t.Retry)
			}
			err = add(d)
		}
		if err != nil {
			return "", fmt.Errorf("digest of a catalog: %s: %w", t.Name(), err)
		}
	}
	for _, a := range c.Adapters {
		if err := add(digestedAdapter{a.ID, a.InputSchema, a.OutputSchema, a.Transform}); err != nil {
			return "", fmt.Errorf("digest of a catalog: the adapter %s: %w", a.ID, err)
		}
	}
	slices.SortFunc(lines, bytes.Compare)
	return plan.DigestOf(append([]byte("chimera-catalog/1\x00"), bytes.Join(lines, nil)...)), nil
}
