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
	s, err := trust.Read(ctx, l, r.Bootstrap)
	if err != nil || s.Quorum != 1 || !r.signs(s) {
		return 0, err
	}
	var parts [][]*trust.TrustTool // each for one statement
	count, size := 0, 0
	for i := range tools {
		t := &tools[i]
		a, err := registry.Act(t)
		if err != nil {
			return 0, err
		}
		if registry.Said(s, a) {
			continue
		}
		if err := registry.Register(ctx, l, s, t); err != nil {
			return 0, fmt.Errorf("registering %s: %w", t.Name(), err)
		}
		length := len(a.ToolID) + len(a.Fingerprint) + len(a.Facts)
		if size += length; len(parts) == 0 || size > maxPart {
			parts, size = append(parts, nil), length
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], a)
		count++
	}
	for _, part := range parts {
		if _, err := r.State(ctx, l, func(s trust.State) (acts []trust.Act) {
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
	return count, nil
}
