package intake

import (
	"encoding/json"
	"errors"
	"fmt"

	"chimera.ai/engine/schemas"
)

// MaxDefinition is the length of a definition, in bytes.
const MaxDefinition = 1 << 20

// definition is what a server declares of a tool.
type definition struct {
	fields                   map[string]any
	name, title, description string
}

// read decodes a definition, within the bounds of [schemas.Decode].
func read(raw json.RawMessage) (*definition, error) {
	if len(raw) > MaxDefinition {
		return nil, fmt.Errorf("the definition of a tool has %d bytes, more than %d", len(raw), MaxDefinition)
	}
	v, err := schemas.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("the definition of a tool: %w", err)
	}
	d := new(definition)
	var ok bool
	if d.fields, ok = v.(map[string]any); !ok {
		return nil, errors.New("the definition of a tool is not an object")
	}
	if d.name, _ = d.fields["name"].(string); d.name == "" {
		return nil, errors.New("the definition of a tool has no name")
	}
	d.title, _ = d.fields["title"].(string)
	d.description, _ = d.fields["description"].(string)
	return d, nil
}

// argument is a property of the input schema, at any depth.
type argument struct {
	name, description string
	// values are the strings of its enum.
	values []string
}

// arguments returns the properties of the input schema.
func (d *definition) arguments() (all []argument) {
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for key, e := range v {
				properties, ok := e.(map[string]any)
				if key != "properties" || !ok {
					walk(e)
					continue
				}
				for name, schema := range properties {
					all = append(all, argumentOf(name, schema))
					walk(schema)
				}
			}
		}
	}
	walk(d.fields["inputSchema"])
	return all
}

func argumentOf(name string, schema any) argument {
	a := argument{name: name}
	fields, _ := schema.(map[string]any)
	a.description, _ = fields["description"].(string)
	values, _ := fields["enum"].([]any)
	for _, v := range values {
		if s, ok := v.(string); ok {
			a.values = append(a.values, s)
		}
	}
	return a
}
