package model

import (
	"encoding/json"
	"fmt"

	"chimera.ai/engine/ledger"
)

// hypothesis applies what was predicted, or what of it was observed: each KPI once.
func (s *State) hypothesis(e *ledger.Entry, data Facts) error {
	if e.Kind == ledger.HypothesisStated {
		v, err := read[ledger.Hypothesis](data)
		if err != nil {
			return err
		}
		if err := named(e, v.HypothesisID); err != nil {
			return err
		}
		if e.Chain != ledger.HypothesesChain(v.AgentID) {
			return impossible("hypothesis %s is of another agent", v.HypothesisID)
		}
		return add(s.Hypotheses, v.HypothesisID, v)
	}
	o, err := read[ledger.ObservedData](data)
	if err != nil {
		return err
	}
	if o.HypothesisID != About(e) {
		return impossible("its key is not that of %s", o.HypothesisID)
	}
	v, ok := s.Hypotheses[o.HypothesisID]
	if !ok || e.Chain != ledger.HypothesesChain(v.AgentID) {
		return impossible("hypothesis %s was not stated in %s", o.HypothesisID, e.Chain)
	}
	next, fresh, count, err := v.Observe(o.Observed)
	switch {
	case err != nil:
		return impossible("%s", err)
	case keys(fresh) != keys(o.Observed):
		return impossible("of hypothesis %s this was observed before", o.HypothesisID)
	}
	if err := named(e, fmt.Sprintf("%s/%d", o.HypothesisID, count)); err != nil {
		return err
	}
	s.Hypotheses[o.HypothesisID] = next
	return nil
}

// keys counts the keys of a JSON object.
func keys(object json.RawMessage) int {
	var all map[string]json.RawMessage
	if json.Unmarshal(object, &all) != nil {
		return 0
	}
	return len(all)
}
