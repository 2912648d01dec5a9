package causal

import "chimera.ai/engine/diag"

// Parse reads a model's file (kind: CausalModel) of one document, YAML or JSON. The model is nil if and only
// if the diagnostics contain an error. Parse is pure.
func Parse(src diag.Source) (*Model, diag.Diagnostics) { return nil, nil }

// ParseDraft reads a model of which mechanisms may be missing, which are to be fitted: see
// [Variable.Drafted].
func ParseDraft(src diag.Source) (*Model, diag.Diagnostics) { return nil, nil }

// Problem is something for which a model cannot be evaluated.
type Problem struct {
	// Path leads to it in the JSON of a file: keys (string) and indexes (int).
	Path                        []any
	Summary, Detail, Suggestion string
}

// Check says what is wrong with a model, whose mechanisms may be missing.
func Check(m *Model) []Problem { return nil }
