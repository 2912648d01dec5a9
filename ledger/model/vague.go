package model

import (
	"slices"
	"strings"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/task"
)

// stands returns the kind of the last entry that changed the state of a thing, or
// "". Vague things have one too, since entries keep their kinds.
func (s *State) stands(e *ledger.Entry, thing string) ledger.Kind {
	if s.Vague[thing] {
		return s.course[thing]
	}
	what, _, _ := strings.Cut(thing, ":")
	about := About(e)
	switch what {
	case "run":
		if r := s.Runs[e.Chain]; r == nil {
			return ""
		} else if r.State != ledger.RunRunning {
			return ledger.RunClosed
		}
		return ledger.RunOpened
	case "task":
		switch s.Tasks[about].(type) {
		case task.Draft:
			if s.Closed[about] {
				return ledger.TaskClosed
			}
			return ledger.TaskDrafted
		case task.Signed:
			return ledger.TaskSigned
		case task.Executed:
			return ledger.TaskExecuted
		}
	case "hold":
		h, ok := s.Holds[about]
		switch {
		case !ok:
			return ""
		case h.Status == ledger.TxPosted:
			return ledger.HoldPosted
		case h.Status == ledger.TxVoided:
			return ledger.HoldVoided
		case h.Status == ledger.TxExpired:
			return ledger.HoldExpired
		case h.Running:
			return ledger.HoldRunning
		}
		return ledger.HoldOpened
	case "check":
		return "" // each is a thing of its own
	case "decision":
		if _, ok := s.Decisions[about]; ok {
			return ledger.DecisionMade
		}
	case "barrier":
		b, ok := s.Barriers[about]
		switch {
		case !ok:
			return ""
		case b.State.Closed():
			return ledger.BarrierClosed
		}
		return ledger.BarrierOpened
	case "approval":
		if a, ok := s.Approvals[about]; ok && a.Accepted {
			return ledger.ApprovalAccepted
		} else if ok {
			return ledger.ApprovalRefused
		}
	case "invocation":
		return reached[s.Invocations[about].State]
	case "hypothesis":
		h, ok := s.Hypotheses[about]
		switch {
		case !ok:
			return ""
		case h.State == ledger.HypothesisOpen:
			return ledger.HypothesisStated
		}
		return ledger.HypothesisObserved
	}
	return ""
}

// reached maps states of an invocation to the kinds that lead to them.
var reached = map[ledger.InvocationState]ledger.Kind{
	ledger.Permitted: ledger.InvocationPermitted, ledger.Calling: ledger.InvocationCalling, ledger.Released: ledger.InvocationReleased,
	ledger.Settled: ledger.InvocationSettled, ledger.Unknown: ledger.InvocationUnknown,
}

// asking are the kinds after which people are asked at a barrier.
var asking = []ledger.Kind{ledger.BarrierOpened, ledger.BarrierReminded, ledger.BarrierEscalated}

