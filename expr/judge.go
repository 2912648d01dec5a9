package expr

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/schemas"
)

const number0 = json.Number("0")

func runes(s string) int { return utf8.RuneCountInString(s) }

// offset gives the byte offset of a node of the expression.
func (j *judge) offset(e ast.Expr) int { return place(j.code.ast, j.code.src, e.ID()) }

// expr judges one node with what is known of the names there.
func (j *judge) expr(e ast.Expr, n names) known {
	outer := j.here
	j.here = n
	k := j.node(e, n)
	j.here = outer
	return k
}

func (j *judge) node(e ast.Expr, n names) known {
	switch e.Kind() {
	case ast.LiteralKind:
		return literal(e)
	case ast.IdentKind:
		return j.ident(e.AsIdent(), n)
	case ast.SelectKind:
		s := e.AsSelect()
		of := j.expr(s.Operand(), n)
		if s.IsTestOnly() {
			return j.has(of, s.FieldName(), e)
		}
		if of.form == formOptional {
			return j.chain(of, func(inner known) known { return j.optionalKey(inner, s.FieldName(), e) })
		}
		return j.selectKey(of, s.FieldName(), j.offset(e))
	case ast.CallKind:
		return j.call(e, n)
	case ast.ListKind:
		return j.list(e, n)
	case ast.MapKind:
		return j.object(e, n)
	case ast.ComprehensionKind:
		return j.comprehension(e, n)
	}
	j.report(Problem{Kind: Wrong, Offset: j.offset(e), Message: "this form of expression is not supported"})
	return broken()
}

// literal is what stands in the source.
func literal(e ast.Expr) known {
	switch v := e.AsLiteral().(type) {
	case types.Null:
		return constant(nil)
	case types.Bool:
		k := constant(bool(v))
		return k
	case types.Int:
		return constant(json.Number(strconv.FormatInt(int64(v), 10)))
	case types.Uint:
		k := constant(json.Number(strconv.FormatUint(uint64(v), 10)))
		k.notation = asUint
		return k
	case types.Double:
		text, err := json.Marshal(float64(v))
		if err != nil {
			return known{schema: ofKind[isNumber], notation: asDouble}
		}
		k := constant(json.Number(text))
		k.notation = asDouble
		return k
	case types.String:
		return constant(string(v))
	case types.Bytes:
		return known{form: formBytes, schema: anything}
	}
	return known{form: formMixed, schema: anything}
}

// ident is what is known of a name.
func (j *judge) ident(name string, n names) known {
	if global, ok := strings.CutPrefix(name, "."); ok {
		if v, ok := n.of(global); ok && !v.local {
			return v
		}
		if v, ok := j.names.of(global); ok {
			v.at = nil
			return v
		}
		return known{form: formType, schema: anything}
	}
	if v, ok := n.of(name); ok {
		return v
	}
	return known{form: formType, schema: anything}
}

// truth adds the facts that a condition brings which is the value at a place.
func (j *judge) truth(k known) known {
	if k.form == formJSON && k.at != nil && k.yes == nil && k.no == nil && j.kinds(k.schema)&isBool != 0 {
		k.yes, k.no = fact(k.at, exactTrue), fact(k.at, exactFalse)
	}
	return k
}

var exactTrue, exactFalse = exactly(true), exactly(false)

// demand reports an operand that is not proved to be JSON of the given kinds.
func (j *judge) demand(s operand, want kinds, why string) bool {
	if s.known.broken {
		return false
	}
	if s.known.form == formJSON && j.only(s.known.schema, want) {
		return true
	}
	j.mayBe(s, want, why)
	return false
}

// mayBe reports an operand that may be of another kind.
func (j *judge) mayBe(s operand, want kinds, why string) {
	if s.known.broken {
		return
	}
	text := render(s.expr)
	p := Problem{Kind: MayFail, Offset: j.offset(s.expr)}
	if s.known.form != formJSON {
		p.Kind, p.Message = Wrong, why+"; "+text+" is "+j.describe(s.known)
		if s.known.form == formOptional {
			p.Hint = text + ".orValue(…)"
		}
		j.report(p)
		return
	}
	have := j.refined(s.known.schema)
	switch {
	case have == 0:
		return // nothing gets here
	case have&want == 0:
		p.Kind, p.Message = Wrong, why+"; "+text+" is "+orKinds(have)
	default:
		p.Message = why + "; " + text + " may be " + orKinds(have&^want)
		p.Hint = guard(text, have&want) + " ? … : …"
	}
	if s.known.at != nil {
		s.known.at.within(j, notKinds(want), &p)
	}
	j.report(p)
}

