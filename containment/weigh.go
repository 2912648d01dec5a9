package containment

import (
	"encoding/json"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Work of the validator, in units of about 10 ns; a step is stepWork of them. A visit is
// expensive because one that fails describes the failure.
const (
	stepWork    = 64
	visitWork   = 100
	memberWork  = 12
	compareWork = 8
	numberWork  = 60
)

// maxWitness bounds the values that are tried, in bytes or so: a larger witness helps
// nobody.
const maxWitness = 64 << 10

// bulk returns the size of a value in bytes or so. It stops counting beyond most, since
// many places can share one part.
func bulk(v any, most int) int {
	n := 8
	switch v := v.(type) {
	case string:
		n += len(v)
	case json.Number:
		n += len(v)
	case []any:
		for _, e := range v {
			if n > most {
				break
			}
			n += bulk(e, most-n)
		}
	case map[string]any:
		for k, e := range v {
			if n > most {
				break
			}
			n += len(k) + bulk(e, most-n)
		}
	}
	return min(n, most+1) // the same in whatever order
}

// load is what one visit of a schema costs: once, for each member of a list or
// object, and for each byte of a string, number or all keys.
type load struct{ visit, member, text int }

func (p *prover) load(s *schema) load {
	if l, ok := p.loads[s]; ok {
		return l
	}
	l := load{visit: visitWork + len(s.Location)/2} // a failure says where
	for _, list := range [][]any{s.Enum, s.Constant} {
		for _, v := range list {
			l.visit += p.comparing(v)
		}
	}
	l.visit += 4 * (len(s.Properties) + len(s.Required) + len(s.Dependencies) + len(s.DependentRequired) + len(s.DependentSchemas))
	for _, names := range s.DependentRequired {
		l.visit += 4 * len(names)
	}
	if s.Pattern != nil {
		l.text += p.size(s.Pattern)
	}
	for re := range s.PatternProperties {
		l.member += 2 * compareWork
		l.text += p.size(re)
	}
	if s.Minimum != nil || s.ExclusiveMinimum != nil || s.Maximum != nil || s.ExclusiveMaximum != nil || s.MultipleOf != nil || len(s.Types) > 0 {
		l.text++
	}
	if p.loads == nil {
		p.loads = map[*schema]load{}
	}
	p.loads[s] = l
	return l
}

// comparing returns the work of comparing any value with v.
func (p *prover) comparing(v any) int {
	w := compareWork
	switch v := v.(type) {
	case json.Number:
		w = numberWork
	case string:
		w += len(v) / 16
	case []any:
		for _, e := range v {
			w += p.comparing(e)
		}
	case map[string]any:
		for _, e := range v {
			w += compareWork + p.comparing(e)
		}
	}
	return w
}

// size is the work of matching one byte: at worst a step for each instruction.
func (p *prover) size(re *regexp.Regexp) int {
	if n, ok := p.sizes[re]; ok {
		return n
	}
	text := re.String()
	n := 1 + len(text)
	if parsed, err := syntax.Parse(text, syntax.Perl); err == nil {
		if prog, err := syntax.Compile(parsed.Simplify()); err == nil {
			n = 1 + len(prog.Inst)/2
		}
	}
	p.charge(1 + n/8)
	if p.sizes == nil {
		p.sizes = map[*regexp.Regexp]int{}
	}
	p.sizes[re] = n
	return n
}

// weigh charges for a validation before it runs: for all visits to schemas, of which
// there can be exponentially many.
func (p *prover) weigh(s *schema, v any) {
	w := weighing{prover: p, most: p.left * stepWork}
	w.visit(s, v)
	p.charge(1 + w.work/stepWork)
}

type weighing struct {
	*prover
	work, most int
	// path is the length of the pointer to the value.
	path int
}

func (w *weighing) add(n int) {
	if w.work += n; w.work > w.most {
		w.left = -1
		panic(exhausted{})
	}
}

func (w *weighing) visit(s *schema, v any) {
	if s == nil || s.Always != nil {
		w.add(compareWork)
		return
	}
	if !admits(s, kindOf(v)) {
		w.add(visitWork)
		return
	}
	l := w.load(s)
	w.add(l.visit + w.path/8)
	for _, c := range [...]*schema{s.Ref, s.RecursiveRef, s.DynamicRef, s.Not, s.If, s.Then, s.Else} {
		if c != nil {
			w.visit(c, v)
		}
	}
	for _, list := range [...][]*schema{s.AllOf, s.AnyOf, s.OneOf} {
		for _, c := range list {
			w.visit(c, v)
		}
	}
	switch v := v.(type) {
	case string:
		w.add(l.text * len(v))
	case json.Number:
		w.add(l.text * len(v))
	case []any:
		w.list(s, v)
	case map[string]any:
		w.object(s, v, l)
	}
}

func (w *weighing) list(s *schema, v []any) {
	w.add(memberWork * len(v))
	if s.UniqueItems {
		// All pairs of short lists, hashes of longer ones.
		per := bulk(v, w.most)
		if len(v) <= 20 {
			per *= 5
		}
		w.add(8 * per)
	}
	prefix, rest := elements(s)
	w.path += 6
	defer func() { w.path -= 6 }()
	for i, e := range v {
		switch {
		case i < len(prefix):
			w.visit(prefix[i], e)
		case rest != nil:
			w.visit(rest, e)
		}
		if s.Contains != nil {
			w.visit(s.Contains, e)
		}
		if s.UnevaluatedItems != nil {
			w.visit(s.UnevaluatedItems, e)
		}
	}
}

func (w *weighing) object(s *schema, v map[string]any, l load) {
	for _, c := range s.DependentSchemas {
		w.visit(c, v)
	}
	for _, d := range s.Dependencies {
		if c, ok := d.(*schema); ok {
			w.visit(c, v)
		}
	}
	more, _ := s.AdditionalProperties.(*jsonschema.Schema)
	for k, e := range v {
		w.add(memberWork + l.member + l.text*len(k))
		w.path += 1 + len(k)
		if c := s.Properties[k]; c != nil {
			w.visit(c, e)
		} else {
			if more != nil {
				w.visit(more, e)
			}
			if s.UnevaluatedProperties != nil {
				w.visit(s.UnevaluatedProperties, e)
			}
		}
		if s.PropertyNames != nil {
			w.visit(s.PropertyNames, k)
		}
		for _, c := range s.PatternProperties {
			w.visit(c, e)
		}
		w.path -= 1 + len(k)
	}
}
