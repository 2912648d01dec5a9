package host_test

import (
	"encoding/json"
	"testing"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/lengthy"
	"chimera.ai/engine/internal/stage"
)

// TestGraphsOnARealServer runs those that package workflows runs without one.
func TestGraphsOnARealServer(t *testing.T) {
	lengthy.Skip(t)
	stage.Parallel(t)
	h := stage.Host(t, host.Options{})
	for _, g := range stage.Graphs() {
		t.Run(g.Plan+" "+g.Input, func(t *testing.T) {
			run := stage.Start(t, h.Client(), g.Source(t), g.Input)
			var result json.RawMessage
			var failure *contract.Failure
			if err := stage.Await(t, h.Client(), run, &result); err != nil {
				f := stage.FailureOf(t, err)
				failure = &f
			}
			g.Check(t, string(result), failure, stage.State(t, h.Client(), run))
		})
	}
}
