package payload_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/proto"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
)

// key gives a key of a configuration that is the same each time.
func key(id string) string {
	text := bytes.Repeat([]byte(id), 32)[:31]
	return id + ":" + hex.EncodeToString(append(text, '!'))
}

func ring(t testing.TB, ids ...string) *payload.Keyring {
	t.Helper()
	var texts []string
	for _, id := range ids {
		texts = append(texts, key(id))
	}
	r, err := payload.ParseKeys(texts)
	require.NoError(t, err)
	return r
}

func sealed(t testing.TB, ids ...string) payload.Sealing {
	return payload.Sealing{Keys: ring(t, ids...), Compress: true}
}

var (
	inWorkflow = converter.WorkflowSerializationContext{Namespace: "ns", WorkflowID: "run-1"}
	inActivity = converter.ActivitySerializationContext{Namespace: "ns", WorkflowID: "run-1", WorkflowType: "chimera.Plan",
		ActivityType: "files/read", TaskQueue: "chimera-tools"}
)

// at gives a converter of a process at a place.
func at(t testing.TB, s payload.Sealing, ctx converter.SerializationContext) converter.DataConverter {
	c := payload.NewConverter(payload.NewPlans(nothing{}, 0), s)
	if ctx == nil {
		return c
	}
	return converter.WithDataConverterSerializationContext(c, ctx)
}

// within gives the converter of workflow code.
func within(t testing.TB, s payload.Sealing) converter.DataConverter {
	c, ok := at(t, s, inWorkflow).(workflow.ContextAware)
	require.True(t, ok)
	return c.WithWorkflowContext(workflow.Context(nil))
}

// nothing is an empty store.
type nothing struct{ blob.Store }

const canary = "canary-4711"

func TestWhatIsSealedOpensWhereItBelongs(t *testing.T) {
	s := sealed(t, "a")
	for _, ctx := range []converter.SerializationContext{nil, inWorkflow, inActivity} {
		for _, value := range []any{
			contract.Outcome{Values: []contract.Value{contract.Value(`"` + canary + `"`)}},
			contract.Outcome{Values: []contract.Value{contract.Value(`"` + strings.Repeat(canary, 5000) + `"`)}},
			canary, []byte(canary), &sdkpb.UserMetadata{Summary: &commonpb.Payload{Data: []byte(canary)}},
		} {
			t.Run(fmt.Sprintf("%T %T", ctx, value), func(t *testing.T) {
				p, err := at(t, s, ctx).ToPayload(value)
				require.NoError(t, err)
				wire, err := proto.Marshal(p)
				require.NoError(t, err)
				require.NotContains(t, string(wire), canary)
				require.Equal(t, "binary/chimera-sealed", string(p.Metadata["encoding"]))
				require.Equal(t, "a", string(p.Metadata["chimera-key"]))
				switch value := value.(type) {
				case contract.Outcome:
					var back contract.Outcome
					require.NoError(t, at(t, s, ctx).FromPayload(p, &back))
					require.Equal(t, value, back)
				case string:
					var back string
					require.NoError(t, at(t, s, ctx).FromPayload(p, &back))
					require.Equal(t, value, back)
				}
			})
		}
	}
}

func TestCompressionComesFirst(t *testing.T) {
	value := contract.Outcome{Values: []contract.Value{contract.Value(`"` + strings.Repeat("x", 100_000) + `"`)}}
	small, err := at(t, sealed(t, "a"), inActivity).ToPayload(value)
	require.NoError(t, err)
	require.Less(t, proto.Size(small), 1000)
	whole, err := at(t, payload.Sealing{Keys: ring(t, "a")}, inActivity).ToPayload(value)
	require.NoError(t, err)
	require.Greater(t, proto.Size(whole), 100_000)
	var back contract.Outcome
	require.NoError(t, at(t, sealed(t, "a"), inActivity).FromPayload(whole, &back), "either reads either")
	require.Equal(t, value, back)
}

