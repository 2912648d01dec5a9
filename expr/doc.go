// Package expr is the expressions of plans: CEL predicates and JSON templates.
package expr

// Scope says which names an expression may read.
type Scope int

// The scopes.
const (
	// When: predicate of a conditional edge; value, output, input.
	When Scope = iota
	// Transform: transform of a data or conditional edge; value, output, input.
	Transform
	// With: input.
	With
	// ErrorWhen: predicate of an error edge; error, input.
	ErrorWhen
	// ErrorTransform: value, error, input; value is the error payload.
	ErrorTransform
	// Compensate: args, output, error, input.
	Compensate
)

// Error is what is wrong with an expression.
type Error struct {
	// Offset counts bytes in the expression's text.
	Offset  int
	Message string
}

func (e *Error) Error() string { return e.Message }

const pending = "not supported yet: expressions"

// Program is a compiled predicate. It is safe for concurrent use.
type Program struct{}

// CompilePredicate compiles a CEL expression that must give a bool. Its error is an *Error.
func CompilePredicate(src string, scope Scope) (*Program, error) {
	return nil, &Error{Message: pending}
}

// Reads reports whether the expression reads that name.
func (p *Program) Reads(name string) bool { return false }

// EvalBool evaluates.
func (p *Program) EvalBool(vars Vars) (bool, error) { return false, &Error{Message: pending} }

// Vars are the values of names: decoded JSON with json.Number.
type Vars map[string]any

// Template is a compiled JSON template. It is safe for concurrent use.
type Template struct{}

// TemplateError is what is wrong with one string of a template.
type TemplateError struct {
	// Path holds map keys (string) and list indexes (int) that lead to the string.
	Path []any
	// Offset counts bytes in that string.
	Offset  int
	Message string
}

func (e TemplateError) Error() string { return e.Message }

// CompileTemplate compiles decoded JSON whose strings may hold ${…}.
func CompileTemplate(v any, scope Scope) (*Template, []TemplateError) {
	return nil, []TemplateError{{Message: pending}}
}

// Reads reports whether any expression of the template reads that name.
func (t *Template) Reads(name string) bool { return false }

// Constant reports whether the template holds no expression.
func (t *Template) Constant() bool { return false }

// Eval gives decoded JSON with json.Number.
func (t *Template) Eval(vars Vars) (any, error) { return nil, &Error{Message: pending} }
