package model_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/ledger/model"
)

// TestTerms: a term that its closed set does not have is refused in every kind of entry, also
// where what the entry is about is vague.
func TestTerms(t *testing.T) {
	closed := []string{"state", "kind", "status", "decision", "every", "class", "priority"}
	tried := map[string]bool{}
	for i, f := range life() {
		raw, err := json.Marshal(f.data)
		require.NoError(t, err)
		var data map[string]any
		require.NoError(t, json.Unmarshal(raw, &data))
		for _, name := range closed {
			// In what people and permits consume, the field names a decision.
			if _, ok := data[name].(string); !ok || f.kind == ledger.ApprovalConsumed {
				continue
			}
			tried[fmt.Sprintf("%s %s", f.kind, name)] = true
			for _, term := range []string{"exploded", "", "SUCCEEDED", " succeeded"} {
				was := data[name]
				data[name] = term
				bad := f
				bad.data = data
				plain, vague := start(), start()
				for _, before := range life()[:i] {
					require.NoError(t, plain.say(before))
					before.gone = slices.Contains([]ledger.Kind{ledger.RunOpened, ledger.BarrierOpened, ledger.InvocationPermitted}, before.kind)
					require.NoError(t, vague.say(before), before.key)
				}
				require.ErrorIs(t, plain.say(bad), model.ErrImpossible, "%s: %s %q", f.key, name, term)
				require.ErrorIs(t, vague.say(bad), model.ErrImpossible, "%s, vague: %s %q", f.key, name, term)
				data[name] = was
			}
		}
	}
	for _, kind := range []ledger.Kind{
		ledger.RunOpened, ledger.RunClosed, ledger.NodeFailed, ledger.RunPaused, ledger.CheckMade, ledger.TaskDrafted, ledger.BarrierOpened, ledger.BarrierClosed,
		ledger.DecisionMade, ledger.HypothesisStated, ledger.ToolRegistered, ledger.ToolTrusted, ledger.BudgetSet, ledger.HoldOpened, ledger.InvocationPermitted, ledger.BodyPruned,
	} {
		require.True(t, slices.ContainsFunc(closed, func(name string) bool { return tried[fmt.Sprintf("%s %s", kind, name)] }), kind)
	}
}
