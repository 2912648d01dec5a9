package causal

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Simulator evaluates a model. It does not change and is safe for concurrent use.
type Simulator struct {
	model *Model
}

// OutsideError reports an intervention for which the model is not valid.
type OutsideError struct{ Variable, Message string }

func (e *OutsideError) Error() string { return fmt.Sprintf("%s: %s", e.Variable, e.Message) }

// New returns the simulator of a model, or an error if that cannot be evaluated: it does not pass [Check],
// or a mechanism of it is missing.
func New(m *Model) (*Simulator, error) { return nil, errors.New("not supported yet: simulators") }

// Model is the model. It must not be changed.
func (s *Simulator) Model() *Model { return s.model }

// Bind gives the interventions of a call, in the order of their variables' names, by decoded arguments (as
// schemas.Decode yields them). Its error is an [*OutsideError] if the model is not valid for a value, and
// else says why an expression has none.
func (s *Simulator) Bind(args any) ([]Intervention, error) { return nil, nil }

// Simulate predicts what interventions bring about. The seed is that of the random numbers: any text. Its
// error is an [*OutsideError] if the model is not valid for an intervention, and else says what cannot be
// calculated.
func (s *Simulator) Simulate(do []Intervention, seed string) (*Prediction, error) { return nil, nil }

// Observe gives what was measured of the KPIs, by name: what each observation of the model says of a call's
// arguments and output. Those whose expression has no value are left out, and are named in the error.
func (s *Simulator) Observe(args, output any) (map[string]Value, error) { return nil, nil }

var _ = json.Number("")