// guard writes the condition under which text is of the kinds.
func guard(text string, want kinds) string {
	var or []string
	for _, t := range []struct {
		kind kinds
		name string
	}{{isWhole, "int"}, {isFraction, "double"}, {isBool, "bool"}, {isText, "string"}, {isList, "list"}, {isMap, "map"}, {isNull, "null_type"}} {
		if want&t.kind != 0 {
			or = append(or, "type("+text+") == "+t.name)
		}
	}
	if len(or) == 1 {
		return or[0]
	}
	return "(" + strings.Join(or, " || ") + ")"
}

// describe says what a value is, for a message.
func (j *judge) describe(k known) string {
	switch k.form {
	case formJSON:
		return orKinds(j.refined(k.schema))
	case formOptional:
		return "an optional value"
	case formTimestamp:
		return "a timestamp"
	case formDuration:
		return "a duration"
	case formBytes:
		return "a byte sequence"
	case formType:
		return "a type"
	case formList:
		return "a list of what is not JSON"
	case formMixed:
	}
	return "a value of different types"
}

// selectKey judges value.key.
func (j *judge) selectKey(of known, key string, offset int) known {
	if of.broken {
		return broken()
	}
	if of.form != formJSON {
		j.report(Problem{Kind: Wrong, Offset: offset, Message: j.describe(of) + " has no key " + strconv.Quote(excerpt.Clip(key, 60))})
		return broken()
	}
	if !j.holdsKey(of.schema, key) {
		if !j.missing(of, key, offset) {
			return broken()
		}
	}
	return known{schema: j.property(of.schema, key), notation: inside(of.notation), at: of.at.key(key)}
}

// inside is the notation of numbers inside a value.
func inside(n notation) notation {
	if n == anyNotation {
		return anyNotation
	}
	return byValue
}

// holdsKey reports whether all values of s are objects that have the key.
func (j *judge) holdsKey(s *schemas.Schema, key string) bool {
	if c := s.Compiled(); len(c.Types) == 1 && c.Types[0] == "object" && slices.Contains(c.Required, key) {
		return true
	}
	left := fuel
	if requires(s, key, &left) && j.kinds(s) == isMap {
		return true
	}
	if c := s.Compiled(); !compound(s) && len(c.Enum)+len(c.Constant) == 0 {
		return false
	}
	return j.proves(s, withKey(key))
}

// requires reports whether the text of s says that its objects have a key.
func requires(s *schemas.Schema, key string, left *int) bool {
	if *left--; *left < 0 {
		return false
	}
	c := s.Compiled()
	if slices.Contains(c.Required, key) || c.Ref != nil && requires(schemas.Wrap(c.Ref), key, left) {
		return true
	}
	for _, a := range c.AllOf {
		if requires(schemas.Wrap(a), key, left) {
			return true
		}
	}
	return false
}

// withKey is the schema of objects that have a key.
func withKey(key string) *schemas.Schema {
	return schemas.Make(schemas.Keywords{Types: []string{"object"}, Required: []string{key}})
}

// missing reports that a key may be missing. Its result is false if evaluation must
// stop.
func (j *judge) missing(of known, key string, offset int) bool {
	have := j.refined(of.schema)
	if have == 0 {
		return true // nothing gets here
	}
	text, field := "the value", "…"
	if of.at != nil {
		text, field = of.at.String(), of.at.key(key).String()
	}
	p := Problem{Kind: MayFail, Offset: offset, Hint: "has(" + field + ") ? " + field + " : …"}
	if of.at == nil {
		p.Hint = ""
	}
	goOn := true
	switch {
	case have&isMap == 0:
		p.Kind, goOn, p.Hint = Wrong, false, ""
		p.Message = text + " is " + orKinds(have) + " and has no key " + strconv.Quote(excerpt.Clip(key, 60))
	case j.never(both(of.schema, withKey(key))):
		p.Kind, goOn, p.Hint = Wrong, false, ""
		p.Message = text + " never has a key " + strconv.Quote(excerpt.Clip(key, 60))
		if near := nearest(key, keysOf(of.schema)); near != "" {
			p.Hint = "did you mean " + near + "?"
		}
	case have != isMap:
		p.Message = text + " may be " + orKinds(have&^isMap) + ", which has no key " + strconv.Quote(excerpt.Clip(key, 60))
		if have&isList != 0 && of.at != nil {
			p.Hint = "type(" + text + ") == map && " + p.Hint
		}
	default:
		p.Message = field + " may be missing: " + strconv.Quote(excerpt.Clip(key, 60)) + " is not in `required`"
		if of.at == nil {
			p.Message = strconv.Quote(excerpt.Clip(key, 60)) + " may be missing"
		}
		if keys := keysOf(of.schema); !slices.Contains(keys, key) {
			p.Message = field + " may be missing: " + strconv.Quote(excerpt.Clip(key, 60)) + " is not in `properties`"
			if near := nearest(key, keys); near != "" {
				p.Hint = "did you mean " + near + "? Else: " + p.Hint
				// If nothing is known about its contents, all further problems follow from this
				// one.
				goOn = j.kinds(j.property(of.schema, key)) != isAny
			}
		}
	}
	if p.Hint != "" && p.Kind == MayFail && of.at != nil {
		opt := of.at.String() + "[?" + strconv.Quote(key) + "]"
		if selectable(key) {
			opt = of.at.String() + ".?" + key
		}
		if have&isList == 0 {
			p.Hint += ", or " + opt + ".orValue(…)"
		}
	}
	if of.at != nil {
		of.at.within(j, not(withKey(key)), &p)
	}
	j.report(p)
	return goOn
}

