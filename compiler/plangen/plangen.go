// Package plangen writes plans for benchmarks and tests. It is pure: equal
// arguments give equal text.
//
// [Chain], [Fan] and [Layered] are valid plans of any size. They use the built-in
// operation engine/pass only, by its template, so that they compile against the
// engine's own catalog and run anywhere.
//
// [Random] draws small plans that use most of the language, with schemas on all
// that flows, and [Instances] draws values of such schemas, so that what the
// compiler says of a plan can be held against what happens when it runs.
package plangen

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// head is what all plans have in common: one string goes in, one comes out.
const head = `apiVersion: chimera/v1
kind: Plan
name: %s
version: 1.0.0
input_schema: {$ref: "#/defs/Text"}
output_schema: {$ref: "#/defs/Text"}
defs:
  Text: {type: object, properties: {text: {type: string}}, required: [text]}
  Two: {type: object, properties: {text: {type: string}, other: {type: string}}, required: [text]}
nodes:
`

type source struct {
	nodes, edges strings.Builder
}

func (s *source) node(id, schema string) {
	fmt.Fprintf(&s.nodes, "  - {id: %s, template: engine/pass, input_schema: {$ref: \"#/defs/%s\"}, output_schema: {$ref: \"#/defs/Text\"}}\n", id, schema)
}

func (s *source) edge(from, to string) { fmt.Fprintf(&s.edges, "  - %s -> %s\n", from, to) }

func (s *source) text(name string) []byte {
	return []byte(fmt.Sprintf(head, name) + s.nodes.String() + "edges:\n" + s.edges.String())
}

// Chain is a plan of n ≥ 1 nodes in a row, each fed by the one before.
func Chain(n int) []byte {
	var s source
	before := "$input.text"
	for i := range n {
		id := fmt.Sprintf("n%d", i)
		s.node(id, "Text")
		s.edge(before, id+".text")
		before = id + ".text"
	}
	s.edge(before, "$output.text")
	return s.text("chain")
}

// Fan is a plan of n ≥ 1 nodes that all start from the plan's input, the first
// of which gives the output after all others.
func Fan(n int) []byte {
	var s source
	for i := range n {
		id := fmt.Sprintf("n%d", i)
		s.node(id, "Text")
		if i > 0 {
			s.edge("$input.text", id+".text")
			s.edge(id, "n0")
		}
	}
	s.edge("$input.text", "n0.text")
	s.edge("n0.text", "$output.text")
	return s.text("fan")
}

// Layered is a plan of n ≥ 1 nodes in random layers of up to width nodes, with
// about two edges for each node: every node has an edge into its required port
// from the layer before, and most have a second one: into an optional port, of
// control, or conditional. Equal seeds give equal plans.
func Layered(n, width int, seed uint64) []byte {
	r := rand.New(rand.NewPCG(seed, 0))
	var s source
	var before, layer []string
	for i := 0; i < n; {
		layer = nil
		for range min(1+r.IntN(max(width, 1)), n-i) {
			id := fmt.Sprintf("n%d", i)
			i++
			s.node(id, "Two")
			layer = append(layer, id)
			source := "$input"
			if len(before) > 0 {
				source = before[r.IntN(len(before))]
			}
			s.edge(source+".text", id+".text")
			if len(before) == 0 {
				continue
			}
			second := before[r.IntN(len(before))]
			switch r.IntN(10) {
			case 0, 1, 2, 3:
				s.edge(second+".text", id+".other")
			case 4, 5, 6:
				if second != source {
					s.edge(second, id)
				}
			case 7, 8:
				fmt.Fprintf(&s.edges, "  - {from_node: %s, from_port: text, to_node: %s, to_port: other, edge_type: conditional, required: false, when: size(value) > %d}\n", second, id, r.IntN(8))
			}
		}
		before = layer
	}
	s.edge(before[0]+".text", "$output.text")
	return s.text("layered")
}

// Typed is a plan of n ≥ 1 nodes in a row, where no two schemas are the same: the
// edge between two nodes computes, and a second one is taken under a condition,
// so that nothing that is proved of one edge helps with the next.
func Typed(n int) []byte {
	var nodes, edges strings.Builder
	for i := range n {
		fmt.Fprintf(&nodes, "  - {id: n%d, template: engine/pass, input_schema: {type: object, properties: {v: {type: integer, minimum: 0, maximum: %d}, low: {type: integer, maximum: %d}}, required: [v]}, output_schema: {type: object, properties: {v: {type: integer, minimum: 0, maximum: %d}}, required: [v]}}\n", i, i+10, i+3, i+10)
		before := "$input"
		if i > 0 {
			before = fmt.Sprintf("n%d", i-1)
		}
		fmt.Fprintf(&edges, "  - {from_node: %s, from_port: v, to_node: n%d, to_port: v, edge_type: data, required: true, transform: \"${value + 1}\"}\n", before, i)
		fmt.Fprintf(&edges, "  - {from_node: %s, from_port: v, to_node: n%d, to_port: low, edge_type: conditional, required: false, when: value < %d}\n", before, i, i+4)
	}
	fmt.Fprintf(&edges, "  - n%d.v -> $output.v\n", n-1)
	return []byte(fmt.Sprintf(`apiVersion: chimera/v1
kind: Plan
name: typed
version: 1.0.0
input_schema: {type: object, properties: {v: {type: integer, minimum: 0, maximum: 9}}, required: [v]}
output_schema: {type: object, properties: {v: {type: integer, maximum: %d}}, required: [v]}
nodes:
%sedges:
%s`, n+9, nodes.String(), edges.String()))
}

