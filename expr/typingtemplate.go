package expr

import (
	"slices"
	"strings"

	"chimera.ai/engine/schemas"
)

// Check proves that the template's expressions cannot fail, for all values that
// ty allows. It gives the template with the conversions of numbers written out
// that its arithmetic needs, a schema of its results, and what is not proved.
// The template and the schema are to be used only if no problem is strict; where
// there are others, the schema is that of the results for which nothing fails.
func (t *Template) Check(ty Typing) (value any, result *schemas.Schema, problems []TemplateProblem) {
	c := templateChecker{typing: ty, left: maxTemplate}
	value, result = c.node(&t.root)
	return value, result, c.problems
}

type templateChecker struct {
	typing Typing
	// left are the steps that are left for the whole template.
	left     int
	problems []TemplateProblem
}

func (c *templateChecker) node(n *node) (any, *schemas.Schema) {
	switch n.kind {
	case constantNode:
		return n.constant, exactly(n.constant)
	case leafNode, textNode:
		return c.text(n)
	case listNode:
		list := make([]any, len(n.children))
		size := len(list)
		k := schemas.Keywords{Types: []string{"array"}, MinItems: &size, MaxItems: &size}
		for i := range n.children {
			var s *schemas.Schema
			list[i], s = c.node(&n.children[i])
			k.Prefix = append(k.Prefix, s)
		}
		return list, schemas.Make(k)
	case mapNode:
	}
	object := make(map[string]any, len(n.keys))
	k := schemas.Keywords{Types: []string{"object"}, Properties: map[string]*schemas.Schema{}, Required: n.keys, Rest: nothing}
	for i, key := range n.keys {
		object[key], k.Properties[key] = c.node(&n.children[i])
	}
	return object, schemas.Make(k)
}

// text checks the expressions of one string.
func (c *templateChecker) text(n *node) (any, *schemas.Schema) {
	var sb strings.Builder
	at := 0
	length := between(0, 0)
	folded, constant := "", true
	var whole *schemas.Schema
	for i := range n.pieces {
		p := &n.pieces[i]
		if p.code == nil {
			size := int64(runes(p.text))
			length = calculate("_+_", []interval{length, between(size, size)}, true)
			folded += p.text
			continue
		}
		work := newAllowance(c.typing, min(c.left, maxCheck))
		given := work.steps
		j := newJudge(p.code, c.typing, work)
		v := j.judge()
		j.fits(v, n.kind == leafNode)
		source, problems := j.finish()
		c.left -= max(given, 0) - max(j.steps, 0)
		for _, problem := range problems {
			problem.Offset += p.offset
			c.problems = append(c.problems, TemplateProblem{Path: slices.Clone(n.path), Problem: problem})
		}
		sb.WriteString(n.source[at:p.offset])
		sb.WriteString(source)
		at = p.offset + len(p.code.src)
		whole = v.schema
		if len(problems) > 0 {
			// What was found out may rest on what is not proved.
			whole, constant, length = anything, false, between(0, maxText)
			continue
		}
		text, ok := textual(v)
		folded += text
		constant = constant && ok && len(folded) <= maxFold
		length = calculate("_+_", []interval{length, j.textLength(v)}, true)
	}
	sb.WriteString(n.source[at:])
	switch {
	case n.kind == leafNode:
		return sb.String(), whole
	case constant:
		return sb.String(), exactly(folded)
	}
	return sb.String(), textOf(length)
}

// textual gives the text of a value in a string, if it is known.
func textual(v known) (string, bool) {
	one, ok := v.value()
	if !ok {
		return "", false
	}
	switch one := one.(type) {
	case string:
		return one, true
	case bool:
		if one {
			return "true", true
		}
		return "false", true
	}
	return "", false
}

// textLength is the length of a value's text in a string.
func (j *judge) textLength(v known) interval {
	if v.form == formJSON && j.kinds(v.schema)&^isText == 0 {
		return j.lengths(v.schema, isText)
	}
	return between(0, maxText)
}

// fits reports a result that has no place in JSON, or in a string.
func (j *judge) fits(v known, alone bool) {
	if v.broken {
		return
	}
	switch {
	case v.form == formOptional:
		j.report(Problem{Kind: Wrong, Message: "the result is an optional value", Hint: "say what stands for a missing one with .orValue(…)"})
	case v.form != formJSON:
		j.report(Problem{Kind: Wrong, Message: "the result is " + j.describe(v) + ", which JSON does not have", Hint: "make it a string with string(…)"})
	case !alone && !j.only(v.schema, isText|isNumber|isBool):
		have := j.refined(v.schema)
		p := Problem{Kind: MayFail, Message: "only strings, numbers and booleans can stand inside a string; this may be " + orKinds(have&^(isText|isNumber|isBool))}
		if have&(isText|isNumber|isBool) == 0 {
			p.Kind, p.Message = Wrong, "only strings, numbers and booleans can stand inside a string; this is "+orKinds(have)
		} else if v.at != nil {
			p.Hint = guard(v.at.String(), have&(isText|isNumber|isBool)) + " ? " + v.at.String() + " : …"
		}
		if have == 0 {
			return
		}
		j.report(p)
	}
}
