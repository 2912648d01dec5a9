package audit

import (
	"slices"
	"strconv"
	"strings"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
)

// rests checks what a permitted effect rests on: each of its prechecks has succeeded last,
// with the output that the decision names; and if people have approved the effect, it was
// called once more for their barrier. It is called when the log has told what came before the
// permit. A call that is repeated rests on what it rested on before.
func (v *verifier) rests(index int64, i ledger.Invocation) {
	a := v.checked[i.DecisionID]
	delete(v.checked, i.DecisionID)
	if a == nil || i.State != ledger.Permitted {
		return
	}
	barrier := ""
	for _, id := range v.consumed[i.DecisionID].Approvals {
		b := v.model.Approvals[id].Barrier
		// At another one people have approved what it undoes.
		if slices.ContainsFunc(v.model.Barriers[b].Actions, func(x ledger.Awaited) bool { return x.Invocation == i.ID }) {
			barrier = b
		}
	}
	visit, _ := strconv.Atoi(a.Run.Path[strings.LastIndexByte(a.Run.Path, '/')+1:]) // 0 is no visit
	for _, c := range a.Prechecks {
		k := model.CheckKey{Workflow: a.Run.Workflow, Origin: a.Run.Origin, Node: c.Node, Visit: visit}
		last, ok := v.model.Checks[k]
		switch {
		case v.model.Vague["checks:"+k.Workflow]:
		case !ok || last.State != ledger.CheckSucceeded || last.OutputDigest != c.Output:
			v.problem(BadStory, index, "%s was permitted, and its precheck %s has not returned last what the decision names", i.ID, c.Node)
		case barrier != "" && !v.model.Rechecked(k, barrier):
			v.problem(BadStory, index, "%s was permitted, and its precheck %s was not called again after people had approved it", i.ID, c.Node)
		}
	}
}
