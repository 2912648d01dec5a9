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
		if !j.fails(c, p) {
			p.Name, p.Witness = "", nil
		}
	}
}

func (j *judge) fails(c *code, p *Problem) bool {
	vars := Vars{p.Name: p.Witness}
	for _, name := range c.reads {
		if name == p.Name {
			continue
		}
		if j.port != "" && (name == nameValue && p.Name == nameOutput || name == nameOutput && p.Name == nameValue) {
			return false
		}
		v, ok := j.some(j.names[name].schema)
		if !ok {
			return false
		}
		vars[name] = v
	}
	v, bad := c.eval(vars, newBudget(), 0)
	if bad != nil {
		return true
	}
	if p.Kind == Predicate {
		_, ok := v.(bool)
		return !ok
	}
	return false
}