// TestWhatWasLargeGoesToTheStore: however small it has become, since the
// interpreter counts the size of a reference.
func TestWhatWasLargeGoesToTheStore(t *testing.T) {
	for name, s := range map[string]payload.Sealing{"compressed": sealed(t, "a"), "sealed": {Keys: ring(t, "a")}, "plain": {Compress: true}} {
		storage := payload.NewStorage(open(t), s)
		for _, c := range []struct {
			size   int
			stored bool
		}{{100, false}, {15_000, false}, {20_000, true}, {1_000_000, true}} {
			t.Run(fmt.Sprint(name, c.size), func(t *testing.T) {
				text := strings.Repeat("0123456789abcdefghij", c.size/20+1)[:c.size] // compresses well
				p, err := at(t, s, inActivity).ToPayload(contract.Value(`"` + text + `"`))
				require.NoError(t, err)
				driver, err := storage.DriverSelector.SelectDriver(converter.StorageDriverSelectContext{}, p)
				require.NoError(t, err)
				there := driver != nil && proto.Size(p) >= storage.PayloadSizeThreshold
				if !there {
					require.Less(t, proto.Size(p), payload.Threshold)
				}
				if s.Keys == nil || !s.Compress || proto.Size(p) >= 512 {
					require.Equal(t, c.stored, there)
				}
			})
		}
	}
}

// TestWhatIsMovedDoesNotOpen: a payload opens only where it was made.
func TestWhatIsMovedDoesNotOpen(t *testing.T) {
	s := sealed(t, "a")
	p, err := at(t, s, inActivity).ToPayload(contract.Outcome{Attempts: 3})
	require.NoError(t, err)
	otherRun, otherType, otherSpace := inActivity, inActivity, inActivity
	otherRun.WorkflowID, otherType.ActivityType, otherSpace.Namespace = "run-2", "files/write", "other"
	for _, ctx := range []converter.SerializationContext{nil, inWorkflow, otherRun, otherType, otherSpace,
		converter.NexusSerializationContext{Endpoint: "ns", Service: "run-1", Operation: "files/read"}} {
		var back contract.Outcome
		err := at(t, s, ctx).FromPayload(p, &back)
		require.ErrorIs(t, err, payload.ErrRefused, "%v", ctx)
		require.Zero(t, back)
		var kind *contract.Error
		require.ErrorAs(t, err, &kind)
		require.Equal(t, contract.WorkerLost, kind.Kind, "an answer that is refused is none")

		// Nor does it with the new place written on it.
		moved, err := at(t, s, ctx).ToPayload(contract.Outcome{})
		require.NoError(t, err)
		forged := proto.CloneOf(p)
		forged.Metadata = moved.Metadata
		require.ErrorIs(t, at(t, s, ctx).FromPayload(forged, &back), payload.ErrRefused)
	}
}

// TestCarriedStateIsToldApart: nothing else that a workflow seals, not even what
// a client had it seal, is read as the state of a run.
func TestCarriedStateIsToldApart(t *testing.T) {
	c := at(t, sealed(t, "a"), inWorkflow)
	text, err := c.ToPayload(map[string]any{"root": "x", "nodes": "", "edges": ""})
	require.NoError(t, err)
	var carried *contract.Carried
	require.ErrorIs(t, c.FromPayload(text, &carried), payload.ErrRefused)
	state, err := c.ToPayload(&contract.Carried{Root: "r"})
	require.NoError(t, err)
	require.NoError(t, c.FromPayload(state, &carried))
	require.Equal(t, "r", carried.Root)
	var other any
	require.ErrorIs(t, c.FromPayload(state, &other), payload.ErrRefused)
}

