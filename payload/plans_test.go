package payload_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
)

func named(name string) *plan.Plan {
	p := small()
	p.Name = name
	return p
}

// stored gives the digests of n plans.
func stored(t *testing.T, plans *payload.Plans, n int) []string {
	var digests []string
	for i := range n {
		digest, err := plans.Put(t.Context(), named(fmt.Sprint("p", i)))
		require.NoError(t, err)
		digests = append(digests, digest)
	}
	return digests
}

// TestAPlanInUseIsNotDecodedTwice: a plan that was evicted while a run holds it
// comes back as it is.
func TestAPlanInUseIsNotDecodedTwice(t *testing.T) {
	store := open(t)
	plans := payload.NewPlans(store, 1)
	first, err := plans.Put(t.Context(), named("first"))
	require.NoError(t, err)
	held, err := plans.Get(t.Context(), first)
	require.NoError(t, err)
	stored(t, plans, 3)
	runtime.GC()
	again, err := plans.Get(t.Context(), first)
	require.NoError(t, err)
	require.Same(t, held, again)
	require.Zero(t, store.gets)

	c := payload.NewConverter(plans, payload.Sealing{})
	p, err := c.ToPayload(&plan.Loaded{Plan: again, Head: plan.Head{Digest: first}})
	require.NoError(t, err)
	require.Empty(t, p.Data, "the store has it")
	runtime.KeepAlive(held)
}

// TestWhatIsPreparedCounts: what a process makes of a plan counts against the
// bound, and goes with the plan.
func TestWhatIsPreparedCounts(t *testing.T) {
	plans := payload.NewPlans(open(t), 1<<20)
	digests := stored(t, plans, 3)
	made := map[string]int{}
	var grow [3]func(int)
	prepared := func(i int) any {
		v, err := plans.Prepared(t.Context(), digests[i], func(p *plan.Plan, g func(int)) any {
			require.Equal(t, fmt.Sprint("p", i), p.Name)
			made[p.Name]++
			grow[i] = g
			g(20_000)
			return &p.Name
		})
		require.NoError(t, err)
		return v
	}
	for range 2 {
		for i := range digests {
			prepared(i)
		}
	}
	require.Equal(t, map[string]int{"p0": 1, "p1": 1, "p2": 1}, made)

	const most = 1<<20 - 30_000 // there is room for one of them then, and no more
	grow[2](most)
	for i := range digests {
		prepared(2 - i)
	}
	require.Equal(t, map[string]int{"p0": 2, "p1": 2, "p2": 1}, made)

	// A plan that is out of the cache no longer counts, whatever it reports.
	old := grow[1]
	grow[0](most)
	prepared(1)
	old(1 << 30)
	prepared(0)
	prepared(1)
	require.Equal(t, map[string]int{"p0": 3, "p1": 3, "p2": 1}, made)
}

// TestOneLargePlan: if what is prepared of one plan is too much by itself, it is
// dropped, and the plan stays.
func TestOneLargePlan(t *testing.T) {
	store := open(t)
	plans := payload.NewPlans(store, 1<<20)
	digest := stored(t, plans, 1)[0]
	made := 0
	var grow func(int)
	prepared := func() {
		_, err := plans.Prepared(t.Context(), digest, func(_ *plan.Plan, g func(int)) any {
			made++
			grow = g
			return made
		})
		require.NoError(t, err)
	}
	for i := range 5 {
		prepared()
		prepared()
		require.Equal(t, i+1, made)
		old := grow
		old(1 << 19)
		prepared()
		require.Equal(t, i+1, made)
		old(1 << 19)
		old(1 << 19) // counts no more
	}
	runtime.GC()
	prepared()
	require.Zero(t, store.gets)
}

// TestPlansAreShared: many callers that want the same plans at once share one copy
// of each, though all are evicted again and again.
func TestPlansAreShared(t *testing.T) {
	plans := payload.NewPlans(open(t), 1)
	digests := stored(t, plans, 4)
	var held [4]*plan.Plan
	for i, digest := range digests {
		var err error
		held[i], err = plans.Get(t.Context(), digest)
		require.NoError(t, err)
	}
	var all sync.WaitGroup
	for w := range 4 {
		all.Go(func() {
			for k := range 200 {
				i := (w + k) % len(digests)
				v, err := plans.Prepared(t.Context(), digests[i], func(p *plan.Plan, grow func(int)) any {
					grow(10)
					return p
				})
				if err != nil || v.(*plan.Plan) != held[i] {
					t.Errorf("plan %d: %v, %v", i, v, err)
					return
				}
			}
		})
	}
	all.Wait()
	runtime.KeepAlive(held)
}

// TestAStoredPlanTravelsAsItsDigest: a plan that the store has is not stored again
// for each run, and who cannot read it there learns why.
func TestAStoredPlanTravelsAsItsDigest(t *testing.T) {
	store := open(t)
	plans := payload.NewPlans(store, 0)
	digest, err := plans.Put(t.Context(), small())
	require.NoError(t, err)
	one, err := plans.Get(t.Context(), digest)
	require.NoError(t, err)
	p, err := payload.NewConverter(plans, payload.Sealing{}).ToPayload(&plan.Loaded{Plan: one, Head: plan.Head{Digest: digest, ContinueAfter: 7}})
	require.NoError(t, err)
	require.Empty(t, p.Data)

	var back *plan.Loaded
	require.NoError(t, payload.NewConverter(payload.NewPlans(store, 0), payload.Sealing{}).FromPayload(p, &back))
	require.NoError(t, back.Err)
	require.Equal(t, 7, back.Head.ContinueAfter)
	require.Equal(t, "p", back.Plan.Name)

	require.NoError(t, payload.NewConverter(payload.NewPlans(open(t), 0), payload.Sealing{}).FromPayload(p, &back))
	require.ErrorIs(t, back.Err, blob.ErrNotFound)
	require.Nil(t, back.Plan)
	require.Equal(t, digest, back.Head.Digest)

	shown, err := payload.Codec{Limit: 1 << 20}.Decode([]*commonpb.Payload{p})
	require.NoError(t, err)
	require.Contains(t, string(shown[0].Data), digest)

	// What came with its bytes only keeps them.
	whole, err := payload.NewConverter(payload.NewPlans(store, 0), payload.Sealing{}).ToPayload(&plan.Loaded{Plan: small(), Head: plan.Head{Digest: digest}})
	require.NoError(t, err)
	require.Equal(t, digest, plan.DigestOf(whole.Data))
	other := payload.NewPlans(open(t), 0)
	c := payload.NewConverter(other, payload.Sealing{})
	require.NoError(t, c.FromPayload(whole, &back))
	again, err := c.ToPayload(back)
	require.NoError(t, err)
	require.Equal(t, whole.Data, again.Data)
}
