package model

import (
	"strings"

	"chimera.ai/engine/ledger"
)

// CheckKey names a node on which an effect relies, in the runs of one origin.
type CheckKey struct {
	Workflow, Origin, Node string
	Visit                  int
}

// recheck is a check that was made for a barrier.
type recheck struct {
	CheckKey
	barrier string
}

// check applies a call on which an effect relies. The calls of a node are numbered.
func (s *State) check(e *ledger.Entry, data Facts) error {
	c, err := read[ledger.Check](data)
	if err != nil {
		return err
	}
	if err := named(e, c.About()); err != nil {
		return err
	}
	if err := c.Valid(); err != nil {
		return impossible("%s", err)
	}
	if err := digests(c.Snapshots); err != nil {
		return err
	}
	if c.Node != e.Node || c.Visit != e.Visit || ledger.RunChain(c.Workflow, c.Root) != e.Chain {
		return impossible("its data are about something else")
	}
	if r := s.Runs[e.Chain]; r != nil && r.Origin != c.Origin {
		return impossible("the run has another origin")
	}
	if b, ok := s.Barriers[c.Barrier]; c.Barrier != "" && !s.Vague["barrier:"+c.Barrier] &&
		(!ok || b.State != ledger.BarrierApproved || b.Workflow != c.Workflow) {
		return impossible("nobody has approved what waits at the barrier %s", c.Barrier)
	}
	k := CheckKey{strings.Clone(c.Workflow), strings.Clone(c.Origin), strings.Clone(c.Node), c.Visit}
	if last := s.Checks[k].Number; c.Number != last+1 && (c.Number <= last || !s.Vague["checks:"+c.Workflow]) {
		return impossible("check %d of %s follows check %d", c.Number, c.Node, last)
	}
	s.Checks[k] = c
	if c.Barrier != "" {
		s.rechecked[recheck{k, strings.Clone(c.Barrier)}] = true
	}
	return nil
}

// Rechecked reports whether a node was checked for a barrier, or that is not known any more.
func (s *State) Rechecked(k CheckKey, barrier string) bool {
	return s.rechecked[recheck{k, barrier}] || s.Vague["checks:"+k.Workflow]
}