// after maps kinds to the kinds that an entry of theirs may follow, "" for none. Other kinds
// may appear anywhere.
var after = map[ledger.Kind][]ledger.Kind{
	ledger.RunOpened: {""}, ledger.RunClosed: {ledger.RunOpened, ledger.RunClosed},
	ledger.RunPaused: {ledger.RunOpened}, ledger.RunResumed: {ledger.RunOpened},
	ledger.NodeSucceeded: {ledger.RunOpened}, ledger.NodeFailed: {ledger.RunOpened}, ledger.NodeSkipped: {ledger.RunOpened},
	ledger.CheckMade:   {""},
	ledger.TaskDrafted: {""}, ledger.TaskSigned: {ledger.TaskDrafted}, ledger.TaskExecuted: {ledger.TaskSigned}, ledger.TaskClosed: {ledger.TaskDrafted},
	ledger.BarrierOpened: {""}, ledger.BarrierReminded: asking, ledger.BarrierEscalated: asking, ledger.BarrierClosed: asking,
	ledger.HoldOpened: {""}, ledger.HoldRunning: {ledger.HoldOpened, ledger.HoldRunning},
	ledger.HoldPosted: {ledger.HoldOpened, ledger.HoldRunning}, ledger.HoldVoided: {ledger.HoldOpened, ledger.HoldRunning}, ledger.HoldExpired: {ledger.HoldOpened},
	ledger.DecisionMade: {""}, ledger.ApprovalAccepted: {""}, ledger.ApprovalRefused: {""},
	// What may have happened may be permitted and called again, and stays what it is until
	// then.
	ledger.InvocationPermitted: {"", ledger.InvocationPermitted, ledger.InvocationReleased, ledger.InvocationCalling, ledger.InvocationUnknown},
	ledger.InvocationCalling:   {ledger.InvocationPermitted, ledger.InvocationCalling, ledger.InvocationUnknown},
	ledger.InvocationReleased:  {ledger.InvocationCalling, ledger.InvocationUnknown}, ledger.InvocationSettled: {ledger.InvocationCalling, ledger.InvocationUnknown},
	ledger.InvocationUnknown: {ledger.InvocationCalling},
	ledger.HypothesisStated:  {""}, ledger.HypothesisObserved: {ledger.HypothesisStated, ledger.HypothesisObserved},
}

// blind applies an entry about something vague, or one whose missing body makes it vague.
// Only the kind of the entry is checked.
func (s *State) blind(e *ledger.Entry, thing string, gone bool) error {
	was := s.stands(e, thing)
	if may, ok := after[e.Kind]; ok && !slices.Contains(may, was) {
		if was == "" {
			return impossible("nothing came before it")
		}
		return impossible("it follows %s", was)
	}
	if gone {
		s.forget(e, thing)
	}
	stays := false
	switch e.Kind {
	case ledger.NodeSucceeded, ledger.NodeFailed, ledger.NodeSkipped, ledger.RunPaused, ledger.RunResumed: // the run
		stays = true
	case ledger.InvocationPermitted:
		stays = was == ledger.InvocationCalling || was == ledger.InvocationUnknown
	default:
	}
	switch {
	case stays && s.course[thing] == "":
		s.course[thing] = was
	case !stays:
		if _, ok := after[e.Kind]; ok {
			s.course[thing] = e.Kind
		}
	}
	return nil
}

// forget makes the subject of an entry without its body vague.
func (s *State) forget(e *ledger.Entry, thing string) {
	about := About(e)
	what, _, _ := strings.Cut(thing, ":")
	switch what {
	case "run":
		delete(s.Runs, e.Chain)
	case "check":
		s.Vague["checks:"+workflow(e.Chain)] = true
	case "task":
		delete(s.Tasks, about)
		delete(s.Closed, about)
	case "hold":
		s.forgetHold(e, about)
	case "decision":
		delete(s.Decisions, about)
		delete(s.decided, about)
	case "barrier":
		delete(s.Barriers, about)
	case "approval":
		delete(s.Approvals, about)
		delete(s.from, about)
	case "approvals":
		// Any approval of the workflow may be used up; later ones are not.
		w := workflow(e.Chain)
		for _, id := range s.unused[w] {
			s.Vague["used:"+id] = true
		}
		delete(s.unused, w)
		return
	case "invocation":
		delete(s.Invocations, about)
	case "hypothesis":
		delete(s.Hypotheses, about)
	}
	s.Vague[thing] = true
}

// forgetHold makes what is used of the budgets of a hold vague, since its amount may be
// in the sums. The entry that opens a hold tells whose it is, and when; where its body
// is gone, later entries of the hold add nothing.
func (s *State) forgetHold(e *ledger.Entry, id string) {
	c := ledger.Currency(strings.TrimPrefix(e.Chain, ledger.BudgetChain("")))
	charges := s.Holds[id].Charges
	if e.Kind == ledger.HoldOpened {
		// A malformed line is reported where it should have become an entry.
		charges, _ = s.line(e.Agent, c, e.At)
	}
	for _, at := range charges {
		s.Vague[UseKey{BudgetKey{at.Agent, c}, at.Period}.Thing()] = true
	}
	delete(s.Holds, id)
}
