package devroot

import (
	"context"
	"fmt"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

// maxPart bounds what a statement says of tools, in bytes. Its envelope, in base64, is then below
// [trust.MaxEnvelope]; and since three digests make what is said of a tool longer than 256 bytes,
// its acts are fewer than [trust.MaxActs].
const maxPart = 64 << 10

// StateTools registers imported tools, and states what the operator says of them, unless that is
// stated. It returns how many it has stated.
func (r *Root) StateTools(ctx context.Context, l ledger.Store, tools []catalog.Template) (int, error) {
	if len(tools) == 0 {
		return 0, nil
	}
	w := trust.NewWriter(l, r.Bootstrap)
	s, err := w.State(ctx)
	if err != nil || s.Quorum != 1 || !r.signs(s) {
		return 0, err
	}
	var parts [][]*trust.TrustTool // each for one statement
	var open []*catalog.Template
	size := 0
	for i := range tools {
		t := &tools[i]
		a, err := registry.Act(t)
		if err != nil {
			return 0, err
		}
		if registry.Said(s, a) {
			continue
		}
		open = append(open, t)
		length := len(a.ToolID) + len(a.Fingerprint) + len(a.Facts)
		if size += length; len(parts) == 0 || size > maxPart {
			parts, size = append(parts, nil), length
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], a)
	}
	if err := registry.Register(ctx, l, s, open...); err != nil {
		return 0, fmt.Errorf("registering tools: %w", err)
	}
	for _, part := range parts {
		if _, _, err := r.state(ctx, w, func(s trust.State) (acts []trust.Act) {
			for _, a := range part {
				if !registry.Said(s, a) {
					acts = append(acts, a)
				}
			}
			return acts
		}); err != nil {
			return 0, err
		}
	}
	// A process that ended meanwhile may have left rows of what it had stated.
	if _, err := w.Settle(ctx); err != nil {
		return 0, err
	}
	return len(open), nil
}
