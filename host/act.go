package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/blob"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

// act makes the roles that decide on effects and that call them. Each has an own view of
// what runs may do.
func (h *Host) act(ctx context.Context, said *trust.Reader, blobs blob.Store, plans *payload.Plans, values *payload.Values, caller activities.Caller) error {
	o := &h.options
	inProcess, operations, err := Catalog(o.Catalog, o.Skills)
	if err != nil {
		return err
	}
	read := h.reader(said)
	read.holds = true
	bench := read.workbench
	if o.production() {
		registered, _, err := read.registry.catalog(ctx)
		if errors.Is(err, ledger.ErrUnavailable) {
			o.Logger.WarnContext(ctx, "the registry of tools cannot be read: no effect is decided on or called until it can be", "error", err)
			registered, err = new(catalog.Catalog), nil
			h.started = append(h.started, func(ctx context.Context) { h.await(ctx, read, said, operations) })
		}
		if err != nil {
			return fmt.Errorf("read the registry of tools: %w", err)
		}
		if err := h.vouched(ctx, said, registry.Under(operations, registered)); err != nil {
			return err
		}
	}
	acting := func() *activities.Acting {
		return &activities.Acting{Plans: plans, Values: values, Ledger: h.store.Ledger, Authority: informed{said, bench}, Namespace: o.Client.Namespace, Bench: bench}
	}
	if o.has(RoleGuardian) {
		now := bench()
		if _, err := now.Judge(); err != nil && now.Away == nil && o.Reread == nil {
			return err
		}
		h.started = append(h.started, func(ctx context.Context) { permits(ctx, said, o.GuardianKey, o.Logger) })
		h.sweeper = &sweeper{store: h.store.Ledger, every: o.SweepEvery, logger: o.Logger}
		g := &activities.Guardian{Acting: acting(), Store: h.store.Ledger, Key: o.GuardianKey}
		w := h.worker(contract.QueueGuardian, worker.Options{DisableWorkflowWorker: true})
		w.RegisterActivityWithOptions(g.Decide, activity.RegisterOptions{Name: contract.ActivityDecide})
		w.RegisterActivityWithOptions(g.Decide, activity.RegisterOptions{Name: contract.ActivityConfirm})
		w.RegisterActivityWithOptions(g.Open, activity.RegisterOptions{Name: contract.ActivityOpen})
		w.RegisterActivityWithOptions(g.Sign, activity.RegisterOptions{Name: contract.ActivitySign})
		w.RegisterActivityWithOptions(g.Hold, activity.RegisterOptions{Name: contract.ActivityHold})
		w.RegisterActivityWithOptions(g.Post, activity.RegisterOptions{Name: contract.ActivityPost})
	}
	if o.has(RoleEffects) {
		f := &activities.Effects{
			Acting: acting(), Store: h.store.Ledger, Caller: all{skills: cleaned{goSkills{inProcess}, o.Secrets}, tools: caller}, Outputs: payload.NewOutputs(blobs, o.Sealing, o.Client.Namespace, true),
		}
		dynamic(h.worker(contract.QueueEffects, worker.Options{DisableWorkflowWorker: true}), f.Node)
	}
	return nil
}

// permits says that the admins do not let the guardian's key sign permits, if so, and again when they do.
func permits(ctx context.Context, said *trust.Reader, key *trust.Key, logger *slog.Logger) {
	tick := time.NewTicker(registryEvery)
	defer tick.Stop()
	for warned := false; ; {
		s, err := said.State(ctx)
		switch id, ok := s.Signs(key.Public()); {
		case err != nil: // whoever asks for a permit is told
		case ok && warned:
			logger.InfoContext(ctx, "the admins let this guardian's key sign permits now", "guardian", id)
			return
		case ok:
			return
		case !warned:
			warned = true
			logger.WarnContext(ctx, "no effect is permitted: no statement of the admins lets this guardian's key sign permits",
				"key", key.ID(), "public", key.Public(), "state", "guardian.key, with chimera trust draft")
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// vouched refuses a policy that the admins have not activated, and what callable refuses.
func (h *Host) vouched(ctx context.Context, said *trust.Reader, operations *catalog.Catalog) error {
	o := &h.options
	s, err := said.State(ctx)
	if err != nil {
		return err
	}
	switch {
	case s.Bundle == "":
		return fmt.Errorf("the admins have activated no policy bundle (bundle.activate); this worker's is %s", cmp.Or(o.Policy.Digest(), "none (policy)"))
	case s.Bundle != o.Policy.Digest():
		return fmt.Errorf("the admins have activated the policy bundle %s, and this worker's is %s", s.Bundle, cmp.Or(o.Policy.Digest(), "none (policy)"))
	}
	return h.callable(ctx, s, operations)
}

// callable refuses, in the role effects, a provider of which nobody has said that this role alone has
// what can commit. It logs the operations that are not called, and those of a provider that is not
// configured in one line.
func (h *Host) callable(ctx context.Context, s trust.State, operations *catalog.Catalog) error {
	o := &h.options
	type absent struct{ section, provider string }
	missing := map[absent]int{}
	for i := range operations.Templates {
		t := &operations.Templates[i]
		if !t.Stated() {
			continue
		}
		if !t.InProcess {
			err := o.shared(t.Name(), t.ProviderType, t.Provider, t.Effect)
			blocked := s.Tools[t.ToolID()].Status == string(plan.Block)
			switch {
			case err == nil:
			case o.provides(t.ProviderType, t.Provider):
				if !blocked {
					return err
				}
			case blocked:
				continue // it is retired
			default:
				missing[absent{section(t.ProviderType), t.Provider}]++
				continue
			}
		}
		if err := stated(t, s, true); err != nil {
			o.Logger.WarnContext(ctx, "an operation is not called", "operation", t.Name(), "error", err)
		}
	}
	for _, of := range slices.SortedFunc(maps.Keys(missing), func(a, b absent) int {
		return cmp.Or(cmp.Compare(a.section, b.section), cmp.Compare(a.provider, b.provider))
	}) {
		o.Logger.WarnContext(ctx, "no operation of a provider is called that commits: the configuration does not have it",
			"provider", of.section+"."+of.provider, "operations", missing[of])
	}
	return nil
}
