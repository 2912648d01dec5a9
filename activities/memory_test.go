package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/compiler/plangen"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/skills"
)

// What TestMemoryIsBounded loads: make memory loads a hundred plans of 20,000 nodes.
var (
	memoryPlans = flag.Int("memory-plans", 12, "how many plans TestMemoryIsBounded loads")
	memoryNodes = flag.Int("memory-nodes", 800, "how many nodes each of them has")
	memoryBytes = flag.Int("memory-bytes", 16<<20, "the bound of the cache, in bytes")
)

// open is a ledger that takes every run.
type open struct{ Ledger }

func (open) OpenRun(context.Context, ledger.Run) error { return nil }

// own is a catalog with the engine's own skills.
func own() *catalog.Catalog {
	c := new(catalog.Catalog)
	for _, s := range skills.Builtin() {
		c.Templates = append(c.Templates, catalog.Template{
			ProviderType: plan.Skill, Provider: s.Provider, Operation: s.Operation, Mode: s.Mode, Effect: plan.Pure,
			InputSchema: s.InputSchema, OutputSchema: s.OutputSchema, Trust: plan.AllowAuto, Status: plan.AllowAuto, InProcess: true,
		})
	}
	return c
}

type echoing struct{}

func (echoing) Call(_ context.Context, r Request) (Answer, error) {
	return Answer{Forms: []json.RawMessage{r.Input}}, nil
}

// TestMemoryIsBounded: whatever the number of different plans, a process holds no
// more for them than its cache may. Their nodes have run, so that all is prepared
// that ever is; where there are many, one plan in four does it.
func TestMemoryIsBounded(t *testing.T) {
	dir, err := blob.Open(t.TempDir())
	require.NoError(t, err)
	catalog := own()
	engine := &Engine{
		Ledger: open{}, Plans: payload.NewPlans(dir, *memoryBytes), Values: payload.NewValues(dir, payload.Sealing{}, "default"),
		Compile: func(source string) (*plan.Plan, diag.Diagnostics) {
			return compiler.Compile(compiler.Source{Name: "plan", Text: []byte(source)}, catalog, nil)
		},
	}
	held := func() int {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	kinds := []struct {
		name, input, value string
		make               func(n int) []byte
	}{
		{"chain", `{"text":"x"}`, `"x"`, plangen.Chain},
		{"typed", `{"v":1}`, `1`, plangen.Typed},
		{"layered", `{"text":"x"}`, `"x"`, func(n int) []byte { return plangen.Layered(n, 32, 1) }},
	}
	// What the libraries make once does not count for the plans.
	memoryRun(t, engine, kinds[1].make(20), "warm", kinds[1].input, kinds[1].value, 1)
	before := held()
	peak := 0
	for i := range *memoryPlans {
		k := kinds[i%len(kinds)]
		stride := 1
		if *memoryNodes > 5000 && i%4 > 0 {
			stride = 20
		}
		memoryRun(t, engine, k.make(*memoryNodes), fmt.Sprintf("p%d", i), k.input, k.value, stride)
		now := held() - before
		peak = max(peak, now)
		require.Less(t, now, *memoryBytes, "after plan %d (%s)", i, k.name)
	}
	t.Logf("%d plans of %d nodes: at most %d MiB of %d MiB", *memoryPlans, *memoryNodes, peak>>20, *memoryBytes>>20)
	require.Greater(t, peak, *memoryBytes/2, "the cache is not used: the estimate is far from what is held")
	runtime.KeepAlive(engine)
}

// memoryRun loads a plan and runs every node whose number stride divides.
func memoryRun(t *testing.T, e *Engine, source []byte, name, input, value string, stride int) {
	head, rest, _ := bytes.Cut(source, []byte("\nname: "))
	_, rest, _ = bytes.Cut(rest, []byte("\n"))
	source = bytes.Join([][]byte{head, []byte("\nname: " + name + "\n"), rest}, nil)
	start, err := json.Marshal(contract.Start{Source: string(source), Input: json.RawMessage(input)})
	require.NoError(t, err)
	loaded, err := e.Load(t.Context(), contract.LoadRequest{Start: start})
	require.NoError(t, err)
	p := loaded.Plan
	for i := 1; i < len(p.Nodes)-1; i += stride {
		call := contract.Call{Node: i}
		for _, edge := range p.In(i) {
			if p.Edges[edge].Carries() {
				call.Deliveries = append(call.Deliveries, contract.Delivery{Edge: edge, Value: contract.Value(value)})
			}
		}
		n, err := find(t.Context(), e.Plans, loaded.Head.Digest, i)
		require.NoError(t, err)
		_, err = n.run(t.Context(), echoing{}, &call)
		require.NoError(t, err)
	}
}
