package activities

import (
	"context"
	"encoding/json"

	"chimera.ai/engine/ledger"
)

// observed is what was measured of a call that has succeeded, by the model by which its decision was
// made; or nil, if there is none, or nothing can be measured: the call has happened all the same. What
// is measured comes from the arguments and the output, and stands in the log, in the body of an entry,
// which is sealed and erased as what was predicted is.
//
// The decision is read only where the policy of now measures something.
func (f *Effects) observed(store context.Context, e *effect, decision string, output json.RawMessage) (o *ledger.Observation) {
	judge, err := f.Bench().Judge()
	operation := e.node.spec.Activity()
	if err != nil || !judge.Observes(operation) {
		return nil
	}
	within, cancel := context.WithTimeout(store, observeTime)
	defer cancel()
	d, err := f.Ledger.Decision(within, decision)
	if err != nil {
		return nil
	}
	_ = recovered("what is measured", func() error {
		o = judge.Observe(operation, d.Record, e.input, output)
		return nil
	})
	return o
}

// observeTime is how long the decision of a call is waited for: less than [settleTime].
const observeTime = settleTime / 4
