package plangen

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// writer draws CEL over values of known schemas. What it writes does not fail on
// any value of them, but where it is bold: then it leaves guards out.
type writer struct {
	r *rand.Rand
	// bold is how often a guard is left out, in percent.
	bold int
	// used are the features that were used.
	used map[string]bool
	// names counts the names of comprehensions.
	names int
}

func (w *writer) use(feature string) { w.used[feature] = true }

func (w *writer) dare() bool {
	if chance(w.r, w.bold) {
		w.use("bold")
		return true
	}
	return false
}

// literal writes a constant of CEL.
func literal(v any) string {
	switch v := v.(type) {
	case json.Number:
		s := string(v)
		if strings.ContainsAny(s, "eE") && !strings.Contains(s, ".") {
			return strings.Replace(strings.ToLower(s), "e", ".0e", 1)
		}
		return s
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			parts[i] = literal(e)
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case object:
		var parts []string
		for _, name := range sorted(v) {
			parts = append(parts, literal(name)+": "+literal(v[name]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	}
	raw, _ := json.Marshal(v)
	return string(raw)
}

// field writes the selection of a key.
func field(of, name string) string {
	if strings.Contains(name, "-") {
		return of + ".`" + name + "`"
	}
	return of + "." + name
}

// typeOf gives the one type of a schema, or "".
func typeOf(s any) string {
	o, _ := s.(object)
	kind, _ := o["type"].(string)
	switch values := o["enum"].(type) {
	case []any:
		kind = ""
		for i, v := range values {
			if _, isText := v.(string); !isText {
				return ""
			}
			if i == len(values)-1 {
				kind = "string"
			}
		}
	}
	if _, isText := o["const"].(string); isText {
		kind = "string"
	}
	return kind
}

// value writes an expression over a value of schema s at path.
func (w *writer) value(path string, s any, depth int) string {
	if depth <= 0 || chance(w.r, 15) {
		return path
	}
	if written := w.compose(path, s, depth); written != path {
		return "(" + written + ")"
	}
	return path
}

func (w *writer) compose(path string, s any, depth int) string {
	switch typeOf(s) {
	case "integer", "number":
		return w.number(path, s.(object))
	case "string":
		return w.text(path)
	case "boolean":
		return pick(w.r, "!"+path, path+" ? 1 : 2", path+` ? "yes" : "no"`, "["+path+"]")
	case "array":
		return w.list(path, s.(object), depth)
	case "object":
		return w.object(path, s.(object), depth)
	}
	return w.union(path, s, depth)
}

func (w *writer) number(path string, s object) string {
	r := w.r
	k := fmt.Sprint(r.IntN(9) + 1)
	if typeOf(s) == "number" {
		switch r.IntN(8) {
		case 0:
			w.use("number to text")
			return "string(" + path + ")"
		case 1:
			return path + " > " + k + ".5 ? " + path + " : 0.5"
		case 2:
			w.use("type of a number")
			return "type(" + path + ") == int ? 1 : 2"
		case 3:
			w.use("mixed arithmetic")
			if w.dare() {
				return path + " * " + k
			}
			return path + " >= -1000 && " + path + " <= 1000.5 ? " + path + " * " + k + " + 0.5 : 0.0"
		case 4:
			w.use("double")
			if w.dare() {
				return "double(" + path + ")"
			}
			return path + " > 0 && " + path + " < 100 ? double(" + path + ") / 4.0 : 0.0"
		case 5:
			return "[" + path + ", " + k + "]"
		}
		return path + pick(r, " == ", " < ", " >= ", " != ") + k
	}
	switch r.IntN(12) {
	case 0:
		return "string(" + path + ")"
	case 1, 2:
		w.use("int arithmetic")
		if w.dare() {
			return path + pick(r, " + ", " - ", " * ") + k
		}
		return path + " > -1000 && " + path + " < 1000 ? " + path + pick(r, " + ", " - ", " * ") + k + " : 0"
	case 3:
		// Without a guard: whether it is safe depends on the schema's bounds.
		w.use("int arithmetic by bounds")
		if s["minimum"] == nil && s["exclusiveMinimum"] == nil || s["maximum"] == nil && s["exclusiveMaximum"] == nil {
			return path + " == " + k
		}
		return path + " * " + k + " - " + k
	case 4:
		w.use("modulo")
		if w.dare() {
			return k + " % " + path
		}
		return path + " > 0 && " + path + " < 100000 ? 100 % " + path + " : " + path + " == 0 ? 1 : 0"
	case 5:
		w.use("division")
		if w.dare() {
			return "10 / " + path
		}
		return path + " != 0 && " + path + " < 50 && " + path + " > -50 ? 10 / " + path + " : 0"
	case 6:
		return path + " > " + k + " ? " + path + " : " + k
	case 7:
		w.use("int to double")
		return path + " < 1000 && " + path + " > -1000 ? double(" + path + ") * 0.5 : 1.5"
	case 8:
		return path + " in [1, 2, " + k + "]"
	case 9:
		w.use("map with a key")
		return `{"n": ` + path + `, "k": ` + k + "}"
	}
	return path + pick(r, " == ", " < ", " >= ", " != ") + k
}

func (w *writer) text(path string) string {
	r := w.r
	word := literal(pick(r, words[1:7]...))
	switch r.IntN(15) {
	case 0:
		return "size(" + path + ")"
	case 1:
		return path + " + " + word
	case 2:
		return path + pick(r, ".contains(", ".startsWith(", ".endsWith(") + word + ")"
	case 3:
		return path + pick(r, ".lowerAscii()", ".upperAscii()", ".trim()")
	case 4:
		w.use("split")
		return path + `.split(",")`
	case 5:
		w.use("substring")
		if w.dare() {
			return path + ".substring(0, 2)"
		}
		return "size(" + path + ") > 1 ? " + path + ".substring(0, 2) : " + word
	case 6:
		return path + " == " + word
	case 7:
		w.use("matches")
		return path + `.matches("` + pick(r, patterns[0], patterns[1], patterns[3], patterns[4]) + `")`
	case 8:
		return path + " in [" + word + `, "red"]`
	case 9:
		return path + `.replace("a", ` + word + ")"
	case 10:
		return path + `.indexOf("a")`
	case 11:
		w.use("join")
		return `[` + path + `, ` + word + `].join("-")`
	case 12:
		w.use("int of text")
		if w.dare() {
			return "int(" + path + ")"
		}
		return path + `.matches("^[0-9]{1,9}$") ? 1 : 0`
	case 13:
		return path + " == " + word + " ? " + path + " : " + word
	}
	return `{"t": ` + path + `, "n": size(` + path + `)}`
}

func (w *writer) list(path string, s object, depth int) string {
	r := w.r
	items := s["items"]
	if s["prefixItems"] != nil {
		items = true
	}
	w.names++
	x := fmt.Sprintf("e%d", w.names)
	switch r.IntN(9) {
	case 0:
		return "size(" + path + ")"
	case 1, 2:
		w.use("map over a list")
		return path + ".map(" + x + ", " + w.value(x, items, depth-1) + ")"
	case 3:
		w.use("filter over a list")
		return path + ".filter(" + x + ", " + w.condition(x, items, depth-1) + ")"
	case 4:
		w.use("quantifier")
		return path + pick(r, ".all(", ".exists(", ".exists_one(") + x + ", " + w.condition(x, items, depth-1) + ")"
	case 5:
		w.use("index")
		at := r.IntN(2)
		if w.dare() || s["minItems"] != nil && at == 0 {
			return fmt.Sprintf("%s[%d]", path, at)
		}
		return fmt.Sprintf("size(%s) > %d ? %s : null", path, at, w.value(fmt.Sprintf("%s[%d]", path, at), items, depth-1))
	case 6:
		w.use("optional index")
		return fmt.Sprintf("%s[?%d].orValue(%s)", path, r.IntN(2), literal(pick[any](r, nil, num(1), "none")))
	case 7:
		w.use("list sum")
		return path + " + [1]"
	}
	return "[" + path + ", " + path + "]"
}

func (w *writer) object(path string, s object, depth int) string {
	r := w.r
	properties, _ := s["properties"].(object)
	if len(properties) == 0 {
		return path
	}
	required, _ := s["required"].([]any)
	name := pick(r, sorted(properties)...)
	at := field(path, name)
	if slices.Contains(required, any(name)) {
		w.use("required key")
		return w.value(at, properties[name], depth-1)
	}
	w.use("optional key")
	switch {
	case w.dare():
		return w.value(at, properties[name], depth-1)
	case chance(r, 30):
		return strings.Replace(at, path+".", path+".?", 1) + ".orValue(" + literal(pick[any](r, nil, num(1), "none")) + ")"
	case chance(r, 20):
		return "has(" + at + ")"
	}
	return "has(" + at + ") ? " + w.value(at, properties[name], depth-1) + " : " + literal(pick[any](r, nil, num(7), "none"))
}

// union writes an expression over a value of more than one type.
func (w *writer) union(path string, s any, depth int) string {
	r := w.r
	o, _ := s.(object)
	for _, keyword := range []string{"anyOf", "oneOf"} {
		of, ok := o[keyword].([]any)
		if !ok {
			continue
		}
		one := pick(r, of...)
		alternative, _ := one.(object)
		properties, _ := alternative["properties"].(object)
		if kind, ok := properties["kind"].(object); ok && kind["const"] != nil {
			w.use("kind guard")
			return path + ".kind == " + literal(kind["const"]) + " ? " + w.value(path, one, depth-1) + " : null"
		}
		if guard := celType(typeOf(one)); guard != "" {
			w.use("type guard")
			return "type(" + path + ") == " + guard + " ? " + w.value(path, one, depth-1) + " : null"
		}
	}
	switch r.IntN(6) {
	case 0:
		w.use("type guard")
		return "type(" + path + ") == int ? " + w.number(path, object{"type": "integer"}) + " : 0"
	case 1:
		w.use("type guard")
		return "type(" + path + ") == string ? " + w.text(path) + ` : ""`
	case 2:
		w.use("type guard")
		return "type(" + path + ") == list ? size(" + path + ") : -1"
	case 3:
		if w.dare() {
			return "size(" + path + ")"
		}
	case 4:
		return path + " == null ? 0 : 1"
	}
	return pick(r, path+` == "red"`, path+" == 1", "["+path+"]", `{"v": `+path+"}", path)
}

// celType is CEL's name of a JSON type, or "" where there is not one.
func celType(t string) string {
	return map[string]string{"integer": "int", "string": "string", "boolean": "bool", "array": "list", "object": "map", "null": "null_type"}[t]
}

// condition writes a predicate.
func (w *writer) condition(path string, s any, depth int) string {
	r := w.r
	k := fmt.Sprint(r.IntN(9))
	if depth > 0 && chance(r, 15) {
		return w.condition(path, s, depth-1) + pick(r, " && ", " || ") + w.condition(path, s, depth-1)
	}
	o, _ := s.(object)
	switch typeOf(s) {
	case "integer", "number":
		return path + pick(r, " > ", " < ", " == ", " >= ", " <= ", " != ") + k + pick(r, "", ".5", "")
	case "string":
		return pick(r, path+` == "red"`, "size("+path+") > 2", path+` != "a"`, path+`.startsWith("a")`, path+`.matches("^[a-z]+$")`, path+` in ["red", "green"]`)
	case "boolean":
		return pick(r, path, "!"+path)
	case "array":
		return pick(r, "size("+path+") > 0", "size("+path+") == 2", path+" == []")
	case "object":
		properties, _ := o["properties"].(object)
		required, _ := o["required"].([]any)
		if len(properties) > 0 {
			name := pick(r, sorted(properties)...)
			at := field(path, name)
			inner := w.condition(at, properties[name], depth-1)
			if slices.Contains(required, any(name)) || w.dare() {
				return inner
			}
			w.use("guard by has")
			return pick(r, "has("+at+")", "has("+at+") && ("+inner+")", "!has("+at+") || ("+inner+")")
		}
	}
	if of, ok := o["anyOf"].([]any); ok && celType(typeOf(of[0])) != "" {
		return "type(" + path + ") == " + celType(typeOf(of[0]))
	}
	return pick(r, path+" == null", path+" != null", "type("+path+") == int", "type("+path+") == string", path+" == "+k, "type("+path+") == map")
}
