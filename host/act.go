package host

import (
	"context"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"

	"chimera.ai/engine/activities"
	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/trust"
)

// act makes the roles that decide on effects and that call them. Each has an own view of
// what runs may do.
func (h *Host) act(ctx context.Context, blobs blob.Store, plans *payload.Plans, values *payload.Values, caller activities.Caller) error {
	o := &h.options
	switch {
	case o.Trust == nil:
		return errors.New("the roles guardian and effects need a root of trust (trust.bootstrap)")
	case o.Trust.Audience != trust.Dev:
		return errors.New("not supported yet: effects in production")
	}
	stated, _, err := authority(ctx, o.Trust, h.store)
	if err != nil {
		return err
	}
	registry, catalog, err := Catalog(o.Catalog, o.Skills)
	if err != nil {
		return err
	}
	own := workbench(catalog, o.Policy)
	bench := func() activities.Workbench { return own }
	if o.Reread != nil {
		bench = (&reader{files: *o.Reread, skills: o.Skills}).workbench
	}
	acting := func() *activities.Acting {
		return &activities.Acting{Plans: plans, Values: values, Ledger: h.store.Ledger, Authority: stated, Namespace: o.Client.Namespace, Bench: bench}
	}
	if o.has(RoleGuardian) {
		if o.GuardianKey == nil {
			return errors.New("the role guardian needs a key that signs permits")
		}
		if _, err := own.Judge(); err != nil && o.Reread == nil {
			return err
		}
		h.sweeper = &sweeper{store: h.store.Ledger, every: o.SweepEvery, logger: o.Logger}
		g := &activities.Guardian{Acting: acting(), Store: h.store.Ledger, Key: o.GuardianKey}
		h.worker(contract.QueueGuardian, worker.Options{DisableWorkflowWorker: true}).
			RegisterActivityWithOptions(g.Decide, activity.RegisterOptions{Name: contract.ActivityDecide})
	}
	if o.has(RoleEffects) {
		f := &activities.Effects{
			Acting: acting(), Store: h.store.Ledger, Caller: all{skills: cleaned{goSkills{registry}, o.Secrets}, tools: caller}, Outputs: payload.NewOutputs(blobs, o.Sealing, o.Client.Namespace),
		}
		dynamic(h.worker(contract.QueueEffects, worker.Options{DisableWorkflowWorker: true}), f.Node)
	}
	return nil
}