func TestWhatWasChangedDoesNotOpen(t *testing.T) {
	s := sealed(t, "a", "b")
	c := at(t, s, inActivity)
	p, err := c.ToPayload(contract.Outcome{Attempts: 3})
	require.NoError(t, err)
	var back contract.Outcome
	for i := range p.Data {
		changed := proto.CloneOf(p)
		changed.Data[i] ^= 1
		require.ErrorIs(t, c.FromPayload(changed, &back), payload.ErrRefused)
	}
	for n := range p.Data {
		cut := proto.CloneOf(p)
		cut.Data = cut.Data[:n]
		require.ErrorIs(t, c.FromPayload(cut, &back), payload.ErrRefused)
	}
	renamed := proto.CloneOf(p)
	renamed.Metadata["chimera-key"] = []byte("b")
	require.ErrorIs(t, c.FromPayload(renamed, &back), payload.ErrRefused, "another key of the ring")
	bare := proto.CloneOf(p)
	bare.Metadata = map[string][]byte{"encoding": p.Metadata["encoding"]}
	require.Error(t, c.FromPayload(bare, &back))
	require.Zero(t, back)
}

func TestPlainIsRefusedWhereItMustBeSealed(t *testing.T) {
	plain, s := payload.Sealing{}, sealed(t, "a")
	forged, err := at(t, plain, inActivity).ToPayload(contract.Outcome{Attempts: 3})
	require.NoError(t, err)
	var back contract.Outcome
	require.ErrorIs(t, at(t, s, inActivity).FromPayload(forged, &back), payload.ErrRefused)
	require.ErrorIs(t, at(t, s, inActivity).FromPayloads(&commonpb.Payloads{Payloads: []*commonpb.Payload{forged}}, &back), payload.ErrRefused)
	require.ErrorIs(t, at(t, s, inActivity).FromPayloads(nil, &back), payload.ErrRefused, "no answer is no answer")
	require.ErrorIs(t, within(t, s).FromPayload(forged, &back), payload.ErrRefused, "in a workflow")
	require.NoError(t, at(t, s, inWorkflow).FromPayload(forged, &back), "a client reads a result into what it likes")
	var carried *contract.Carried
	require.ErrorIs(t, at(t, s, inWorkflow).FromPayload(forged, &carried), payload.ErrRefused)
	var loaded *plan.Loaded
	require.ErrorIs(t, at(t, s, inWorkflow).FromPayload(forged, &loaded), payload.ErrRefused)
	require.ErrorIs(t, at(t, s, nil).FromPayload(forged, &back), payload.ErrRefused)
	var own workflow.Execution
	require.ErrorIs(t, at(t, s, inWorkflow).FromPayload(forged, &own), payload.ErrRefused, "what Temporal's library writes for itself")

	empty, err := at(t, plain, inWorkflow).ToPayload(nil)
	require.NoError(t, err)
	require.NoError(t, at(t, s, inWorkflow).FromPayload(empty, &carried), "an argument that is not there")
	require.Nil(t, carried)
	require.ErrorIs(t, at(t, s, inActivity).FromPayload(empty, &carried), payload.ErrRefused)

	s.AcceptPlain = true
	require.NoError(t, at(t, s, inActivity).FromPayload(forged, &back), "while the runs from before end")
	require.Equal(t, 3, back.Attempts)
	p, err := at(t, s, inActivity).ToPayload(back)
	require.NoError(t, err)
	require.Equal(t, "binary/chimera-sealed", string(p.Metadata["encoding"]), "what is new is sealed all the same")
}

// TestWhatClientsWithoutKeysReadAndWrite stays plain, at the workflow.
func TestWhatClientsWithoutKeysReadAndWrite(t *testing.T) {
	plain, s := payload.Sealing{}, sealed(t, "a")
	for _, value := range []any{
		contract.Start{Plan: "p@1"}, contract.Result(`{"x":1}`), contract.State{Plan: "p@1"}, contract.Failure{Message: "m"},
		&sdkpb.WorkflowMetadata{}, json.RawMessage(`{"plan":"p@1"}`),
	} {
		t.Run(fmt.Sprintf("%T", value), func(t *testing.T) {
			there, err := at(t, s, inWorkflow).ToPayload(value)
			require.NoError(t, err)
			want, err := at(t, plain, nil).ToPayload(value)
			require.NoError(t, err)
			require.True(t, proto.Equal(want, there), "as it is without keys")
			within, err := at(t, s, inActivity).ToPayload(value)
			require.NoError(t, err)
			require.Equal(t, "binary/chimera-sealed", string(within.Metadata["encoding"]), "an activity seals all")
		})
	}
	p, err := converter.GetDefaultDataConverter().ToPayload(map[string]any{"plan": "p@1"})
	require.NoError(t, err)
	var start json.RawMessage
	require.NoError(t, at(t, s, inWorkflow).FromPayload(p, &start))
	require.JSONEq(t, `{"plan":"p@1"}`, string(start))
}

