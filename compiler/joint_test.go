package compiler

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"chimera.ai/engine/diag"
	"chimera.ai/engine/schemas"
)

// jointCase is a small plan of which everything that can arrive is known: the
// ports of one value, each absent, 0, 1 or 2, go to a node.
type jointCase struct {
	source, target string
	edges          []jointEdge
	// through: the value passes a node; otherwise it is the plan's input.
	through bool
}

type jointEdge struct {
	from, to string
	required bool
	// when: delivered only if the value is 1. flip: 1 and 0 are swapped. whole:
	// the transform reads the whole output.
	when, flip, whole bool
}

func drawJoint(r *rand.Rand) jointCase {
	ports := []string{"a", "b", "c"}[:2+r.IntN(2)]
	alternatives := func(names []string) string {
		var all []string
		for range 1 + r.IntN(3) {
			var properties, required []string
			for _, p := range names {
				values := [][]string{{"0"}, {"1"}, {"0", "1"}, {"0", "1", "2"}}[r.IntN(4)]
				properties = append(properties, fmt.Sprintf(`%q:{"enum":[%s]}`, p, strings.Join(values, ",")))
				if r.IntN(3) > 0 {
					required = append(required, fmt.Sprintf("%q", p))
				}
			}
			all = append(all, fmt.Sprintf(`{"properties":{%s},"required":[%s]}`, strings.Join(properties, ","), strings.Join(required, ",")))
		}
		var listed []string
		for _, p := range names {
			listed = append(listed, fmt.Sprintf(`%q:{"enum":[0,1,2]}`, p))
		}
		more := ""
		if r.IntN(3) == 0 {
			more = fmt.Sprintf(`,"dependentRequired":{%q:[%q]}`, names[0], names[1])
		}
		word := "anyOf"
		if r.IntN(4) == 0 {
			word = "oneOf"
		}
		return fmt.Sprintf(`{"type":"object","properties":{%s},"additionalProperties":false,%q:[%s]%s}`, strings.Join(listed, ","), word, strings.Join(all, ","), more)
	}
	c := jointCase{source: alternatives(ports), through: r.IntN(3) == 0}
	names := []string{"x", "y", "z"}[:len(ports)]
	c.target = alternatives(names)
	for i, at := range r.Perm(len(ports)) {
		c.edges = append(c.edges, jointEdge{
			from: ports[at], to: names[i], required: r.IntN(2) == 0,
			when: r.IntN(6) == 0, flip: r.IntN(6) == 0, whole: r.IntN(4) == 0,
		})
	}
	if r.IntN(3) == 0 {
		// The same meaning, so that it fits more often.
		c.target = c.source
		for i := range c.edges {
			c.edges[i] = jointEdge{from: ports[i], to: ports[i], required: r.IntN(4) == 0}
		}
	}
	return c
}

func (c jointCase) text() []byte {
	var b strings.Builder
	from := "$input"
	fmt.Fprintf(&b, "apiVersion: chimera/v1\nkind: Plan\nname: joint\nversion: \"1\"\ninput_schema: %s\noutput_schema: {type: object}\nnodes:\n", c.source)
	if c.through {
		from = "s"
		fmt.Fprintf(&b, "  - {id: s, template: engine/pass, input_schema: %s, output_schema: %s}\n", c.source, c.source)
	}
	fmt.Fprintf(&b, "  - {id: n, template: engine/pass, input_schema: %s, output_schema: true}\nedges:\n", c.target)
	if c.through {
		b.WriteString("  - $input.$ -> s.$\n")
	}
	for _, e := range c.edges {
		kind, more := "data", ""
		if e.when {
			kind, more = "conditional", `, when: "value == 1"`
		}
		switch {
		case e.flip && e.whole:
			more += fmt.Sprintf(`, transform: "${output.?%s.orValue(2) == 1 ? 0 : 1}"`, e.from)
		case e.flip:
			more += `, transform: "${value == 1 ? 0 : 1}"`
		}
		fmt.Fprintf(&b, "  - {from_node: %s, from_port: %s, to_node: n, to_port: %s, edge_type: %s, required: %v%s}\n", from, e.from, e.to, kind, e.required, more)
	}
	return []byte(b.String())
}

// needed are the ports that every alternative of the target requires: without
// them the node does not run.
func (c jointCase) needed(t *testing.T) (out []string) {
	type list struct{ Required []string }
	var target struct{ AnyOf, OneOf []list }
	require.NoError(t, json.Unmarshal([]byte(c.target), &target))
	all := append(target.AnyOf, target.OneOf...)
	for _, p := range all[0].Required {
		if !slices.ContainsFunc(all, func(l list) bool { return !slices.Contains(l.Required, p) }) {
			out = append(out, p)
		}
	}
	return out
}

