package expr

import (
	"slices"
	"strings"
)

// Scope says which names an expression may read.
type Scope int

// The scopes.
const (
	// When is the predicate of a conditional edge: value, output, input.
	When Scope = iota
	// Transform is the transform of a data or conditional edge: value, output, input.
	Transform
	// With fills an input port of a node: input.
	With
	// ErrorWhen is the predicate of an error edge: error, input.
	ErrorWhen
	// ErrorTransform is the transform of an error edge: value, error, input.
	// value is the error's payload, as error is.
	ErrorTransform
	// Compensate is the transform of a compensate edge: args, output, error, input.
	Compensate
	// Action is a predicate of a policy: action, the effect that is judged.
	Action
	// Estimate is what a plan says that a call costs: args, the node's resolved
	// input, and input.
	Estimate
	// Price is what a catalog says that a call costs: args.
	Price
	// Charge is what a catalog says that a call has cost: args, output.
	Charge
	// Adapter is the transform of an adapter in a catalog: value.
	Adapter
)

// Vars are the values of names: decoded JSON with [encoding/json.Number]. They
// are not changed.
type Vars map[string]any

// Names that expressions read.
const (
	nameValue  = "value"
	nameOutput = "output"
	nameInput  = "input"
	nameError  = "error"
	nameArgs   = "args"
	nameAction = "action"
)

var scopes = [...][]string{
	When:           {nameValue, nameOutput, nameInput},
	Transform:      {nameValue, nameOutput, nameInput},
	With:           {nameInput},
	ErrorWhen:      {nameError, nameInput},
	ErrorTransform: {nameValue, nameError, nameInput},
	Compensate:     {nameArgs, nameOutput, nameError, nameInput},
	Action:         {nameAction},
	Estimate:       {nameArgs, nameInput},
	Price:          {nameArgs},
	Charge:         {nameArgs, nameOutput},
	Adapter:        {nameValue},
}

// Names lists the names that expressions of the scope may read.
func (s Scope) Names() []string {
	if s < 0 || int(s) >= len(scopes) {
		return nil
	}
	return slices.Clone(scopes[s])
}

// list writes the names of the scope for a message.
func (s Scope) list() string { return strings.Join(s.Names(), ", ") }
