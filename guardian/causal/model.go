package causal

import (
	"encoding/json"
	"errors"
	"fmt"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// Model is a structural causal model (kind: CausalModel), as a value. Its lists are sorted: variables,
// parents, bindings, KPIs and observations by name. [Check] says whether it is one that can be
// evaluated.
type Model struct {
	Name        string `json:"name"`
	Version     string `json:"version,omitempty"`
	Description string `json:"description,omitempty"`
	// Operations are those that it is about, as "provider/operation".
	Operations []string   `json:"operations"`
	Variables  []Variable `json:"variables"`
	// Bind gives, for the call of an operation, the values that it sets.
	Bind []Binding `json:"bind"`
	KPIs []KPI     `json:"kpis"`
	// Observe gives what was measured of KPIs, once the call has succeeded.
	Observe []Binding `json:"observe,omitempty"`
	// Samples is how many worlds are sampled, where no closed form exists.
	Samples int `json:"samples"`
}

// Variable is one quantity, or one category, of a model, and how its value comes about. Exactly one
// of Value, Linear, Table and Expression is there if it has parents; without parents there is Value,
// or Noise alone.
type Variable struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Values are the categories, in the order of the file. Without them the variable is a number.
	Values []string `json:"values,omitempty"`
	// Range holds the numbers for which the model is valid: an intervention outside of it is refused.
	Range   *Range   `json:"range,omitempty"`
	Parents []string `json:"parents,omitempty"`
	// Value is what a variable without parents and noise always is.
	Value *Value `json:"value,omitempty"`
	// Linear is the intercept, and for each parent, which is a number, its weight. Noise is added.
	Linear *Linear `json:"linear,omitempty"`
	// Table has one row for each combination of the parents' categories.
	Table []Row `json:"table,omitempty"`
	// Expression is CEL over the parents' names and `noise`, by the rules of [expr.Numeric].
	Expression string `json:"expression,omitempty"`
	Noise      *Noise `json:"noise,omitempty"`
	// Provenance says where mechanism and noise come from, and Fit how they were fitted.
	Provenance Provenance `json:"provenance"`
	Fit        *Fit       `json:"fit,omitempty"`
}

// Categorical reports whether the variable has categories.
func (v *Variable) Categorical() bool { return len(v.Values) > 0 }

// Drafted reports whether the mechanism of the variable is missing: it is to be fitted.
func (v *Variable) Drafted() bool {
	return v.Value == nil && v.Linear == nil && v.Table == nil && v.Expression == "" && (len(v.Parents) > 0 || v.Noise == nil)
}

// Range is a closed interval of numbers.
type Range struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Value is a category, or a number if Category is "". As JSON it is a string or a number.
type Value struct {
	Category string
	Number   float64
}

// String formats the value for people.
func (v Value) String() string {
	if v.Category != "" {
		return v.Category
	}
	return string(number(v.Number))
}