// wrong looks for a value of the source for which what arrives is refused.
func (c jointCase) wrong(t *testing.T) (string, bool) {
	source, err := schemas.Compile([]byte(c.source))
	require.NoError(t, err)
	target, err := schemas.Compile([]byte(c.target))
	require.NoError(t, err)
	needed := c.needed(t)
	for code := range 64 {
		v := map[string]any{}
		for i, p := range []string{"a", "b", "c"} {
			if n := code >> (2 * i) & 3; n < 3 {
				v[p] = json.Number(fmt.Sprint(n))
			}
		}
		if source.Validate(v) != nil {
			continue
		}
		got, runs, some := map[string]any{}, true, false
		for _, e := range c.edges {
			value, there := v[e.from]
			if there = there && (!e.when || value == json.Number("1")); !there {
				runs = runs && !e.required
				continue
			}
			some = true
			if e.flip {
				value = map[bool]any{true: json.Number("0"), false: json.Number("1")}[value == json.Number("1")]
			}
			got[e.to] = value
		}
		for _, p := range needed {
			_, there := got[p]
			runs = runs && there
		}
		if runs && some && target.Validate(got) != nil {
			return fmt.Sprintf("%v makes %v", v, got), true
		}
	}
	return "", false
}

// TestJointIsSound compares the compiler with everything that can arrive: what
// compiles always fits, and what is refuted does not.
func TestJointIsSound(t *testing.T) {
	total := cases(300)
	if *soak {
		total = 20_000
	}
	cat := engineCatalog()
	proved, refuted, unknown, missed := 0, 0, 0, 0
	for seed := range uint64(total) {
		c := drawJoint(rand.New(rand.NewPCG(seed, 5+*firstSeed)))
		p, ds := Compile(Source{Name: "joint.yaml", Text: c.text()}, cat, nil)
		how, wrong := c.wrong(t)
		if p != nil {
			proved++
			require.False(t, wrong, "seed %d: %s\n%s", seed, how, c.text())
			continue
		}
		for _, d := range ds {
			if d.Code != diag.TypeNotContained && d.Code != diag.TypeUnknown || d.Node != "n" || d.Edge != "" {
				continue // about one edge, or one that may never be delivered
			}
			switch {
			case d.Code == diag.TypeNotContained:
				refuted++
				require.True(t, wrong, "seed %d: %s\n%s", seed, show(ds), c.text())
				require.NotEmpty(t, d.Before)
			case wrong:
				unknown++
			default:
				missed++
			}
		}
	}
	t.Logf("%d of %d compile; %d refuted; not decided: %d wrong, %d right", proved, total, refuted, unknown, missed)
	// Measured at about 9 to 10 for each that stays undecided.
	require.Greater(t, refuted, 8*(unknown+1))
	require.Greater(t, proved, 5*(missed+1))
}

// TestJointBounded: beyond the bounds nothing is claimed, and the finding says
// what stopped the proof.
func TestJointBounded(t *testing.T) {
	source := func(pairs int) Source {
		var ports, needs, edges []string
		for i := range pairs {
			ports = append(ports, fmt.Sprintf("p%d: {}, q%d: {}", i, i))
			needs = append(needs, fmt.Sprintf("p%d: [q%d]", i, i))
			for _, port := range []string{"p", "q"} {
				edges = append(edges, fmt.Sprintf("  - {from_node: $input, from_port: %s%d, to_node: n, to_port: %s%d, edge_type: data, required: false}\n", port, i, port, i))
			}
		}
		schema := fmt.Sprintf("{type: object, properties: {%s}, dependentRequired: {%s}}", strings.Join(ports, ", "), strings.Join(needs, ", "))
		return Source{Name: "joint.yaml", Text: fmt.Appendf(nil, "apiVersion: chimera/v1\nkind: Plan\nname: joint\nversion: \"1\"\ninput_schema: %s\noutput_schema: {type: object}\nnodes: [{id: n, template: engine/pass, input_schema: %s}]\nedges:\n%s",
			schema, schema, strings.Join(edges, ""))}
	}
	_, ds := Compile(source(6), engineCatalog(), nil)
	require.Empty(t, show(ds))
	_, ds = Compile(source(7), engineCatalog(), nil)
	require.Len(t, ds, 1, show(ds))
	require.Equal(t, diag.TypeUnknown, ds[0].Code)
	require.Contains(t, ds[0].Detail, "more than 64 alternatives")
}
