package devroot

import (
	"context"
	"fmt"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

// StateTools registers imported tools, and states what the operator says of them and of operations on resources,
// which are not registered, unless that is stated. It returns how many it has stated.
func (r *Root) StateTools(ctx context.Context, l ledger.Store, tools []catalog.Template) (int, error) {
	if len(tools) == 0 {
		return 0, nil
	}
	w := trust.NewWriter(l, r.Bootstrap)
	s, err := w.State(ctx)
	if err != nil || s.Quorum != 1 || !r.signs(s) {
		return 0, err
	}
	var open []*catalog.Template
	var acts []*trust.TrustTool
	for i := range tools {
		t := &tools[i]
		a, err := registry.Act(t)
		if err != nil {
			return 0, err
		}
		if !registry.Said(s, a) {
			acts = append(acts, a)
			if t.Definition != nil {
				open = append(open, t)
			}
		}
	}
	if err := registry.Register(ctx, l, s, open...); err != nil {
		return 0, fmt.Errorf("registering tools: %w", err)
	}
	for _, part := range registry.Parts(acts) {
		if _, _, err := r.state(ctx, w, func(s trust.State) (acts []trust.Act) {
			for _, a := range part {
				if !registry.Said(s, a.(*trust.TrustTool)) {
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
	return len(acts), nil
}
