package schemas

import (
	"encoding/json"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// kind is a set of kinds of instances, as far as the cost of validation depends on them.
type kind uint8

const (
	aScalar kind = 1 << iota
	aList
	anObject
)

// graph is the compiled schema as a graph whose edges say which schemas apply to the same
// value, and which to a part of it. It bounds the work of a validation.
type graph struct {
	// nodes are in topological order of their inplace edges: these lead to
	// higher indexes only.
	nodes []node
	root  int
	at    map[string]*jsonschema.Schema
	bound bound
}

// node is one schema. Edges are indexes of nodes.
type node struct {
	schema *jsonschema.Schema
	// kinds are the instances that the type keyword admits.
	kinds kind
	// visit, member and text are the work of one visit, in units: once, per
	// member of a list or object, and per byte of a string, number or of all keys.
	visit, member, text float64
	// unique: the visit compares the members of a list.
	unique bool
	// inplace are the schemas that apply to the same value.
	inplace []int
	// For objects: the schemas of named members, of every other member, of
	// members whose name matches a pattern (assumed to be all), and of names.
	props    map[string]int
	others   []int
	matching []int
	names    []int
	// For lists: the schemas of the first members, of the rest, and of all.
	prefix []int
	rest   []int
	all    []int
}

// Work of single steps, in units of about 10 ns, measured roughly and from above.
const (
	visitWork   = 60
	memberWork  = 12
	declareWork = 4
	compareWork = 8
	numberWork  = 60
)

type builder struct {
	g     *graph
	index map[*jsonschema.Schema]int
	order []*jsonschema.Schema
	// dynamic are the schemas that a $dynamicRef or $recursiveRef can lead to.
	dynamic []*jsonschema.Schema
}

// newGraph returns the graph of a compiled document. On the way it corrects the meaning of
// patterns, empty enums and references to meta-schemas: nobody else has seen the schemas
// yet. written maps pointers to schemas to the patterns of which the library got a
// translation. known holds the documents that it may refer to besides itself.
func newGraph(roots []*jsonschema.Schema, known map[string][]byte, written map[string]string) (*graph, error) {
	own, _, _ := strings.Cut(roots[0].Location, "#")
	extends, refers := false, false
	g, err := buildGraph(roots, 2*MaxSubschemas, func(s *jsonschema.Schema) error {
		if plain[s] {
			return nil
		}
		// The library has more built-in documents, which need no loading; their formats
		// assert.
		doc, _, _ := strings.Cut(s.Location, "#")
		if _, ok := known[doc]; !ok && doc != own || metas[s] != nil {
			return externalError([]string{doc})
		}
		if meta := metas[s.Ref]; meta != nil {
			s.Ref = meta
			refers = true
		}
		if s.Enum != nil && len(s.Enum) == 0 {
			// The library ignores an empty enum, but an empty enum allows no value.
			s.Always = new(bool)
		}
		extends = extends || s.RecursiveAnchor || s.DynamicAnchor == "meta"
		return express(s, written)
	})
	if err == nil && extends && refers {
		return nil, errors.New("the schema extends a meta-schema, which is not supported")
	}
	return g, err
}

// joinedGraph returns the graph of a schema that was built from parts of several
// documents, each of which was admitted before. Parts may have equal places, so places
// do not identify schemas.
func joinedGraph(root *jsonschema.Schema, anchors []*jsonschema.Schema, loose bool) (*graph, error) {
	g, err := buildGraph(append([]*jsonschema.Schema{root}, anchors...), MaxJoined, func(s *jsonschema.Schema) error {
		if loose && (s.DynamicRef != nil || s.RecursiveRef != nil) {
			return errors.New("the schema is a part whose dynamic reference depends on the whole")
		}
		for _, values := range [][]any{s.Constant, s.Enum} {
			if _, err := measure(values); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		g.at = nil
	}
	return g, err
}

func buildGraph(roots []*jsonschema.Schema, most int, admit func(*jsonschema.Schema) error) (*graph, error) {
	b := &builder{g: &graph{at: map[string]*jsonschema.Schema{}}, index: map[*jsonschema.Schema]int{}}
	for _, s := range roots {
		b.add(s)
	}
	for i := 0; i < len(b.order); i++ {
		s := b.order[i]
		if err := admit(s); err != nil {
			return nil, err
		}
		if len(b.order) > most {
			return nil, tooLarge("more than %d subschemas", most)
		}
		if err := checkCounts(s); err != nil {
			return nil, err
		}
		b.g.at[s.Location] = s
		each(s, func(child *jsonschema.Schema, _ bool) { b.add(child) })
		if s.DynamicAnchor != "" || s.RecursiveAnchor {
			b.dynamic = append(b.dynamic, s)
		}
	}
	if err := b.sort(); err != nil {
		return nil, err
	}
	b.g.nodes = make([]node, len(b.order))
	for _, s := range b.order {
		b.g.nodes[b.index[s]] = b.node(s)
	}
	b.g.root = b.index[roots[0]]
	b.g.bound = b.g.explore()
	return b.g, nil
}

func (b *builder) add(s *jsonschema.Schema) {
	if _, ok := b.index[s]; !ok {
		b.index[s] = len(b.order)
		b.order = append(b.order, s)
	}
}

// checkCounts refuses counts that overflow in the library's conversion to int, which turns
// maxLength 1e300 into a negative number on some machines.
func checkCounts(s *jsonschema.Schema) error {
	for _, n := range []int{
		s.MinProperties, s.MaxProperties, s.MinItems, s.MaxItems,
		s.MinContains, s.MaxContains, s.MinLength, s.MaxLength,
	} {
		if n < -1 || int64(n) > MaxCount {
			return &PlaceError{Pointer: location(s.Location), Err: tooLarge("a count is beyond %d", int64(MaxCount))}
		}
	}
	return nil
}

// each calls f for every schema that s leads to, with whether it applies to the same
// value, in no particular order.
func each(s *jsonschema.Schema, f func(child *jsonschema.Schema, inplace bool)) {
	one := func(inplace bool, children ...*jsonschema.Schema) {
		for _, c := range children {
			if c != nil {
				f(c, inplace)
			}
		}
	}
	either := func(v any) {
		switch v := v.(type) {
		case *jsonschema.Schema:
			one(false, v)
		case []*jsonschema.Schema:
			one(false, v...)
		}
	}
	one(true, s.Ref, s.RecursiveRef, s.DynamicRef, s.Not, s.If, s.Then, s.Else)
	one(true, s.AllOf...)
	one(true, s.AnyOf...)
	one(true, s.OneOf...)
	for _, v := range s.Dependencies {
		if c, ok := v.(*jsonschema.Schema); ok {
			one(true, c)
		}
	}
	for _, c := range s.DependentSchemas {
		one(true, c)
	}
	for _, c := range s.Properties {
		one(false, c)
	}
	for _, c := range s.PatternProperties {
		one(false, c)
	}
	either(s.AdditionalProperties)
	either(s.Items)
	either(s.AdditionalItems)
	one(false, s.PrefixItems...)
	one(false, s.PropertyNames, s.UnevaluatedProperties, s.Items2020, s.Contains, s.UnevaluatedItems)
}

// sameValue lists the schemas that s applies to the same value, with those that
// a dynamic reference may lead to.
func (b *builder) sameValue(s *jsonschema.Schema) []*jsonschema.Schema {
	var out []*jsonschema.Schema
	each(s, func(c *jsonschema.Schema, inplace bool) {
		if inplace {
			out = append(out, c)
		}
	})
	for _, d := range b.dynamic {
		if s.DynamicRef != nil && d != s.DynamicRef && d.DynamicAnchor != "" && d.DynamicAnchor == s.DynamicRef.DynamicAnchor {
			out = append(out, d)
		}
		if s.RecursiveRef != nil && d != s.RecursiveRef && s.RecursiveRef.RecursiveAnchor && d.RecursiveAnchor {
			out = append(out, d)
		}
	}
	return out
}

// sort orders schemas so that inplace edges lead forward, and refuses cycles
// and long chains of them: the library would recurse along them.
func (b *builder) sort() error {
	const (
		unseen = iota
		open
		done
	)
	state := make([]uint8, len(b.order))
	height := make([]int, len(b.order))
	var post []*jsonschema.Schema
	var visit func(s *jsonschema.Schema, depth int) error
	visit = func(s *jsonschema.Schema, depth int) error {
		i := b.index[s]
		switch {
		case state[i] == done:
			return nil
		case state[i] == open:
			return errors.New("a schema refers to itself without going into the value")
		case depth > MaxChain:
			return tooLarge("more than %d schemas apply to one value one inside the other", MaxChain)
		}
		state[i] = open
		for _, c := range b.sameValue(s) {
			if err := visit(c, depth+1); err != nil {
				return err
			}
			height[i] = max(height[i], height[b.index[c]]+1)
		}
		if height[i] > MaxChain {
			return tooLarge("more than %d schemas apply to one value one inside the other", MaxChain)
		}
		state[i] = done
		post = append(post, s)
		return nil
	}
	for _, s := range b.order {
		if err := visit(s, 0); err != nil {
			return err
		}
	}
	slices.Reverse(post)
	b.order = post
	for i, s := range post {
		b.index[s] = i
	}
	return nil
}

func (b *builder) node(s *jsonschema.Schema) node {
	n := node{schema: s, kinds: kindsOf(s.Types), unique: s.UniqueItems, visit: visitWork, member: memberWork}
	if s.Always != nil {
		n.kinds = 0
		return n
	}
	for _, c := range b.sameValue(s) {
		n.inplace = append(n.inplace, b.index[c])
		n.member += compareWork
	}
	for _, v := range s.Constant {
		n.visit += equalsWork(v)
	}
	for _, v := range s.Enum {
		n.visit += equalsWork(v)
	}
	n.visit += declareWork * float64(len(s.Properties)+len(s.Required)+len(s.Dependencies)+len(s.DependentRequired)+len(s.DependentSchemas))
	for _, names := range s.DependentRequired {
		n.visit += declareWork * float64(len(names))
	}
	for _, v := range s.Dependencies {
		if names, ok := v.([]string); ok {
			n.visit += declareWork * float64(len(names))
		}
	}
	if s.Pattern != nil {
		n.text += patternWork(s.Pattern)
	}
	if s.MinLength >= 0 || s.MaxLength >= 0 {
		n.text += 0.5
	}
	if s.Minimum != nil || s.ExclusiveMinimum != nil || s.Maximum != nil || s.ExclusiveMaximum != nil || s.MultipleOf != nil || slices.Contains(s.Types, "integer") {
		n.visit += numberWork
		n.text++
	}
	b.members(&n, s)
	return n
}

func (b *builder) members(n *node, s *jsonschema.Schema) {
	ref := func(to *[]int, c *jsonschema.Schema) {
		if c != nil {
			*to = append(*to, b.index[c])
		}
	}
	if len(s.Properties) > 0 {
		n.props = make(map[string]int, len(s.Properties))
		for name, c := range s.Properties {
			n.props[name] = b.index[c]
		}
	}
	for p, c := range s.PatternProperties {
		ref(&n.matching, c)
		n.member += compareWork
		n.text += patternWork(p)
	}
	slices.Sort(n.matching)
	additional, _ := s.AdditionalProperties.(*jsonschema.Schema)
	ref(&n.others, additional)
	ref(&n.others, s.UnevaluatedProperties)
	ref(&n.names, s.PropertyNames)
	switch items := s.Items.(type) {
	case *jsonschema.Schema:
		ref(&n.all, items)
	case []*jsonschema.Schema:
		for _, c := range items {
			ref(&n.prefix, c)
		}
		more, _ := s.AdditionalItems.(*jsonschema.Schema)
		ref(&n.rest, more)
	}
	if s.Items == nil {
		for _, c := range s.PrefixItems {
			ref(&n.prefix, c)
		}
		ref(&n.rest, s.Items2020)
	}
	ref(&n.all, s.Contains)
	ref(&n.rest, s.UnevaluatedItems)
}

func kindsOf(types []string) kind {
	if len(types) == 0 {
		return aScalar | aList | anObject
	}
	var k kind
	for _, t := range types {
		switch t {
		case "object":
			k |= anObject
		case "array":
			k |= aList
		default:
			k |= aScalar
		}
	}
	return k
}

// patternWork returns the work of matching one byte: at worst, RE2 takes one step for
// each instruction.
func patternWork(p *regexp.Regexp) float64 {
	n, err := sizeOf(p.String())
	if err != nil {
		return MaxPatternSize
	}
	return 1 + float64(n)/2
}

// equalsWork returns the work of comparing any value with v.
func equalsWork(v any) float64 {
	switch v := v.(type) {
	case json.Number:
		return numberWork
	case string:
		return compareWork + float64(len(v))/16
	case []any:
		w := float64(compareWork)
		for _, e := range v {
			w += equalsWork(e)
		}
		return w
	case map[string]any:
		w := float64(compareWork)
		for _, k := range slices.Sorted(maps.Keys(v)) {
			w += compareWork + equalsWork(v[k])
		}
		return w
	}
	return compareWork
}
