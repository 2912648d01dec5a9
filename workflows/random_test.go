package workflows_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/blob"
	"chimera.ai/engine/compiler/plangen"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/host"
	"chimera.ai/engine/internal/stage"
	"chimera.ai/engine/payload"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
	"chimera.ai/engine/skills"
)

var (
	randomPlans = flag.Int("plans", 60, "how many random plans are drawn")
	randomSeed  = flag.Uint64("seed", 1, "the first seed of random plans")
)

func newPlans(t *testing.T) *payload.Plans {
	store, err := blob.Open(filepath.Join(t.TempDir(), "blobs"))
	require.NoError(t, err)
	return payload.NewPlans(store, 0)
}

// TestRandomPlansDoNotFail is what the compiler promises: a plan that compiles
// raises no error of types or expressions, whatever its input and whatever its
// operations return within their schemas.
func TestRandomPlansDoNotFail(t *testing.T) {
	plans := newPlans(t)
	accepted, runs, ended := 0, 0, 0
	features, codes, drawn := map[string]int{}, map[string]int{}, map[string]int{}
	for i := range uint64(*randomPlans) {
		seed := *randomSeed + i
		c := plangen.Random(seed, int(seed%4)*6)
		w := newWorld(t, c, plans, seed)
		for _, f := range c.Features {
			drawn[f]++
		}
		_, ds := w.compile(string(c.Source))
		if ds.HasErrors() {
			for _, d := range ds {
				codes[string(d.Code)]++
			}
			continue
		}
		accepted++
		for _, f := range c.Features {
			features[f]++
		}
		for range 3 {
			input, ok := w.input()
			if !ok {
				break
			}
			output, faults := w.run(t, input)
			require.Empty(t, faults, "seed %d, input %v, plan\n%s", seed, input, c.Source)
			runs++
			if output != nil {
				ended++
			}
		}
	}
	t.Logf("%d of %d random plans compile; %d runs, %d of them with an output", accepted, *randomPlans, runs, ended)
	for _, f := range slices.Sorted(maps.Keys(drawn)) {
		t.Logf("  %-28s in %4d of %4d", f, features[f], drawn[f])
	}
	for _, c := range slices.Sorted(maps.Keys(codes)) {
		t.Logf("  refused by %-24s %4d", c, codes[c])
	}
}

// TestRandomPlansOnAServer runs a few of them on a real server.
func TestRandomPlansOnAServer(t *testing.T) {
	plans := newPlans(t)
	for seed, left := *randomSeed, 3; left > 0; seed++ {
		c := plangen.Random(seed, 0)
		w := newWorld(t, c, plans, seed)
		input, ok := w.input()
		if _, ds := w.compile(string(c.Source)); ds.HasErrors() || !ok || len(c.Operations) == 0 {
			continue
		}
		left--
		options := host.Options{}
		for _, op := range c.Operations {
			options.Skills = append(options.Skills, skills.Skill{
				Provider: plangen.Provider, Operation: op.Name, Description: "Returns what its schema says.", Mode: plan.Deter,
				InputSchema: json.RawMessage(`{"type":"object"}`), OutputSchema: op.Output,
				Run: func(context.Context, json.RawMessage) (json.RawMessage, error) {
					w.mu.Lock()
					defer w.mu.Unlock()
					return w.draw(op.Name)
				},
			})
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := stage.Host(t, options)
			raw, err := plan.Canonical(input)
			require.NoError(t, err)
			var output json.RawMessage
			err = stage.Await(t, h.Client(), stage.Start(t, h.Client(), string(c.Source), string(raw)), &output)
			if err == nil {
				_, err = w.output.ValidateJSON(output)
				require.NoError(t, err, "seed %d", seed)
				return
			}
			var application *temporal.ApplicationError
			require.ErrorAs(t, err, &application)
			var failure *contract.Failure
			require.NoError(t, application.Details(&failure))
			require.False(t, wrong(failure.Kind), "seed %d: %+v", seed, failure)
		})
	}
}

// refusal is a finding that a value does not fit, for an edge from the plan's
// input, so that a run can be given that value.
type refusal struct {
	edge, port string
	value      any
}

func refusals(ds diag.Diagnostics) (all []refusal) {
	for _, d := range ds {
		from, _, _ := strings.Cut(d.Edge, " -> ")
		port, ok := strings.CutPrefix(from, plan.InputNode+".")
		text := d.Before
		if text == "" {
			text = d.Witness
		}
		if d.Code != diag.TypeNotContained || !ok || text == "" {
			continue
		}
		// A long one is cut, and is then not JSON.
		if v, err := schemas.Decode([]byte(text)); err == nil {
			all = append(all, refusal{d.Edge, port, v})
		}
	}
	return all
}