func TestRotation(t *testing.T) {
	before, both, after := sealed(t, "old"), sealed(t, "new", "old"), sealed(t, "new")
	old, err := at(t, before, inActivity).ToPayload(contract.Outcome{Attempts: 1})
	require.NoError(t, err)
	fresh, err := at(t, both, inActivity).ToPayload(contract.Outcome{Attempts: 2})
	require.NoError(t, err)
	require.Equal(t, "new", string(fresh.Metadata["chimera-key"]), "the first seals")
	var back contract.Outcome
	require.NoError(t, at(t, both, inActivity).FromPayload(old, &back))
	require.Equal(t, 1, back.Attempts)
	require.NoError(t, at(t, both, inActivity).FromPayload(fresh, &back))
	require.Equal(t, 2, back.Attempts)

	for _, s := range []payload.Sealing{after, {}, {Keys: payload.LockedKeys(errors.New("the variable X is not set"))}} {
		err = at(t, s, inActivity).FromPayload(old, &back)
		require.Error(t, err)
		var kind *contract.Error
		require.ErrorAs(t, err, &kind)
		require.Equal(t, contract.StoreUnavailable, kind.Kind, "the payload is good: it is tried again")
		require.NotErrorIs(t, err, payload.ErrRefused)
	}
	require.ErrorContains(t, at(t, after, inActivity).FromPayload(old, &back), `no key "old"`)
	require.ErrorContains(t, at(t, payload.Sealing{}, inActivity).FromPayload(old, &back), `needs "old"`)
}

