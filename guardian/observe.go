package guardian

import (
	"encoding/json"
	"math"

	"chimera.ai/engine/guardian/causal"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/schemas"
)

// Observes reports whether a model of the bundle says what is measured of calls of an operation.
func (g *Gate) Observes(operation string) bool {
	m, _ := g.observer(operation)
	return m != nil && len(m.Model().Observe) > 0
}

// Observe returns what was measured of a call that has succeeded, by its arguments and its output: a
// JSON object, which gives the KPIs of the prediction their values, numbers and categories. It is nil if
// there are none, and unless the bundle's model of the operation is the one of the prediction, which has
// that digest: another may measure something else by the same name. What has no value is left out.
func (g *Gate) Observe(operation, model string, args, output json.RawMessage) json.RawMessage {
	m, digest := g.observer(operation)
	if m == nil || digest != model {
		return nil
	}
	in, err := schemas.Decode(args)
	if err != nil {
		return nil
	}
	out, err := schemas.Decode(output)
	if err != nil {
		return nil
	}
	measured, _ := m.Observe(in, out) // the error names those without a value
	for name, v := range measured {
		if !(math.Abs(v.Number) <= ledger.MaxObservedNumber) { // for one of them the ledger would take none
			delete(measured, name)
		}
	}
	if len(measured) == 0 {
		return nil
	}
	raw, err := json.Marshal(measured)
	if err != nil {
		return nil
	}
	return raw
}

// observer returns what evaluates the observations of an operation's model, and the digest of that model;
// or nil.
func (g *Gate) observer(operation string) (*causal.Simulator, string) {
	m := g.models[operation]
	if m == nil {
		return nil, ""
	}
	return m.typed, m.digest
}