// open gives the plan with ports that take anything, so that it compiles
// whatever flows, and the schemas that the ports had, by "node.port".
func open(t *testing.T, source []byte) (opened []byte, ports map[string]*plangen.Instances) {
	v, err := schemas.Decode(source)
	require.NoError(t, err)
	ports = map[string]*plangen.Instances{}
	widen := func(id string, of any) any {
		schema := maps.Clone(of.(map[string]any))
		properties := maps.Clone(schema["properties"].(map[string]any))
		for name, s := range properties {
			raw, err := json.Marshal(s)
			require.NoError(t, err)
			ports[id+"."+name], err = plangen.NewInstances(raw)
			require.NoError(t, err)
			properties[name] = true
		}
		schema["properties"] = properties
		return schema
	}
	document := v.(map[string]any)
	document["output_schema"] = widen(plan.OutputNode, document["output_schema"])
	for _, n := range document["nodes"].([]any) {
		node := n.(map[string]any)
		node["input_schema"] = widen(node["id"].(string), node["input_schema"])
	}
	opened, err = json.Marshal(document)
	require.NoError(t, err)
	return opened, ports
}

// TestRefusalsAreReal runs refused plans, with open ports, on the
// counterexamples that the compiler gives: what arrives must be a value that the
// port does not take.
func TestRefusalsAreReal(t *testing.T) {
	plans := newPlans(t)
	found, shown := 0, 0
	for i := range uint64(*randomPlans) {
		seed := *randomSeed + i
		c := plangen.Random(seed, 20)
		w := newWorld(t, c, plans, seed)
		_, ds := w.compile(string(c.Source))
		all := refusals(ds)
		if len(all) == 0 {
			continue
		}
		var ports map[string]*plangen.Instances
		w.Source, ports = open(t, c.Source)
		p, ds := w.compile(string(w.Source))
		if ds.HasErrors() {
			continue
		}
		for _, r := range all {
			if readsMore(p, r.edge) {
				continue
			}
			found++
			if w.shows(t, p, r, ports, seed) {
				shown++
			}
		}
	}
	t.Logf("%d refusals with a counterexample for the input, %d of them shown by a run", found, shown)
	require.Positive(t, shown)
}

// readsMore reports whether what an edge brings depends on more than its port's
// value.
func readsMore(p *plan.Plan, edge string) bool {
	for i := range p.Edges {
		if p.EdgeString(i) == edge && strings.Contains(string(p.Edges[i].Transform), "input") {
			return true
		}
	}
	return false
}

// shows runs the plan on the counterexample until the edge brings it.
func (w *world) shows(t *testing.T, p *plan.Plan, r refusal, ports map[string]*plangen.Instances, seed uint64) bool {
	var shown atomic.Bool
	_, to, _ := strings.Cut(r.edge, " -> ")
	_, port, _ := strings.Cut(to, ".")
	w.watched(func(call contract.Call, out contract.Outcome) {
		if !brings(p, call, r) {
			return
		}
		arrived, ok := w.received[p.Nodes[call.Node].ID]
		if p.Nodes[call.Node].Kind == plan.KindOutput && len(out.Values) == 1 {
			arrived, ok = json.RawMessage(out.Values[0]), true
		}
		if !ok {
			return // It failed for another reason.
		}
		input, err := schemas.Decode(arrived)
		require.NoError(t, err)
		require.False(t, ports[to].Takes(input.(map[string]any)[port]), "seed %d: %s takes what %s brings for %v, in spite of the refusal\n%s",
			seed, to, r.edge, r.value, w.Case.Source)
		shown.Store(true)
	})
	defer w.watched(nil)
	for range 6 {
		input := r.value
		if r.port != plan.WholePort {
			drawn, ok := w.input()
			if !ok {
				return shown.Load()
			}
			object := maps.Clone(drawn.(map[string]any))
			object[r.port] = r.value
			input = object
		}
		if !w.inputs.Takes(input) {
			continue
		}
		w.run(t, input)
		if shown.Load() {
			return true
		}
	}
	return shown.Load()
}

// brings reports whether a call's value of a port is that of the refused edge.
func brings(p *plan.Plan, call contract.Call, r refusal) bool {
	for _, d := range call.Deliveries {
		if p.EdgeString(d.Edge) != r.edge || d.Error != nil {
			continue
		}
		first := slices.IndexFunc(call.Deliveries, func(x contract.Delivery) bool { return p.Edges[x.Edge].ToPort == p.Edges[d.Edge].ToPort })
		v, err := schemas.Decode(d.Value)
		if err == nil && call.Deliveries[first].Edge == d.Edge && cmp.Equal(v, r.value) {
			return true
		}
	}
	return false
}
