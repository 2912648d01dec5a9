package payload_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
)

// TestWhatIsStoredIsReadWhereItBelongs: a reference that is copied into another
// workflow brings nothing there, with keys or without.
func TestWhatIsStoredIsReadWhereItBelongs(t *testing.T) {
	otherActivity, otherWorkflow, otherSpace := inActivity, inWorkflow, inWorkflow
	otherActivity.WorkflowID, otherWorkflow.WorkflowID, otherSpace.Namespace = "run-2", "run-2", "other"
	target := converter.StorageDriverWorkflowInfo{Namespace: "ns", WorkflowID: "run-1", RunID: "r"}
	for name, s := range map[string]payload.Sealing{"plain": {}, "compressed": {Compress: true}, "sealed": sealed(t, "a")} {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			driver := payload.NewStorage(store, s).Drivers[0]
			moved := func(p *commonpb.Payload, target converter.StorageDriverTargetInfo) *commonpb.Payload {
				claims, err := driver.Store(converter.StorageDriverStoreContext{Context: t.Context(), Target: target}, []*commonpb.Payload{p})
				require.NoError(t, err)
				out, err := driver.Retrieve(converter.StorageDriverRetrieveContext{Context: t.Context()}, claims)
				require.NoError(t, err)
				return out[0]
			}
			value := contract.Outcome{Values: []contract.Value{contract.Value(`"` + strings.Repeat("x", 20_000) + `"`)}}
			p, err := at(t, s, inActivity).ToPayload(value)
			require.NoError(t, err)
			p = moved(p, target)
			var back contract.Outcome
			require.NoError(t, at(t, s, inActivity).FromPayload(p, &back))
			require.Equal(t, value, back)
			for _, ctx := range []converter.SerializationContext{otherActivity, otherWorkflow, otherSpace, converter.NexusSerializationContext{}} {
				require.ErrorIs(t, at(t, s, ctx).FromPayload(p, &back), payload.ErrRefused, "%v", ctx)
			}

			// The start's argument, which is plain for its writers' sake.
			raw := json.RawMessage(`{"input":"` + strings.Repeat("x", 20_000) + `"}`)
			p, err = at(t, s, inWorkflow).ToPayload(raw)
			require.NoError(t, err)
			p = moved(p, target)
			var start json.RawMessage
			require.NoError(t, at(t, s, inWorkflow).FromPayload(p, &start))
			require.JSONEq(t, string(raw), string(start))
			require.ErrorIs(t, at(t, s, otherWorkflow).FromPayload(p, &start), payload.ErrRefused)

			// Read, stored again for another workflow, it is that one's.
			if s.Keys == nil {
				p = moved(p, converter.StorageDriverWorkflowInfo{Namespace: "ns", WorkflowID: "run-2"})
				require.ErrorIs(t, at(t, s, inWorkflow).FromPayload(p, &start), payload.ErrRefused)
				require.NoError(t, at(t, s, otherWorkflow).FromPayload(p, &start))
			}

			// Stored for nobody, no workflow reads it; a client may.
			p, err = at(t, payload.Sealing{}, nil).ToPayload(raw)
			require.NoError(t, err)
			p = moved(p, nil)
			require.ErrorIs(t, at(t, s, inWorkflow).FromPayload(p, &start), payload.ErrRefused)
			require.NoError(t, at(t, s, nil).FromPayload(p, &start))
		})
	}
}