// selectIndex judges value[3].
func (j *judge) selectIndex(of known, i, offset int) known {
	if of.broken {
		return broken()
	}
	if of.form != formJSON {
		j.report(Problem{Kind: Wrong, Offset: offset, Message: j.describe(of) + " has no index"})
		return broken()
	}
	if !j.holdsIndex(of.schema, i) {
		if !j.outside(of, i, offset) {
			return broken()
		}
	}
	at := of.at
	if i <= math.MaxInt32 {
		at = at.index(i)
	} else {
		at = nil
	}
	return known{schema: j.element(of.schema, i), notation: inside(of.notation), at: at}
}

// holdsIndex reports whether all values of s are lists that are longer than i.
func (j *judge) holdsIndex(s *schemas.Schema, i int) bool {
	if j.kinds(s)&^isList == 0 {
		if n := j.lengths(s, isList); n.empty || n.lo.Cmp(between(int64(i)+1, 0).lo) >= 0 {
			return true
		}
	}
	return compound(s) && j.proves(s, longer(i))
}

// longer is the schema of lists that have a place i.
func longer(i int) *schemas.Schema {
	n := min(i, math.MaxInt32) + 1
	return schemas.Make(schemas.Keywords{Types: []string{"array"}, MinItems: &n})
}

// outside reports that an index may be out of bounds.
func (j *judge) outside(of known, i, offset int) bool {
	have := j.refined(of.schema)
	if have == 0 {
		return true
	}
	text, item := "the list", "["+strconv.Itoa(i)+"]"
	if of.at != nil {
		text = of.at.String()
		item = text + item
	}
	p := Problem{Kind: MayFail, Offset: offset}
	goOn := true
	switch {
	case have&isList == 0:
		p.Kind, goOn = Wrong, false
		p.Message = text + " is " + orKinds(have) + " and has no index"
	case have != isList:
		p.Message = text + " may be " + orKinds(have&^isList) + ", which has no index"
		p.Hint = "type(" + text + ") == list && size(" + text + ") > " + strconv.Itoa(i) + " ? " + item + " : …"
	case j.never(both(of.schema, longer(i))):
		p.Kind, goOn = Wrong, false
		p.Message = text + " never has as many as " + strconv.Itoa(i+1) + " items"
	default:
		p.Message = text + " may have fewer than " + strconv.Itoa(i+1) + " items"
		p.Hint = "size(" + text + ") > " + strconv.Itoa(i) + " ? " + item + " : …, or add `minItems: " + strconv.Itoa(i+1) + "` to the schema of " + text
	}
	if of.at == nil {
		p.Hint = ""
	} else {
		of.at.within(j, not(longer(i)), &p)
	}
	j.report(p)
	return goOn
}

// has judges has(value.key).
func (j *judge) has(of known, key string, e ast.Expr) known {
	if of.broken {
		return known{schema: ofKind[isBool], broken: true}
	}
	if of.form == formOptional {
		return boolean()
	}
	if !j.notList(of, key, j.offset(e)) {
		return boolean()
	}
	out := boolean()
	if of.at != nil {
		out.yes, out.no = fact(of.at, withKey(key)), fact(of.at, not(withKey(key)))
	}
	return out
}

// notList requires a value that has keys: anything but a list.
func (j *judge) notList(of known, key string, offset int) bool {
	if of.broken {
		return false
	}
	if of.form != formJSON {
		j.report(Problem{Kind: Wrong, Offset: offset, Message: j.describe(of) + " cannot be asked for a key"})
		return false
	}
	if j.only(of.schema, isAny&^isList) {
		return true
	}
	have := j.refined(of.schema)
	if have&isList == 0 {
		return true
	}
	p := Problem{Kind: MayFail, Offset: offset}
	text := "the value"
	if of.at != nil {
		text = of.at.String()
	}
	p.Message = text + " may be a list, which cannot be asked for the key " + strconv.Quote(excerpt.Clip(key, 60))
	if have == isList {
		p.Kind = Wrong
		p.Message = text + " is a list, which cannot be asked for the key " + strconv.Quote(excerpt.Clip(key, 60))
	} else if of.at != nil {
		p.Hint = "type(" + text + ") == map && has(" + of.at.key(key).String() + ")"
	}
	if of.at != nil {
		of.at.within(j, ofKind[isList], &p)
	}
	j.report(p)
	return false
}
