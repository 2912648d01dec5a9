package payload_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
)

// ofRoles gives the protection of a process that has keys of roles only.
func ofRoles(t testing.TB, roles ...string) payload.Sealing {
	t.Helper()
	var texts []string
	for _, of := range roles {
		text, err := payload.RoleKey(key("a"), of)
		require.NoError(t, err)
		texts = append(texts, text)
	}
	r, err := payload.ParseKeys(texts)
	require.NoError(t, err)
	require.Equal(t, "a", r.KeyID())
	require.False(t, r.Whole())
	return payload.Sealing{Keys: r, Compress: true}
}

// TestARoleAnswersForItself: what a role seals, the engine opens where that role was
// asked, and nowhere else; and no role opens or seals what is another's.
func TestARoleAnswersForItself(t *testing.T) {
	engine := sealed(t, "a")
	require.True(t, engine.Keys.Whole())
	queues := map[string]string{"": contract.QueueEngine, "tools": contract.QueueTools, "guardian": contract.QueueGuardian, "effects": contract.QueueEffects}
	asked := func(queue string) converter.SerializationContext {
		ctx := inActivity
		ctx.TaskQueue = queue
		return ctx
	}
	said := contract.Outcome{Output: "sha256:1", Request: "1"}
	for by := range queues {
		if by == "" {
			continue
		}
		worker := ofRoles(t, by)
		require.True(t, worker.Keys.Seals(by))
		for of, queue := range queues {
			answer, err := at(t, worker, asked(queue)).ToPayload(said)
			require.Equal(t, by == of, err == nil, "%s answers for %q: %v", by, of, err)
			if err == nil {
				var back contract.Outcome
				require.NoError(t, at(t, engine, asked(queue)).FromPayload(answer, &back))
				require.Equal(t, said, back)
				for other, elsewhere := range queues {
					if other != of {
						require.ErrorIs(t, at(t, engine, asked(elsewhere)).FromPayload(answer, &back), payload.ErrRefused, "%s is taken for %q", by, other)
					}
				}
				answer.Metadata["chimera-role"] = []byte("")
				require.Error(t, at(t, engine, asked(queue)).FromPayload(answer, &back), "the key decides, and not what it is called")
			}
			request, err := at(t, engine, asked(queue)).ToPayload(contract.Call{Plan: "p"})
			require.NoError(t, err)
			var call contract.Call
			err = at(t, worker, asked(queue)).FromPayload(request, &call)
			require.Equal(t, by == of, err == nil, "%s reads what %q is asked: %v", by, of, err)
		}
		_, err := at(t, worker, inWorkflow).ToPayload(contract.Carried{})
		require.ErrorContains(t, err, "this needs the engine's")
		// A failure that is written before it is known of which activity it is.
		f := payload.NewFailureConverter(at(t, worker, nil)).ErrorToFailure(contract.Errorf(contract.StoreUnavailable, "away"))
		read := converter.WithFailureConverterSerializationContext(payload.NewFailureConverter(at(t, engine, nil)), asked(queues[by])).FailureToError(f)
		var failed *temporal.ApplicationError
		require.ErrorAs(t, read, &failed)
		require.Equal(t, string(contract.StoreUnavailable), failed.Type())
	}
}

// TestWhatClientsStoreCountsAsTheirs: the key of large values, which every role and clients
// have, seals what clients may write, and no state of a run.
func TestWhatClientsStoreCountsAsTheirs(t *testing.T) {
	engine, client := sealed(t, "a"), ofRoles(t, "values")
	store, err := blob.Open(t.TempDir())
	require.NoError(t, err)
	d := payload.NewStorage(store, client).Drivers[0]
	keep := func(value any) converter.StorageDriverClaim {
		p, err := at(t, payload.Sealing{}, inWorkflow).ToPayload(value)
		require.NoError(t, err)
		claims, err := d.Store(converter.StorageDriverStoreContext{Target: converter.StorageDriverWorkflowInfo{Namespace: "ns", WorkflowID: "run-1"}}, []*commonpb.Payload{p})
		require.NoError(t, err)
		return claims[0]
	}
	claim := keep(contract.Start{Plan: "p@1"})
	read, err := payload.NewStorage(store, engine).Drivers[0].Retrieve(converter.StorageDriverRetrieveContext{}, []converter.StorageDriverClaim{claim})
	require.NoError(t, err)
	var start contract.Start
	require.NoError(t, within(t, engine).FromPayload(read[0], &start))
	require.Equal(t, "p@1", start.Plan)
	var carried contract.Carried
	require.ErrorIs(t, within(t, engine).FromPayload(read[0], &carried), payload.ErrRefused)

	// Every role reads large values of a run, whoever stored them.
	values := []contract.Value{contract.Value(`"` + strings.Repeat("v", payload.Threshold) + `"`)}
	require.NoError(t, payload.NewValues(store, ofRoles(t, "tools"), "ns").Keep(t.Context(), "run-1", values, false))
	for _, s := range []payload.Sealing{engine, ofRoles(t, "effects"), client} {
		value := values[0]
		require.NoError(t, payload.NewValues(store, s, "ns").Give(t.Context(), "run-1", &value))
		require.Len(t, value, payload.Threshold+2)
	}
	// What an effect answered was kept by the role of effects, and what a run came to by the
	// engine.
	kept, err := payload.NewOutputs(store, ofRoles(t, "effects"), "ns", true).Keep(t.Context(), "/invocation/1", []byte(`{"done":true}`))
	require.NoError(t, err)
	_, err = payload.NewOutputs(store, engine, "ns", true).Give(t.Context(), "/invocation/1", kept)
	require.NoError(t, err)
	_, err = payload.NewOutputs(store, engine, "ns", false).Give(t.Context(), "/invocation/1", kept)
	require.ErrorIs(t, err, payload.ErrRefused)
	_, err = payload.NewOutputs(store, ofRoles(t, "tools"), "ns", true).Keep(t.Context(), "/invocation/1", []byte(`{"done":true}`))
	require.ErrorContains(t, err, "not the one of the role effects")
}

func TestRoleKeys(t *testing.T) {
	whole := key("a")
	tools, err := payload.RoleKey(whole, "tools")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(tools, "a/tools:"))
	again, err := payload.RoleKey(whole, "tools")
	require.NoError(t, err)
	require.Equal(t, tools, again)
	both := ofRoles(t, "tools", "guardian").Keys
	require.True(t, both.Seals("tools") && both.Seals("guardian") && !both.Seals("effects") && !both.Seals(""))
	require.True(t, ring(t, "a").Seals("effects"))
	_, err = payload.RoleKey(whole, "engine")
	require.ErrorContains(t, err, "payload keys have the roles tools, guardian, effects, values")
	_, err = payload.RoleKey(tools, "guardian")
	require.ErrorContains(t, err, "no other is derived from it")
	for name, texts := range map[string][]string{
		"no such role":  {"a/engine:" + strings.Repeat("ab", 32)},
		"short":         {"a/tools:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("ab", 16)))},
		"whole as well": {whole, tools},
		"twice":         {tools, tools},
	} {
		_, err := payload.ParseKeys(texts)
		require.Error(t, err, name)
	}
}
