package model

import (
	"strconv"

	"chimera.ai/engine/ledger"
)

// order applies what a run was told. A run that continues another, as after a reset, may
// have been paused in that.
func (s *State) order(e *ledger.Entry, data Facts) error {
	r := s.Runs[e.Chain]
	if r == nil {
		return impossible("the run was not opened")
	}
	o, err := read[ledger.Order](data)
	if err != nil {
		return err
	}
	if err := named(e, strconv.Itoa(o.N)); err != nil {
		return err
	}
	said, err := o.Said()
	if err != nil {
		return impossible("%s", err)
	}
	pause := e.Kind == ledger.RunPaused
	switch {
	case o.N < 1:
		return impossible("it has no number")
	case o.Signer != "" && o.Signed == nil:
		return impossible("it has a signer, and nothing that was signed")
	case r.State != ledger.RunRunning:
		return impossible("the run has ended")
	case said != "" && r.said[said]:
		return impossible("what was signed has counted before")
	case pause && r.Paused:
		return impossible("the run is paused already")
	case !pause && !r.Paused && r.Origin == r.Root:
		return impossible("the run is not paused")
	}
	if err := told(e, r.Agent, r.PlanDigest, "", ""); err != nil {
		return err
	}
	if said != "" {
		if r.said == nil {
			r.said = map[string]bool{}
		}
		r.said[said] = true
	}
	r.Paused = pause
	return nil
}