// Orders is a plan of n ≥ 1 nodes with about two edges each, such as a service
// would write: forty kinds of records with fields of every sort, nodes that take
// whole records, parts of them by selection, and what transforms with guards
// make of them, some of it under conditions.
func Orders(n int) []byte {
	const kinds = 40
	var defs, nodes, edges strings.Builder
	for k := range kinds {
		fmt.Fprintf(&defs, `  R%[1]d:
    type: object
    properties:
      id: {type: string, minLength: 1, maxLength: 40}
      kind: {enum: [order, refund, note%[1]d]}
      amount: {type: integer, minimum: 0, maximum: %[2]d}
      rate: {type: number, minimum: 0, maximum: 1}
      tags: {type: array, items: {type: string, maxLength: 20}, maxItems: 8}
      lines: {type: array, maxItems: 50, items: {type: object, properties: {sku: {type: string, maxLength: 30}, count: {type: integer, minimum: 1, maximum: 99}}, required: [sku, count]}}
      note: {type: [string, "null"], maxLength: 200}
    required: [id, kind, amount, lines]
    additionalProperties: false
  I%[1]d:
    type: object
    properties:
      record: {$ref: "#/defs/R%[1]d"}
      id: {type: string, maxLength: 60}
      total: {type: integer, minimum: 0}
      note: {type: string}
    required: [record]
`, k, 1000+k)
	}
	for i := range n {
		k := i % kinds
		fmt.Fprintf(&nodes, "  - {id: n%d, template: engine/pass, input_schema: {$ref: \"#/defs/I%d\"}, output_schema: {$ref: \"#/defs/I%d\"}}\n", i, k, k)
		if i < kinds {
			fmt.Fprintf(&edges, "  - $input.r%d -> n%d.record\n", k, i)
			continue
		}
		before := i - kinds
		fmt.Fprintf(&edges, "  - n%d.record -> n%d.record\n", before, i)
		switch i % 5 {
		case 0:
			fmt.Fprintf(&edges, "  - {from_node: n%d, from_port: record, to_node: n%d, to_port: id, edge_type: data, required: true, transform: \"${value.id}\"}\n", before, i)
		case 1:
			fmt.Fprintf(&edges, "  - {from_node: n%d, from_port: record, to_node: n%d, to_port: total, edge_type: data, required: true, transform: \"${value.amount * size(value.lines)}\"}\n", before, i)
		case 2:
			fmt.Fprintf(&edges, "  - {from_node: n%d, from_port: record, to_node: n%d, to_port: note, edge_type: conditional, required: false, when: \"has(value.note) && value.note != null\", transform: \"${value.note}\"}\n", before, i)
		case 3:
			fmt.Fprintf(&edges, "  - {from_node: n%d, from_port: record, to_node: n%d, to_port: note, edge_type: data, required: true, transform: \"order ${value.id} of ${value.amount}\"}\n", before, i)
		default:
			fmt.Fprintf(&edges, "  - {from_node: n%d, from_port: $done, to_node: n%d, to_port: $start, edge_type: conditional, required: true, when: \"output.record.amount < 5000\"}\n", before, i)
		}
	}
	fmt.Fprintf(&edges, "  - {from_node: n%d, from_port: record, to_node: $output, to_port: record, edge_type: data, required: false}\n", n-1)
	var inputs, required strings.Builder
	for k := range min(n, kinds) {
		fmt.Fprintf(&inputs, ", r%[1]d: {$ref: \"#/defs/R%[1]d\"}", k)
		fmt.Fprintf(&required, ", r%d", k)
	}
	return []byte(fmt.Sprintf(`apiVersion: chimera/v1
kind: Plan
name: orders
version: 1.0.0
defs:
%sinput_schema: {type: object, properties: {%s}, required: [%s]}
output_schema: {type: object, properties: {record: {$ref: "#/defs/R%d"}}}
nodes:
%sedges:
%s`, defs.String(), inputs.String()[2:], required.String()[2:], (n-1)%kinds, nodes.String(), edges.String()))
}
