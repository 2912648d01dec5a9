package host

import (
	"encoding/json"

	"chimera.ai/engine/ledger"
)

// Observes implements activities.Judge.
func (j judge) Observes(operation string) bool { return j.gate.Observes(operation) }

// Observe implements activities.Judge.
func (j judge) Observe(operation string, record, args, output json.RawMessage) *ledger.Observation {
	var r struct {
		Simulation struct {
			ID    string `json:"sim_id"`
			Model string `json:"model_digest"`
		} `json:"simulation"`
	}
	if json.Unmarshal(record, &r) != nil || r.Simulation.ID == "" {
		return nil
	}
	observed := j.gate.Observe(operation, r.Simulation.Model, args, output)
	if observed == nil {
		return nil
	}
	return &ledger.Observation{Hypothesis: r.Simulation.ID, Observed: observed}
}
