package payload_test

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
)

// counting counts what reaches the store.
type counting struct {
	blob.Store
	mu         sync.Mutex
	puts, gets int
}

func (c *counting) Put(ctx context.Context, b []byte) (string, error) {
	c.mu.Lock()
	c.puts++
	c.mu.Unlock()
	return c.Store.Put(ctx, b)
}

func (c *counting) Get(ctx context.Context, digest string) ([]byte, error) {
	c.mu.Lock()
	c.gets++
	c.mu.Unlock()
	return c.Store.Get(ctx, digest)
}

func open(t *testing.T) *counting {
	dir, err := blob.Open(t.TempDir())
	require.NoError(t, err)
	return &counting{Store: dir}
}

func small() *plan.Plan {
	return &plan.Plan{
		Format: plan.Format, Name: "p", Version: "1", Expr: plan.ExprVersion,
		Limits: plan.Limits{MaxParallel: 1, DeadlineMS: 1},
		Nodes: []plan.Node{
			{ID: plan.InputNode, Kind: plan.KindInput, InputSchema: -1, OutputSchema: -1},
			{ID: plan.OutputNode, Kind: plan.KindOutput, InputSchema: -1, OutputSchema: -1},
		},
	}
}

func TestAPlanIsDecodedOnce(t *testing.T) {
	store := open(t)
	plans := payload.NewPlans(store, 0)
	digest, err := plans.Put(t.Context(), small())
	require.NoError(t, err)
	one, err := plans.Get(t.Context(), digest)
	require.NoError(t, err)
	require.Zero(t, store.gets)

	c := payload.NewConverter(plans, payload.Sealing{})
	loaded := &plan.Loaded{Plan: one, Head: plan.Head{Digest: digest, ContinueAfter: 7}}
	p, err := c.ToPayload(loaded)
	require.NoError(t, err)
	var back *plan.Loaded
	require.NoError(t, c.FromPayload(p, &back))
	require.Same(t, one, back.Plan)
	require.Equal(t, 7, back.Head.ContinueAfter)

	other := payload.NewPlans(store, 0)
	again, err := other.Get(t.Context(), digest)
	require.NoError(t, err)
	require.Equal(t, 1, store.gets)
	require.NotSame(t, one, again)
}

func TestAPlanThatIsNotWhatItSaysIsRefused(t *testing.T) {
	plans := payload.NewPlans(open(t), 0)
	c := payload.NewConverter(plans, payload.Sealing{})
	digest, err := plans.Put(t.Context(), small())
	require.NoError(t, err)
	loaded := &plan.Loaded{Plan: small(), Head: plan.Head{Digest: digest}}
	good, err := c.ToPayload(loaded)
	require.NoError(t, err)
	fresh := func() converter.DataConverter {
		return payload.NewConverter(payload.NewPlans(open(t), 0), payload.Sealing{})
	}
	var back *plan.Loaded
	require.NoError(t, fresh().FromPayload(good, &back))

	forged := proto.CloneOf(good)
	forged.Data = []byte(strings.Replace(string(good.Data), `"name":"p"`, `"name":"q"`, 1))
	require.ErrorContains(t, fresh().FromPayload(forged, &back), "digest")
	headless := proto.CloneOf(good)
	delete(headless.Metadata, "chimera-head")
	require.Error(t, fresh().FromPayload(headless, &back))
	var wrong contract.Start
	require.Error(t, fresh().FromPayload(good, &wrong))
}

func TestTheCacheIsBounded(t *testing.T) {
	store := open(t)
	plans := payload.NewPlans(store, 1)
	var digests []string
	for _, name := range []string{"a", "b", "c"} {
		p := small()
		p.Name = name
		digest, err := plans.Put(t.Context(), p)
		require.NoError(t, err)
		digests = append(digests, digest)
	}
	_, err := plans.Get(t.Context(), digests[2])
	require.NoError(t, err)
	require.Zero(t, store.gets, "the latest plan is kept, however large")
	runtime.GC()
	_, err = plans.Get(t.Context(), digests[0])
	require.NoError(t, err)
	require.Equal(t, 1, store.gets)
}

