package audit

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"chimera.ai/engine/ledger"
)

// undoable is an effect that happened, or may have, and of which its plan says how it is
// undone.
type undoable struct {
	claim
	chain string
	of    *ledger.Compensation
}

// acted remembers an effect that has ended, for the end of its run. What undoes an effect
// counts only if it ends after that.
func (v *verifier) acted(f fact, at claim) {
	i, ok := v.model.Invocations[at.what]
	if !ok || !i.State.Undoable() {
		return
	}
	if was, undoes := v.undone[i.ID]; undoes && i.State == ledger.Settled && i.OutputDigest != "" {
		was.done = true
		v.undone[i.ID] = was
		if e := v.model.Invocations[was.effect]; e.State == ledger.Settled && e.OutputDigest != "" {
			if v.undoneIn[was.of] == nil {
				v.undoneIn[was.of] = map[string]string{}
			}
			v.undoneIn[was.of][was.node] = strings.Clone(f.e.Chain)
		}
	}
	of := v.model.Decisions[i.DecisionID].Compensation
	if of == nil || v.undoable[i.ID] {
		return
	}
	v.undoable[i.ID] = true
	v.undoables = append(v.undoables, undoable{at, strings.Clone(f.e.Chain), of})
	for _, id := range slices.Concat(of.By, of.WithOutput) {
		v.undone[id] = undoing{effect: i.ID, node: of.Node, of: v.continued(f.e.Chain)}
	}
}

// undoing is what undoes an effect of a node.
type undoing struct {
	effect, node string
	of           originOf
	done         bool
}

// continued names the runs of which that of a chain is one.
func (v *verifier) continued(chain string) originOf {
	if r := v.model.Runs[chain]; r != nil {
		return originOf{r.Workflow, r.Origin}
	}
	return originOf{}
}

// failed remembers a node whose effect another run has undone, and that has failed or was skipped
// in this one.
func (v *verifier) failed(f fact) {
	if _, ok := v.undoneIn[v.continued(f.e.Chain)][f.e.Node]; ok {
		v.without[[2]string{f.e.Chain, f.e.Node}] = true
	}
}

// succeeded warns of a run that has succeeded, although another has undone its effect before: it
// was reset to after the effect. One that undoes an effect itself goes on without it.
func (v *verifier) succeeded(f fact) {
	r := v.model.Runs[f.e.Chain]
	if r == nil || r.State != ledger.RunSucceeded {
		return
	}
	undone := v.undoneIn[originOf{r.Workflow, r.Origin}]
	for _, node := range slices.Sorted(maps.Keys(undone)) {
		if undone[node] != f.e.Chain && !v.without[[2]string{f.e.Chain, node}] {
			v.warn(BadStory, f.index, "the run %s has succeeded, and the effect of its node %s was undone before: it was reset to after that", r.Workflow, node)
		}
	}
}

// ending is what the ends of the runs of one origin say.
type ending struct{ compensated, left map[string]bool }

// originOf names the runs that go on with each other.
type originOf struct{ workflow, origin string }

// endings reads how the runs have ended that failed or were cancelled. unknown are the
// workflows of which not all runs are known.
func (v *verifier) endings() (all map[originOf]ending, unknown map[string]bool) {
	all, unknown = map[originOf]ending{}, map[string]bool{}
	for thing := range v.model.Vague {
		if chain, ok := strings.CutPrefix(thing, "run:"); ok {
			workflow, _, _ := ledger.RunOf(chain)
			unknown[workflow] = true
		}
	}
	for _, r := range v.model.Runs {
		if r.State != ledger.RunFailed && r.State != ledger.RunCancelled {
			continue
		}
		var failure struct {
			Compensated    []string `json:"compensated"`
			NotCompensated []string `json:"not_compensated"`
		}
		if len(r.Failure) > 0 && json.Unmarshal(r.Failure, &failure) != nil {
			unknown[r.Workflow] = true
			continue
		}
		at := originOf{r.Workflow, r.Origin}
		e, ok := all[at]
		if !ok {
			e = ending{map[string]bool{}, map[string]bool{}}
			all[at] = e
		}
		for _, node := range failure.Compensated {
			e.compensated[node] = true
		}
		for _, node := range failure.NotCompensated {
			e.left[node] = true
		}
	}
	return all, unknown
}

// compensations checks that the runs which have failed, or were cancelled, have undone their
// effects, or say that they have not.
func (v *verifier) compensations() {
	ends, unknown := v.endings()
	for _, x := range v.undoables {
		i, known := v.model.Invocations[x.what]
		r := v.model.Runs[x.chain]
		if !known || !i.State.Undoable() || r == nil || unknown[r.Workflow] {
			continue
		}
		end := ends[originOf{r.Workflow, r.Origin}]
		switch node := x.of.Node; {
		case end.left[node]:
		case end.compensated[node]:
			if why := v.compensated(x.of, i.OutputDigest != ""); why != "" {
				v.problem(BadStory, x.index, "the run %s says that the effect of %s was undone, and %s", r.Workflow, node, why)
			}
		case r.State == ledger.RunFailed || r.State == ledger.RunCancelled:
			v.problem(BadStory, x.index, "the run %s has ended as %s, and says neither that the effect of %s was undone nor that it was not", r.Workflow, r.State, node)
		case r.State == ledger.RunTerminated || r.State == ledger.RunTimedOut:
			if v.Standing++; len(v.NotUndone) < maxOpenRuns {
				v.NotUndone = append(v.NotUndone, NotUndone{Workflow: r.Workflow, Chain: x.chain, Node: node, State: r.State})
			}
		}
	}
}

// compensated says why nothing bears out that an effect was undone, or "". What is no longer
// known may have undone it.
func (v *verifier) compensated(of *ledger.Compensation, output bool) string {
	by := of.By
	if output {
		by = slices.Concat(by, of.WithOutput)
	}
	if len(by) == 0 || slices.ContainsFunc(by, func(id string) bool { return v.undone[id].done || v.model.Vague["invocation:"+id] }) {
		return ""
	}
	return "nothing that undoes it has been done"
}
