package causal

import (
	"regexp"

	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
)

// ModelFields and those below are the tables of a model's file. schemas/causal.json states the same
// for editors; a test compares the two.
var ModelFields = &fields.Table{What: "a causal model", Fields: []fields.Field{
	fields.Required("apiVersion", fields.FormText, "always `chimera/v1`"),
	fields.Required("kind", fields.FormText, "always `CausalModel`"),
	fields.Required("name", fields.FormText, "the model's name: lower-case letters, digits and hyphens"),
	fields.Optional("version", fields.FormText, "the model's version, such as \"1\""),
	fields.Optional("description", fields.FormText, "a description for people"),
	fields.Required("operations", fields.FormList, "the list of operations, as `provider/operation`, that it is about"),
	fields.Optional("samples", fields.FormNumber, "the number of worlds that are sampled where no closed form exists; absent: 20000"),
	fields.Required("variables", fields.FormMap, "a map of the variables by name"),
	fields.Optional("bind", fields.FormMap, "a map from variables to CEL over `args`: what a call sets them to; only a draft has none"),
	fields.Optional("kpis", fields.FormMap, "a map from variables to their bounds; only a draft has none"),
	fields.Optional("observe", fields.FormMap, "a map from KPIs to CEL over `args` and `output`: what was measured once the call has succeeded"),
}}

var VariableFields = &fields.Table{What: "a variable", Fields: []fields.Field{
	fields.Optional("description", fields.FormText, "a description for people"),
	fields.Optional("values", fields.FormList, "the list of categories, in order; absent: the variable is a number"),
	fields.Optional("range", fields.FormList, "the list `[min, max]` of the numbers for which the model is valid"),
	fields.Optional("parents", fields.FormList, "the list of variables that it depends on"),
	fields.Optional("value", fields.FormNumber|fields.FormText, "what a variable without parents and noise is unless an action sets it"),
	fields.Optional("linear", fields.FormMap, "a mechanism: intercept + Σ weight · parent + noise"),
	fields.Optional("table", fields.FormList, "a mechanism: the list of rows, one for each combination of the parents' categories"),
	fields.Optional("expression", fields.FormText, "a mechanism: CEL over the parents and `noise`"),
	fields.Optional("noise", fields.FormMap, "the distribution of what the model does not explain"),
	fields.Optional("provenance", fields.FormText, "where the mechanism comes from: `assumed` or `fitted`; absent: `assumed`"),
	fields.Optional("fit", fields.FormMap, "how a fitted mechanism was fitted"),
}, Nested: []fields.Nested{{Field: "linear", Table: LinearFields}, {Field: "noise", Table: NoiseFields}}}

var LinearFields = &fields.Table{What: "a `linear` map", Fields: []fields.Field{
	fields.Optional("intercept", fields.FormNumber, "what is added to all; absent: 0"),
	fields.Required("weights", fields.FormMap, "a map from each parent to its weight"),
}}

var RowFields = &fields.Table{What: "a row", Fields: []fields.Field{
	fields.Required("when", fields.FormMap, "a map from each parent to the category that the row is about"),
	fields.Optional("p", fields.FormMap, "a map from categories of the variable to their probabilities; those left out have 0"),
	fields.Optional("value", fields.FormNumber, "the value of a variable that is a number"),
}}

var NoiseFields = &fields.Table{What: "a `noise` map", Fields: []fields.Field{
	fields.Optional("normal", fields.FormMap, "a normal distribution"),
	fields.Optional("uniform", fields.FormMap, "a uniform distribution"),
	fields.Optional("bernoulli", fields.FormNumber, "the probability of 1, else 0"),
	fields.Optional("categorical", fields.FormMap, "a map from categories of a variable without parents to their probabilities; those left out have 0"),
	fields.Optional("empirical", fields.FormList, "a list of numbers of which each is as probable"),
}, Nested: []fields.Nested{{Field: "normal", Table: NormalFields}, {Field: "uniform", Table: UniformFields}}}

var NormalFields = &fields.Table{What: "a `normal` map", Fields: []fields.Field{
	fields.Optional("mean", fields.FormNumber, "the mean; absent: 0"),
	fields.Required("sd", fields.FormNumber, "the standard deviation, more than 0"),
}}

var UniformFields = &fields.Table{What: "a `uniform` map", Fields: []fields.Field{
	fields.Required("min", fields.FormNumber, "the smallest number"),
	fields.Required("max", fields.FormNumber, "the largest number"),
}}

var FitFields = &fields.Table{What: "a `fit` map", Fields: []fields.Field{
	fields.Required("source", fields.FormText, "the name of the data"),
	fields.Required("digest", fields.FormText, "the digest of the data: `sha256:` and 64 hex digits"),
	fields.Required("rows", fields.FormNumber, "the number of rows that it was fitted to"),
	fields.Required("held_out", fields.FormNumber, "the number of rows that it was tested by"),
	fields.Optional("adjusted", fields.FormList, "the list of variables by which confounding was adjusted for"),
	fields.Optional("marginalized", fields.FormList, "the list of variables, once parents, whose influence is part of the noise"),
	fields.Optional("standard_errors", fields.FormMap, "a map from coefficients to their standard errors"),
	fields.Optional("held_out_error", fields.FormNumber, "the root mean square error, or the mean Brier score, of the rows held out"),
}}

var KPIFields = &fields.Table{What: "a KPI", Fields: []fields.Field{
	fields.Optional("min", fields.FormNumber, "the smallest number that does not break it"),
	fields.Optional("max", fields.FormNumber, "the largest number that does not break it"),
	fields.Optional("allow", fields.FormList, "the list of categories that do not break it"),
	fields.Optional("unit", fields.FormText, "the unit, for people"),
}}

// Provenances are the words of `provenance`.
var Provenances = []string{string(Assumed), string(Fitted)}

// VariableNames are the names of variables: see [Reserved].
var VariableNames = fields.Grammar{Re: regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,62}$`), Say: "1 to 63 letters, digits and `_`, and does not start with a digit"}

// Reserved are the names that no variable may have: expressions read them otherwise. They are the name
// of the noise, the words that CEL reserves, and the types of CEL.
var Reserved = []string{
	nameNoise,
	"as", "break", "const", "continue", "else", "false", "for", "function", "if", "import", "in", "let", "loop", "namespace", "null",
	"package", "return", "true", "var", "void", "while",
	"bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "optional_type", "string", "type", "uint",
}

// nameNoise is what an expression calls the noise of its variable.
const nameNoise = "noise"

// Bounds of a model's texts and lists, besides those of its numbers.
const (
	// MaxOperations bounds the operations of a model.
	MaxOperations = 1_000
	// MaxCategory bounds the name of a category, and MaxUnit a unit, in bytes.
	MaxCategory = 64
	MaxUnit     = 64
	// MaxExpressions bounds all expressions of a model together, in bytes: compiling them takes longer than
	// reading the file.
	MaxExpressions = 64 << 10
)

// limits bounds a file before it is interpreted.
var limits = syntax.Limits{Bytes: MaxFile, Depth: 16, Nodes: MaxFile / 2, AliasNodes: 10_000}
