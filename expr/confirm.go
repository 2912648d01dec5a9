package expr

// confirm keeps a witness only if the expression fails for it. What the other
// names hold is any value that they can have.
func (j *judge) confirm(source string) {
	var c *code
	for i := range j.problems {
		p := &j.problems[i]
		if p.Name == "" {
			continue
		}
		if c == nil {
			var bad *Error
			if c, bad = compile(source, j.code.scope); bad != nil {
				c = j.code
			}
		}
		if !j.fails(c, p, j.where[i]) {
			p.Name, p.Witness = "", nil
		}
	}
}

// fails evaluates the expression for a witness.
func (j *judge) fails(c *code, p *Problem, where names) bool {
	vars := Vars{p.Name: p.Witness}
	for _, name := range c.reads {
		if name == p.Name {
			continue
		}
		if j.port != "" && (name == nameValue && p.Name == nameOutput || name == nameOutput && p.Name == nameValue) {
			return false
		}
		known, ok := where.of(name)
		if !ok || known.local {
			known, _ = j.names.of(name)
		}
		v, ok := j.some(known.schema)
		if !ok {
			return false
		}
		vars[name] = v
	}
	v, bad := c.eval(vars, newBudget(), 0)
	if bad != nil {
		return true
	}
	if j.accepts != nil {
		return !j.accepts(v)
	}
	if p.Kind == Predicate {
		_, ok := v.(bool)
		return !ok
	}
	return false
}
