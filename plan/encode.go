package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Encode gives the canonical bytes of p.
func (p *Plan) Encode() ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(p); err != nil {
		return nil, fmt.Errorf("encode plan: %w", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}

// DigestOf gives the digest of canonical plan bytes, or of any bytes:
// "sha256:" and 64 hex digits.
func DigestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Decode reads canonical bytes and verifies that the plan is closed: known
// format and enumerations, indexes in range, virtual nodes in place.
func Decode(b []byte) (*Plan, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	p := new(Plan)
	if err := dec.Decode(p); err != nil {
		return nil, fmt.Errorf("decode plan: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("decode plan: data after the plan")
	}
	if err := p.Verify(); err != nil {
		return nil, err
	}
	p.Index()
	return p, nil
}

// Verify checks the invariants of a compiled plan and reports the first that
// does not hold.
func (p *Plan) Verify() error {
	if p.Format != Format {
		return fmt.Errorf("verify plan: format is %q, this build reads %q", p.Format, Format)
	}
	if p.Expr != ExprVersion {
		return fmt.Errorf("verify plan: expressions of version %d, this build knows %d", p.Expr, ExprVersion)
	}
	if p.Limits.MaxParallel < 1 || p.Limits.DeadlineMS < 1 {
		return errors.New("verify plan: limits are not positive")
	}
	last := len(p.Nodes) - 1
	if last < 1 || p.Nodes[0].Kind != KindInput || p.Nodes[last].Kind != KindOutput {
		return errors.New("verify plan: $input is not first or $output not last")
	}
	for i := range p.Nodes {
		if err := p.verifyNode(i); err != nil {
			return fmt.Errorf("verify plan: node %q: %w", p.Nodes[i].ID, err)
		}
	}
	for i := range p.Edges {
		e := &p.Edges[i]
		if e.From < 0 || e.From >= last || e.To < 1 || e.To > last {
			return fmt.Errorf("verify plan: edge %d: node out of range", i)
		}
		if !slices.Contains([]EdgeType{Data, Control, Conditional, Error}, e.Type) {
			return fmt.Errorf("verify plan: edge %d: unknown type %q", i, e.Type)
		}
	}
	for i := range p.Schemas {
		s := &p.Schemas[i]
		if DigestOf(s.Schema) != s.Digest {
			return fmt.Errorf("verify plan: schema %d does not have its digest", i)
		}
		if i > 0 && p.Schemas[i-1].Digest >= s.Digest {
			return errors.New("verify plan: schemas are not sorted")
		}
	}
	return nil
}

func (p *Plan) verifyNode(i int) error {
	n := &p.Nodes[i]
	virtual := i == 0 || i == len(p.Nodes)-1
	if (n.Kind == KindCall) == virtual {
		return fmt.Errorf("kind %q is out of place", n.Kind)
	}
	for _, s := range []int{n.InputSchema, n.OutputSchema} {
		if s < -1 || s >= len(p.Schemas) || (s < 0 && !virtual) {
			return errors.New("schema out of range")
		}
	}
	if virtual {
		return nil
	}
	switch {
	case n.ProviderType != Skill && n.ProviderType != MCP:
		return fmt.Errorf("unknown provider type %q", n.ProviderType)
	case n.Mode != Prob && n.Mode != Deter:
		return fmt.Errorf("unknown mode %q", n.Mode)
	case !slices.Contains([]EffectClass{Pure, Staged, Committing, Irreversible}, n.Effect):
		return fmt.Errorf("unknown effect class %q", n.Effect)
	case !slices.Contains([]Trust{AllowAuto, ManualReview, Block}, n.Trust):
		return fmt.Errorf("unknown trust requirement %q", n.Trust)
	case n.TimeoutMS < 1 || n.Retry.MaxAttempts < 1 || n.Retry.MultiplierMilli < 1000:
		return errors.New("timeout or retry policy out of range")
	case n.Local && (n.ProviderType != Skill || n.Effect != Pure || n.Mode != Deter):
		return errors.New("marked local, but not a pure deterministic skill")
	}
	for _, k := range n.Retry.On {
		if !k.Valid() {
			return fmt.Errorf("unknown error kind %q", k)
		}
	}
	return nil
}