func TestWhereValuesGo(t *testing.T) {
	store := open(t)
	c := payload.NewConverter(payload.NewPlans(store, 0), payload.Sealing{})
	storage := payload.NewStorage(store, payload.Sealing{})
	require.Equal(t, payload.Threshold, storage.PayloadSizeThreshold)
	text := func(n int) json.RawMessage { return json.RawMessage(`"` + strings.Repeat("x", n) + `"`) }
	for _, v := range []struct {
		name   string
		value  any
		stored bool
	}{
		{"a value", text(100_000), true},
		{"a result", contract.Result(text(100_000)), false},
		{"a result over the limit", contract.Result(text(300_000)), true},
		{"an argument of an update", contract.Argument(text(100_000)), false},
		{"a state", contract.State{Plan: strings.Repeat("x", 20_000)}, false},
		{"a failure", contract.Failure{Message: strings.Repeat("x", 20_000)}, false},
	} {
		t.Run(v.name, func(t *testing.T) {
			p, err := c.ToPayload(v.value)
			require.NoError(t, err)
			require.Len(t, p.Metadata, 1, "foreign readers see plain JSON")
			driver, err := storage.DriverSelector.SelectDriver(converter.StorageDriverSelectContext{}, p)
			require.NoError(t, err)
			require.Equal(t, v.stored, driver != nil)
		})
	}
}

func TestTheDriverKeepsPayloads(t *testing.T) {
	store := open(t)
	driver := payload.NewStorage(store, payload.Sealing{}).Drivers[0]
	in := []*commonpb.Payload{
		{Metadata: map[string][]byte{"encoding": []byte("json/plain"), "a": []byte("b")}, Data: []byte(`{"x":1}`)},
		{Data: []byte("other")},
	}
	storing := converter.StorageDriverStoreContext{Context: t.Context(), Target: converter.StorageDriverWorkflowInfo{Namespace: "ns", WorkflowID: "run-1", RunID: "a"}}
	claims, err := driver.Store(storing, in)
	require.NoError(t, err)
	storing.Target = converter.StorageDriverWorkflowInfo{Namespace: "ns", WorkflowID: "run-1", RunID: "continued"}
	again, err := driver.Store(storing, in)
	require.NoError(t, err)
	require.Equal(t, claims, again, "equal payloads of a workflow have equal claims")
	out, err := driver.Retrieve(converter.StorageDriverRetrieveContext{Context: t.Context()}, claims)
	require.NoError(t, err)
	for i := range in {
		require.NotEmpty(t, out[i].Metadata["chimera-scope"])
		delete(out[i].Metadata, "chimera-scope")
		require.True(t, proto.Equal(in[i], out[i]))
	}
	plan, err := store.Put(t.Context(), []byte(`{"format":"a plan"}`))
	require.NoError(t, err)
	stranger, err := proto.Marshal(in[0])
	require.NoError(t, err)
	loose, err := store.Put(t.Context(), stranger)
	require.NoError(t, err)
	for _, digest := range []string{plan, loose} {
		out, err = driver.Retrieve(converter.StorageDriverRetrieveContext{Context: t.Context()}, []converter.StorageDriverClaim{{ClaimData: map[string]string{"digest": digest}}})
		require.NoError(t, err)
		require.ErrorIs(t, payload.NewConverter(nil, payload.Sealing{}).FromPayload(out[0], new(any)), payload.ErrRefused, "what the driver has not stored")
	}
	claims[0].ClaimData["digest"] = "sha256:../../etc/passwd"
	_, err = driver.Retrieve(converter.StorageDriverRetrieveContext{Context: t.Context()}, claims[:1])
	require.ErrorIs(t, err, blob.ErrNotFound)
}

// TestAnInputIsNoLongerThanItIs: what a run got as its input reaches its nodes without
// escapes, with which it could be more than a node takes.
func TestAnInputIsNoLongerThanItIs(t *testing.T) {
	store := open(t)
	plans := payload.NewPlans(store, 0)
	digest, err := plans.Put(t.Context(), small())
	require.NoError(t, err)
	one, err := plans.Get(t.Context(), digest)
	require.NoError(t, err)
	input := json.RawMessage(`"` + strings.Repeat("<&>", 1000) + `"`)
	head := plan.Head{Digest: digest, Whole: input, Input: contract.Outcome{Values: []contract.Value{input}}}

	c := payload.NewConverter(plans, payload.Sealing{})
	p, err := c.ToPayload(&plan.Loaded{Plan: one, Head: head})
	require.NoError(t, err)
	var back *plan.Loaded
	require.NoError(t, c.FromPayload(p, &back))
	require.Len(t, back.Head.Whole, len(input))
	require.Len(t, back.Head.Input.Values[0], len(input))
}
