package guardian

import (
	"math/big"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/containment"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// typeOf is the schema of the actions that rules see: of those that call an operation,
// or of any if t is nil. input is the schema of its inputs, or nil.
func typeOf(t *catalog.Template, input *schemas.Schema) *schemas.Schema {
	effects := schemas.Keywords{Enum: []any{"pure", "staged", "committing", "irreversible"}}
	properties := map[string]*schemas.Schema{
		"agent": text, "plan": text, "node": text, "operation": text, "fingerprint": text,
		"cost":      object("amount", text, "currency", text, "minor", whole(0, -1)),
		"taint":     object("decision", schemas.Make(schemas.Keywords{Types: []string{"boolean"}}), "ports", schemas.Make(schemas.Keywords{Types: []string{"array"}, Items: text})),
		"prechecks": schemas.Make(schemas.Keywords{Types: []string{"array"}, Items: object("node", text, "output", text)}),
		"run":       object("deployment", text, "namespace", text, "workflow", text, "origin", text, "path", text, "epoch", whole(0, -1)),
		"at":        object("date", text, "hour", whole(0, 23), "minute", whole(0, 59), "weekday", whole(0, 6)),
	}
	if t != nil {
		effects.Enum = []any{string(t.Effect)}
		properties["operation"] = schemas.Make(schemas.Keywords{Const: []any{t.Name()}})
	}
	properties["effect"] = schemas.Make(effects)
	properties["inputs"] = viewOf(input)
	k := schemas.Keywords{
		Types: []string{"object"}, Properties: properties, Rest: schemas.False(),
		Required: []string{"agent", "at", "effect", "inputs", "node", "operation", "plan", "run", "taint"},
	}
	return schemas.Make(k)
}

// viewOf is the schema of inputs as rules see them: see [view].
func viewOf(input *schemas.Schema) *schemas.Schema {
	if input == nil {
		return anObject
	}
	if containment.Prove(input, anObject, containment.Options{Steps: maxQuestion}).Verdict == containment.Proved {
		return input
	}
	return schemas.Make(schemas.Keywords{Any: []*schemas.Schema{
		schemas.Make(schemas.Keywords{All: []*schemas.Schema{input, anObject}}),
		object(plan.WholePort, schemas.Make(schemas.Keywords{All: []*schemas.Schema{input}, Not: anObject})),
	}})
}

// view is an input as rules see it: an object. Any other value stands in it as "$".
func view(input any) any {
	if _, ok := input.(map[string]any); ok {
		return input
	}
	return map[string]any{plan.WholePort: input}
}

var anObject = schemas.Make(schemas.Keywords{Types: []string{"object"}})

var text = schemas.Make(schemas.Keywords{Types: []string{"string"}})

// whole is the schema of whole numbers from low to high, or from low on if high is
// negative.
func whole(low, high int64) *schemas.Schema {
	k := schemas.Keywords{Types: []string{"integer"}, Minimum: big.NewRat(low, 1)}
	if high >= 0 {
		k.Maximum = big.NewRat(high, 1)
	}
	return schemas.Make(k)
}

// object is the schema of objects with exactly these properties: names and schemas in
// turn.
func object(properties ...any) *schemas.Schema {
	k := schemas.Keywords{Types: []string{"object"}, Rest: schemas.False(), Properties: map[string]*schemas.Schema{}}
	for i := 0; i < len(properties); i += 2 {
		name := properties[i].(string)
		k.Properties[name] = properties[i+1].(*schemas.Schema)
		k.Required = append(k.Required, name)
	}
	return schemas.Make(k)
}
