package containment_test

import (
	"fmt"

	"chimera.ai/engine/containment"
	"chimera.ai/engine/schemas"
)

func parse(text string) *schemas.Schema {
	s, err := schemas.Compile([]byte(text))
	if err != nil {
		panic(err)
	}
	return s
}

func ExampleProve() {
	offer := parse(`{"type": "object", "properties": {"amount": {"type": "integer", "minimum": 0}}, "required": ["amount"]}`)
	takes := parse(`{"type": "object", "properties": {"amount": {"type": "number"}}, "required": ["amount"]}`)
	fmt.Println(containment.Prove(offer, takes, containment.Options{}).Verdict)

	strict := parse(`{"type": "object", "properties": {"amount": {"exclusiveMinimum": 0}}}`)
	r := containment.Prove(offer, strict, containment.Options{})
	fmt.Println(r.Verdict, string(r.JSON))
	// Output:
	// proved
	// refuted {"amount":0}
}

// An Unknown says which keyword of which side stopped the proof, or what ran out.
func ExampleProve_unknown() {
	// This draft has no dependencies any more, though validators may check them.
	r := containment.Prove(parse(`{"type": "object"}`), parse(`{"dependencies": {"a": ["b"]}}`), containment.Options{})
	fmt.Println(r.Verdict, r.Reason)

	list := parse(`{"type": "array", "items": {"type": "string"}}`)
	r = containment.Prove(list, parse(`{"maxItems": 5}`), containment.Options{Steps: 2})
	fmt.Println(r.Verdict, r.Reason)
	// Output:
	// unknown rhs: #/dependencies
	// unknown more than 2 steps
}

func ExampleDisjoint() {
	text, count := parse(`{"type": "string"}`), parse(`{"type": ["integer", "null"]}`)
	fmt.Println(containment.Disjoint(text, count, containment.Options{}).Verdict)
	// Output: proved
}

func ExampleEmpty() {
	r := containment.Empty(parse(`{"type": "string", "pattern": "^[0-9]+$", "minLength": 3}`), containment.Options{})
	fmt.Println(r.Verdict, string(r.JSON))
	// Output: refuted "000"
}

// Alternatives that contradict the rest are left out of a part.
func ExampleProperty() {
	s := parse(`{
		"oneOf": [
			{"type": "object", "properties": {"kind": {"const": "a"}, "x": {"type": "integer"}}, "required": ["kind"]},
			{"type": "object", "properties": {"kind": {"const": "b"}, "x": {"type": "string"}}, "required": ["kind"]}
		],
		"properties": {"kind": {"const": "b"}}
	}`)
	x := containment.Property(s, "x", containment.Options{})
	fmt.Println(containment.Prove(x, parse(`{"type": "string"}`), containment.Options{}).Verdict)
	// Output: proved
}

func ExampleElement() {
	s := parse(`{"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": "integer"}}`)
	first, any := containment.Element(s, 0, containment.Options{}), containment.Element(s, -1, containment.Options{})
	fmt.Println(containment.Prove(first, parse(`{"type": "string"}`), containment.Options{}).Verdict)
	fmt.Println(string(containment.Prove(any, parse(`{"type": "string"}`), containment.Options{}).JSON))
	// Output:
	// proved
	// 0
}
