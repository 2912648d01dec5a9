package expr

import (
	"errors"
	"fmt"
	"slices"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"
)

// Program is a compiled predicate. It does not change and is safe for
// concurrent use.
type Program struct{ code *code }

// CompilePredicate compiles a CEL expression that must give a boolean. Its error
// is an [*Error].
func CompilePredicate(src string, scope Scope) (*Program, error) {
	c, bad := compile(src, scope)
	if bad != nil {
		return nil, bad
	}
	if t := c.output(); !t.IsExactType(types.DynType) && !t.IsExactType(types.BoolType) {
		return nil, errorf(0, "a condition must be true or false; this is of type %s", cel.FormatCELType(t))
	}
	return &Program{code: c}, nil
}

// Reads reports whether the expression reads that name.
func (p *Program) Reads(name string) bool { return slices.Contains(p.code.reads, name) }

// EvalBool evaluates the predicate. Its error is an [*Error].
func (p *Program) EvalBool(vars Vars) (bool, error) {
	v, bad := p.code.eval(vars, newBudget(), 0)
	if bad != nil {
		return false, bad
	}
	b, ok := v.(bool)
	if !ok {
		return false, errorf(0, "a condition must be true or false; this is %s", kindOf(v))
	}
	return b, nil
}

// eval evaluates an expression to decoded JSON that stands at a depth.
func (c *code) eval(vars Vars, b *budget, depth int) (v any, bad *Error) {
	defer func() {
		// No case is known, but an evaluation must not end the process.
		if r := recover(); r != nil {
			v, bad = nil, errorf(0, "the expression cannot be evaluated: %v", r)
		}
	}()
	if c.path != nil {
		if v, bad = follow(c.path, vars); bad != nil {
			return nil, bad
		}
		if err := b.pass(v, depth); err != nil {
			return nil, errorf(c.path[0].offset, "%v", err)
		}
		return v, nil
	}
	for _, name := range c.reads {
		if _, ok := vars[name]; !ok {
			return nil, errorf(0, "%s has no value here", name)
		}
	}
	program, err := c.program()
	if err != nil {
		return nil, errorf(0, "%v", err)
	}
	out, details, err := program.Eval(map[string]any(vars))
	if err != nil {
		return nil, c.failure(err, out)
	}
	if cost := details.ActualCost(); cost != nil {
		if err := b.spend(*cost); err != nil {
			return nil, errorf(0, "%v", err)
		}
	}
	v, err = b.result(out, depth)
	if err != nil {
		return nil, c.failure(err, nil)
	}
	return v, nil
}

// failure places an error of an evaluation.
func (c *code) failure(err error, out ref.Val) *Error {
	var cancelled interpreter.EvalCancelledError
	if errors.As(err, &cancelled) {
		return errorf(0, "%v", errSteps)
	}
	at := 0
	var celErr *types.Err
	if !errors.As(err, &celErr) {
		celErr, _ = out.(*types.Err)
	}
	if celErr != nil {
		at = place(c.ast, c.src, celErr.NodeID())
	}
	return errorf(at, "%s", fmt.Sprint(err))
}