// MarshalJSON implements [json.Marshaler].
func (v Value) MarshalJSON() ([]byte, error) {
	if v.Category != "" {
		return json.Marshal(v.Category)
	}
	return json.Marshal(v.Number)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (v *Value) UnmarshalJSON(raw []byte) error {
	*v = Value{}
	if len(raw) > 0 && raw[0] == '"' {
		if err := json.Unmarshal(raw, &v.Category); err != nil || v.Category == "" {
			return fmt.Errorf("a value is a number or the name of a category: %.40s", raw)
		}
		return nil
	}
	if string(raw) == "null" {
		// Package json would leave it at 0.
		return errors.New("a value is a number or the name of a category, and not null")
	}
	return json.Unmarshal(raw, &v.Number)
}

// Linear is the mechanism intercept + Σ weight · parent + noise.
type Linear struct {
	Intercept float64            `json:"intercept"`
	Weights   map[string]float64 `json:"weights"`
}

// Row is what a table says for one combination of categories.
type Row struct {
	// When gives the category of each parent.
	When map[string]string `json:"when"`
	// P gives the probabilities of the variable's own categories; what is left out has 0.
	P map[string]float64 `json:"p,omitempty"`
	// Value is that of a variable which is a number. Noise is added.
	Value *float64 `json:"value,omitempty"`
}

// Noise is the distribution of what a model does not explain. Exactly one is there.
type Noise struct {
	Normal    *Normal  `json:"normal,omitempty"`
	Uniform   *Range   `json:"uniform,omitempty"`
	Bernoulli *float64 `json:"bernoulli,omitempty"`
	// Categorical gives the probabilities of a variable with categories, which has no parents.
	Categorical map[string]float64 `json:"categorical,omitempty"`
	// Empirical are numbers of which each is as probable.
	Empirical []float64 `json:"empirical,omitempty"`
}

// Normal is a normal distribution.
type Normal struct {
	Mean float64 `json:"mean"`
	SD   float64 `json:"sd"`
}

// Provenance says where a mechanism comes from.
type Provenance string

// The provenances.
const (
	// Assumed: somebody has written it down.
	Assumed Provenance = "assumed"
	// Fitted: it was estimated from data.
	Fitted Provenance = "fitted"
)

// Fit says how a mechanism was fitted.
type Fit struct {
	// Source names the data, and Digest identifies them.
	Source string `json:"source"`
	Digest string `json:"digest"`
	// Rows counts those that it was fitted to, and HeldOut those by which it was tested.
	Rows    int `json:"rows"`
	HeldOut int `json:"held_out"`
	// Adjusted are the variables by which confounding was adjusted for (a back-door set).
	Adjusted []string `json:"adjusted,omitempty"`
	// Marginalized are parents that were not measured, whose edge was taken out: their influence is noise.
	Marginalized []string `json:"marginalized,omitempty"`
	// Errors are the standard errors, by coefficient: "intercept", a parent, or the row and the category of
	// a table.
	Errors map[string]float64 `json:"standard_errors,omitempty"`
	// HeldOutError is the root mean square error, or for categories the mean Brier score, of the rows held out.
	HeldOutError *float64 `json:"held_out_error,omitempty"`
}

// Binding is an expression that gives the value of a variable: CEL over `args`, and for observations
// over `output` too.
type Binding struct {
	Variable   string `json:"variable"`
	Expression string `json:"expression"`
}

// KPI is a bound of a variable, which is broken outside of it.
type KPI struct {
	Variable string `json:"variable"`
	// Min and Max are the bounds of a number. What equals one does not break it.
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
	// Allow are the categories that break nothing.
	Allow []string `json:"allow,omitempty"`
	Unit  string   `json:"unit,omitempty"`
}

// Bounded reports whether the KPI can be broken.
func (k *KPI) Bounded() bool { return k.Min != nil || k.Max != nil || len(k.Allow) > 0 }

// Bounds of a model.
const (
	// MaxFile bounds a model's file, in bytes.
	MaxFile       = 1 << 20
	MaxVariables  = 256
	MaxParents    = 32
	MaxCategories = 64
	// MaxRows bounds each table, MaxEmpirical each empirical distribution.
	MaxRows      = 4096
	MaxEmpirical = 10_000
	MaxKPIs      = 32
	// DefaultSamples are taken where a model says nothing.
	DefaultSamples = 20_000
	MinSamples     = 1_000
	MaxSamples     = 100_000
	// MaxWork bounds samples times steps of a model: about 0.4 s of one processor.
	MaxWork = 20_000_000
	// MaxNumber bounds the size of each number of a model.
	MaxNumber = 1e100
)

// Digest identifies the model: "sha256:" and 64 hex digits.
func (m *Model) Digest() string {
	raw, err := canonical(m)
	if err != nil {
		// Only a model made by code can have a number that is none.
		raw = []byte(err.Error())
	}
	return plan.DigestOf(append([]byte("causal-model/1\x00"), raw...))
}

// canonical returns canonical JSON of a value.
func canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	decoded, err := schemas.Decode(raw)
	if err != nil {
		return nil, err
	}
	return plan.Canonical(decoded)
}

// Variable returns the variable of a name, or nil.
func (m *Model) Variable(name string) *Variable {
	for i := range m.Variables {
		if m.Variables[i].Name == name {
			return &m.Variables[i]
		}
	}
	return nil
}