func TestKeys(t *testing.T) {
	good := strings.Repeat("0123456789abcdef", 4)
	for _, c := range []struct {
		name  string
		texts []string
		want  string
	}{
		{"hex", []string{"a:" + good}, ""},
		{"base64", []string{"a:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}, ""},
		{"base64 for URLs, without padding", []string{"a:__EyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"}, ""},
		{"no id", []string{good}, "has no id"},
		{"an id that is none", []string{"a b:" + good}, "has no id"},
		{"short", []string{"a:" + good[:62]}, "not 32 bytes"},
		{"long", []string{"a:" + good + "00"}, "not 32 bytes"},
		{"no key", []string{"a:"}, "not 32 bytes"},
		{"zeros", []string{"a:" + strings.Repeat("0", 64)}, "random"},
		{"twice an id", []string{"a:" + good, key("a")}, "twice"},
		{"twice a key", []string{"a:" + good, "b:" + good}, "the same"},
		{"too many", make([]string, 17), "at most 16"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := payload.ParseKeys(c.texts)
			if c.want == "" {
				require.NoError(t, err)
				require.Equal(t, "a", r.KeyID())
				return
			}
			require.ErrorContains(t, err, c.want)
			require.NotContains(t, err.Error(), good[:16], "an error never shows a key")
		})
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} { // some of them wrong on purpose
		shown := fmt.Sprintf(verb, ring(t, "a"))
		require.NotContains(t, shown, key("a")[2:20])
		require.NotContains(t, shown, "97 97", "the bytes of the key")
	}
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("all", "ring", ring(t, "a"), "sealing", sealed(t, "a"))
	require.NotContains(t, log.String(), "97 97")
	require.Contains(t, log.String(), "first a")
	none, err := payload.ParseKeys(nil)
	require.NoError(t, err)
	require.Nil(t, none)
	made, err := payload.NewKey("fresh")
	require.NoError(t, err)
	r, err := payload.ParseKeys([]string{made})
	require.NoError(t, err)
	require.Equal(t, "fresh", r.KeyID())
	_, err = payload.NewKey("no id")
	require.Error(t, err)
}

func TestFailuresOfActivities(t *testing.T) {
	s := sealed(t, "a")
	worker := payload.NewFailureConverter(at(t, s, nil))
	of := func(ctx converter.SerializationContext) converter.FailureConverter {
		return converter.WithFailureConverterSerializationContext(worker, ctx)
	}
	cause := temporal.NewApplicationErrorWithOptions("cause "+canary, "x", temporal.ApplicationErrorOptions{})
	err := temporal.NewApplicationErrorWithOptions("message "+canary, string(contract.ToolError), temporal.ApplicationErrorOptions{
		NonRetryable: true, Cause: cause, Details: []any{contract.ErrorDetails{Attempts: 2, Details: json.RawMessage(`"` + canary + `"`)}},
	})
	f := of(inActivity).ErrorToFailure(err)
	wire, merr := proto.Marshal(f)
	require.NoError(t, merr)
	require.NotContains(t, string(wire), canary)
	require.Equal(t, string(contract.ToolError), f.GetApplicationFailureInfo().GetType(), "the server acts on it")

	read := func(f *failurepb.Failure) *temporal.ApplicationError {
		var application *temporal.ApplicationError
		require.ErrorAs(t, of(inActivity).FailureToError(proto.CloneOf(f)), &application)
		return application
	}
	application := read(f)
	require.Equal(t, "message "+canary, application.Message())
	require.True(t, application.NonRetryable())
	var details contract.ErrorDetails
	require.NoError(t, application.Details(&details))
	require.Equal(t, 2, details.Attempts)
	require.ErrorContains(t, errors.Unwrap(application), "cause "+canary)

	again := of(inWorkflow).ErrorToFailure(of(inActivity).FailureToError(proto.CloneOf(f)))
	wire, merr = proto.Marshal(again)
	require.NoError(t, merr)
	require.NotContains(t, string(wire), canary, "a failure that is handed on stays sealed")

	for name, forge := range map[string]func(*failurepb.Failure){
		"plain":             func(f *failurepb.Failure) { f.EncodedAttributes = nil },
		"another type":      func(f *failurepb.Failure) { f.GetApplicationFailureInfo().Type = "timeout" },
		"retryable":         func(f *failurepb.Failure) { f.GetApplicationFailureInfo().NonRetryable = false },
		"a plain cause":     func(f *failurepb.Failure) { f.Cause.EncodedAttributes = nil },
		"changed":           func(f *failurepb.Failure) { f.EncodedAttributes.Data[20] ^= 1 },
		"unsealed the same": func(f *failurepb.Failure) { f.EncodedAttributes = f.GetApplicationFailureInfo().Details.Payloads[0] },
	} {
		t.Run(name, func(t *testing.T) {
			forged := proto.CloneOf(f)
			forge(forged)
			require.Equal(t, string(contract.WorkerLost), read(forged).Type())
		})
	}
	lacking := payload.NewFailureConverter(at(t, sealed(t, "b"), nil))
	var unopened *contract.SealedError
	require.ErrorAs(t, converter.WithFailureConverterSerializationContext(lacking, inActivity).FailureToError(proto.CloneOf(f)), &unopened)
	require.True(t, unopened.Missing, "without the key, who has asked decides")
	require.Equal(t, "a", unopened.Key)
	local := inActivity
	local.IsLocal = true
	ofLocal := of(local).ErrorToFailure(err)
	require.Panics(t, func() {
		_ = converter.WithFailureConverterSerializationContext(lacking, local).FailureToError(proto.CloneOf(ofLocal))
	}, "without the key, the workflow task is tried again")
	s.AcceptPlain = true
	open := converter.WithFailureConverterSerializationContext(payload.NewFailureConverter(at(t, s, nil)), inActivity)
	require.ErrorContains(t, open.FailureToError(&failurepb.Failure{Message: "from before", FailureInfo: &failurepb.Failure_ApplicationFailureInfo{
		ApplicationFailureInfo: &failurepb.ApplicationFailureInfo{Type: "timeout"}}}), "from before")

	// What the server itself says is not sealed.
	var timeout *temporal.TimeoutError
	require.ErrorAs(t, of(inActivity).FailureToError(&failurepb.Failure{FailureInfo: &failurepb.Failure_TimeoutFailureInfo{
		TimeoutFailureInfo: &failurepb.TimeoutFailureInfo{}}}), &timeout)
}

// TestTheFailureOfARunIsReadable by a client without keys, but not its cause.
func TestTheFailureOfARunIsReadable(t *testing.T) {
	s := sealed(t, "a")
	of := converter.WithFailureConverterSerializationContext(payload.NewFailureConverter(at(t, s, nil)), inWorkflow)
	foreign := temporal.GetDefaultFailureConverter()
	for _, err := range []error{
		temporal.NewApplicationErrorWithOptions("why", string(contract.ToolError), temporal.ApplicationErrorOptions{
			Details: []any{contract.Failure{Kind: contract.ToolError, Message: "why"}}, Cause: errors.New(canary)}),
		temporal.NewCanceledError(contract.Failure{Kind: contract.Cancelled, Message: "why"}),
	} {
		f := of.ErrorToFailure(err)
		wire, merr := proto.Marshal(f)
		require.NoError(t, merr)
		require.NotContains(t, string(wire), canary)
		seen := foreign.FailureToError(f)
		var failure contract.Failure
		var application *temporal.ApplicationError
		var cancelled *temporal.CanceledError
		if errors.As(seen, &application) {
			require.Equal(t, "why", application.Message())
			require.NoError(t, application.Details(&failure))
		} else {
			require.ErrorAs(t, seen, &cancelled)
			require.NoError(t, cancelled.Details(&failure))
		}
		require.Equal(t, "why", failure.Message)
	}
	f := of.ErrorToFailure(errors.New("a panic with " + canary))
	wire, merr := proto.Marshal(f)
	require.NoError(t, merr)
	require.NotContains(t, string(wire), canary)
}

func TestNothingLargeLiesPlainInTheStore(t *testing.T) {
	store := open(t)
	text := strings.Repeat(canary+" ", 5000)
	target := converter.StorageDriverWorkflowInfo{Namespace: "ns", WorkflowID: "run-1"}
	in, err := at(t, payload.Sealing{}, nil).ToPayload(contract.Start{Source: text})
	require.NoError(t, err)
	for name, s := range map[string]payload.Sealing{"sealed": sealed(t, "a"), "sealed, not compressed": {Keys: ring(t, "a")}, "compressed": {Compress: true}} {
		t.Run(name, func(t *testing.T) {
			driver := payload.NewStorage(store, s).Drivers[0]
			claims, err := driver.Store(converter.StorageDriverStoreContext{Context: t.Context(), Target: target}, []*commonpb.Payload{in})
			require.NoError(t, err)
			kept, err := store.Get(t.Context(), claims[0].ClaimData["digest"])
			require.NoError(t, err)
			if s.Keys != nil {
				require.NotContains(t, string(kept), canary)
			}
			if s.Compress {
				require.Less(t, len(kept), 5000)
			}
			out, err := driver.Retrieve(converter.StorageDriverRetrieveContext{Context: t.Context()}, claims)
			require.NoError(t, err)
			var back contract.Start
			require.NoError(t, at(t, s, inWorkflow).FromPayload(out[0], &back))
			require.Equal(t, text, back.Source)
			elsewhere := converter.WorkflowSerializationContext{Namespace: "ns", WorkflowID: "run-2"}
			if err := at(t, s, elsewhere).FromPayload(out[0], &back); s.Keys != nil {
				require.ErrorIs(t, err, payload.ErrRefused, "a claim of another run")
			}
		})
	}
	locked := payload.NewStorage(store, payload.Sealing{Keys: payload.LockedKeys(errors.New("the variable X is not set"))}).Drivers[0]
	_, err = locked.Store(converter.StorageDriverStoreContext{Context: t.Context(), Target: target}, []*commonpb.Payload{in})
	require.ErrorContains(t, err, "the variable X is not set")
}

func TestTheCodec(t *testing.T) {
	s := sealed(t, "a")
	codec := payload.Codec{Keys: s.Keys, Limit: 1 << 20}
	of := func(ctx converter.SerializationContext, value any) *commonpb.Payload {
		p, err := at(t, s, ctx).ToPayload(value)
		require.NoError(t, err)
		return p
	}
	loaded := &plan.Loaded{Plan: small(), Head: plan.Head{Digest: "sha256:x"}}
	in := []*commonpb.Payload{of(inWorkflow, "one"), of(inActivity, contract.Outcome{Attempts: 2}), of(inWorkflow, contract.Result(`{}`)), of(inActivity, loaded)}
	out, err := codec.Decode(in)
	require.NoError(t, err)
	require.Equal(t, `"one"`, string(out[0].Data))
	require.JSONEq(t, `{"attempts":2}`, string(out[1].Data))
	require.True(t, proto.Equal(in[2], out[2]), "what is plain stays")
	require.Equal(t, "json/plain", string(out[3].Metadata["encoding"]))
	require.True(t, json.Valid(out[3].Data), "a plan is shown")

	_, err = codec.Encode(in)
	require.Error(t, err)
	_, err = payload.Codec{Limit: 1 << 20}.Decode(in)
	require.ErrorContains(t, err, `needs "a"`)
	large := of(inActivity, strings.Repeat("x", 1<<19))
	_, err = codec.Decode([]*commonpb.Payload{large, large, large})
	require.Error(t, err, "all of them together are too large")
}

func TestBounded(t *testing.T) {
	store := open(t)
	digest, err := store.Put(t.Context(), make([]byte, 100))
	require.NoError(t, err)
	reader := payload.Bounded(store, 250)
	for range 2 {
		_, err = reader.Get(t.Context(), digest)
		require.NoError(t, err)
	}
	for range 2 {
		_, err = reader.Get(t.Context(), digest)
		require.ErrorIs(t, err, payload.ErrLimit)
	}
}

// FuzzDecode: whatever stands in a history opens, or is refused, and nothing
// panics or takes more memory than the limit.
func FuzzDecode(f *testing.F) {
	s := sealed(f, "a")
	c := at(f, s, inActivity)
	for _, value := range []any{"x", strings.Repeat("x", 10_000), contract.Outcome{Attempts: 1}, nil} {
		p, err := c.ToPayload(value)
		require.NoError(f, err)
		wire, err := proto.Marshal(p)
		require.NoError(f, err)
		f.Add(wire)
	}
	// Zstandard frames: empty, one that promises 2^62 bytes, skippable, cut.
	for _, frame := range []string{"28b52ffd0000010000", "28b52ffde0000000000000004000", "502a4d1804000000", "28b52ffd"} {
		b, err := hex.DecodeString(frame)
		require.NoError(f, err)
		wire, err := proto.Marshal(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("binary/chimera-zstd")}, Data: b})
		require.NoError(f, err)
		f.Add(wire)
	}
	codec := payload.Codec{Keys: s.Keys, Limit: 1 << 20}
	f.Fuzz(func(t *testing.T, wire []byte) {
		p := new(commonpb.Payload)
		if proto.Unmarshal(wire, p) != nil {
			return
		}
		if out, err := codec.Decode([]*commonpb.Payload{p}); err == nil {
			require.LessOrEqual(t, len(out[0].Data), max(1<<20, len(p.Data)))
		}
		var back contract.Outcome
		_ = c.FromPayload(p, &back)
		_ = at(t, s, inWorkflow).FromPayload(p, &back)
		_ = c.ToString(p)
	})
}
