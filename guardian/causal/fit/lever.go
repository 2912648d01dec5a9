package fit

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"chimera.ai/engine/guardian/causal"
)

// levers adds one for each property of the schema that can be one.
func (d *draft) levers(schema any) {
	top, _ := schema.(map[string]any)
	properties, _ := top["properties"].(map[string]any)
	required, _ := top["required"].([]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p, _ := properties[name].(map[string]any)
		l := lever(name, p, slices.Contains(required, any(name)))
		if l == nil {
			d.note("the property %q is left out: no lever can be made of it", clip(name))
			continue
		}
		if len(d.m.Bind) == MaxLevers {
			d.note("more than %d properties could be levers: the others are left out, from %q on", MaxLevers, clip(name))
			return
		}
		if d.taken[l.v.Name] || slices.Contains(causal.Reserved, l.v.Name) {
			l.v.Name = clip("arg_" + l.v.Name)
		}
		if d.taken[l.v.Name] {
			d.note("the property %q is left out: another variable is called %s", clip(name), l.v.Name)
			continue
		}
		d.taken[l.v.Name] = true
		if l.of != nil && !l.limit(d.calls) {
			d.note("the range of `%s` is not known: write for which numbers the model is valid", l.v.Name)
		}
		d.m.Variables = append(d.m.Variables, l.v)
		d.m.Bind = append(d.m.Bind, causal.Binding{Variable: l.v.Name, Expression: l.expression})
	}
}

// clip cuts a name to what a variable's may have.
func clip(name string) string {
	if len(name) > 63 {
		return strings.ToValidUTF8(name[:63], "")
	}
	return name
}

// control is a lever in the making.
type control struct {
	v          causal.Variable
	expression string
	// of gives the number of arguments, where the lever is one.
	of       func(args any) (float64, bool)
	low, top *float64
}

var (
	notVariable = regexp.MustCompile(`[^A-Za-z0-9_]`)
	selectable  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// lever makes one of a property, or nil.
func lever(name string, p map[string]any, required bool) *control {
	variable := notVariable.ReplaceAllString(name, "_")
	if variable == "" || variable[0] >= '0' && variable[0] <= '9' {
		variable = "_" + variable
	}
	read, present := "args["+strconv.QuoteToASCII(name)+"]", strconv.QuoteToASCII(name)+" in args"
	if selectable.MatchString(name) && !slices.Contains(causal.Reserved, name) {
		read, present = "args."+name, "has(args."+name+")"
	}
	unless := func(value, otherwise string) string {
		if required {
			return value
		}
		return present + " ? " + value + " : " + otherwise
	}
	l := &control{v: causal.Variable{Name: variable, Provenance: causal.Assumed}}
	at := func(args any) (any, bool) {
		object, _ := args.(map[string]any)
		x, ok := object[name]
		return x, ok
	}
	if words := enumerated(p); words != nil {
		first := words[0]
		if word, ok := p["default"].(string); ok && slices.Contains(words, word) {
			first = word
		}
		l.v.Values, l.v.Value = words, &causal.Value{Category: first}
		l.expression = unless(read, strconv.QuoteToASCII(first))
		l.v.Name = clip(l.v.Name)
		return l
	}
	switch p["type"] {
	case "number", "integer":
		otherwise, ok := finite(p["default"])
		if !required && !ok {
			return nil
		}
		l.v.Value = &causal.Value{Number: otherwise}
		l.expression = unless(read, strconv.FormatFloat(otherwise, 'g', -1, 64))
		l.low, l.top = bounds(p, "minimum", "exclusiveMinimum"), bounds(p, "maximum", "exclusiveMaximum")
		l.of = func(args any) (float64, bool) {
			if x, ok := at(args); ok {
				return finite(x)
			}
			return otherwise, !required
		}
	case "string":
		l.v.Name = clip(l.v.Name[:min(len(l.v.Name), 56)] + "_length")
		l.v.Value = &causal.Value{}
		l.expression = unless("size("+read+")", "0")
		l.low, l.top = bounds(p, "minLength"), bounds(p, "maxLength")
		if zero := 0.0; l.low == nil || !required {
			l.low = &zero
		}
		l.of = func(args any) (float64, bool) {
			x, there := at(args)
			text, ok := x.(string)
			return float64(utf8.RuneCountInString(text)), ok || !there && !required
		}
	case "boolean":
		otherwise := 0.0
		if p["default"] == true {
			otherwise = 1
		}
		zero, one := 0.0, 1.0
		l.low, l.top = &zero, &one
		l.v.Value = &causal.Value{Number: otherwise}
		l.expression = read + " ? 1 : 0"
		if !required {
			l.expression = fmt.Sprintf("%s ? (%s) : %g", present, l.expression, otherwise)
		}
		l.of = func(any) (float64, bool) { return 0, false }
	default:
		return nil
	}
	l.v.Name = clip(l.v.Name)
	return l
}

// enumerated returns the words of a property that is one of some, or nil.
func enumerated(p map[string]any) []string {
	list, _ := p["enum"].([]any)
	var words []string
	for _, x := range list {
		word, ok := x.(string)
		if !ok || word == "" || len(word) > 64 || slices.Contains(words, word) {
			return nil
		}
		words = append(words, word)
	}
	if len(words) > causal.MaxCategories {
		return nil
	}
	return words
}

// finite reads a number that a model can have.
func finite(x any) (float64, bool) {
	n, ok := x.(json.Number)
	if !ok {
		return 0, false
	}
	return number(n.String())
}

// bounds returns the first bound of a schema that is there.
func bounds(p map[string]any, names ...string) *float64 {
	for _, name := range names {
		if x, ok := finite(p[name]); ok {
			return &x
		}
	}
	return nil
}

// limit sets the range of a lever, and its value inside of it. It reports false if no end is known.
func (l *control) limit(calls []Call) bool {
	low, high, seen := 0.0, 0.0, false
	for i := range calls {
		if x, ok := l.of(calls[i].Args); ok {
			if !seen {
				low, high = x, x
			}
			low, high, seen = min(low, x), max(high, x), true
		}
	}
	if l.low == nil && seen {
		l.low = &low
	}
	if l.top == nil && seen {
		l.top = &high
	}
	known := l.low != nil && l.top != nil && *l.low <= *l.top
	if known {
		l.v.Range = &causal.Range{Min: *l.low, Max: *l.top}
		l.v.Value.Number = min(max(l.v.Value.Number, *l.low), *l.top)
		return true
	}
	return false
}
