package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/expr"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// prepared is one plan with its schemas and expressions, compiled on first use. The
// cache of plans holds it beside the plan; it reports to the cache how much memory
// it holds.
type prepared struct {
	plan    *plan.Plan
	schemas []lazy[*schemas.Schema]
	nodes   []lazy[*node]
	grow    func(bytes int)
}

// prepare returns a plan of which nothing is compiled yet.
func prepare(p *plan.Plan, grow func(bytes int)) any {
	grow(placeBytes * (len(p.Schemas) + len(p.Nodes)))
	return &prepared{
		plan: p, grow: grow,
		schemas: make([]lazy[*schemas.Schema], len(p.Schemas)),
		nodes:   make([]lazy[*node], len(p.Nodes)),
	}
}

// preparedPlan returns the prepared plan with a digest.
func preparedPlan(ctx context.Context, plans Plans, digest string) (*prepared, error) {
	v, err := plans.Prepared(ctx, digest, prepare)
	if err != nil {
		return nil, contract.Errorf(contract.StoreUnavailable, "the plan cannot be read: %w", err)
	}
	return v.(*prepared), nil
}

// Approximate sizes in bytes of what is prepared, once in use. They were measured,
// and err on the high side.
const (
	placeBytes = 48  // of a schema or node that is not prepared yet
	nodeBytes  = 320 // of a node, without its schemas and expressions
	edgeBytes  = 16

	// An expression, and each byte of its text; literals hold less.
	predicateBytes, predicateByte = 2000, 110
	templateBytes, templateByte   = 600, 180
	literalByte                   = 30
)

type lazy[T any] struct {
	once  sync.Once
	value T
	err   error
}

// errUnmade is the error of a value whose construction panicked: a missing schema
// must not pass for one that allows everything.
var errUnmade = errors.New("it could not be made")

func (l *lazy[T]) get(build func() (T, error)) (T, error) {
	l.once.Do(func() {
		l.err = errUnmade
		l.value, l.err = build()
	})
	return l.value, l.err
}

// node is one node, ready to be evaluated unless err is set.
type node struct {
	plan   *plan.Plan
	index  int
	spec   *plan.Node
	input  *schemas.Schema
	output *schemas.Schema
	with   []port
	// transforms and predicates correspond to Plan.In and Plan.Out of the node;
	// those of edges without one are nil.
	transforms []*expr.Template
	predicates []*expr.Program
	err        error
}

type port struct {
	name     string
	template *expr.Template
}

// node returns node i, prepared. It is never nil.
func (q *prepared) node(i int) *node {
	n, _ := q.nodes[i].get(func() (n *node, _ error) {
		err := recovered("the preparation of node "+q.plan.Nodes[i].ID, func() error {
			n = q.prepare(i)
			q.grow(n.memory())
			return nil
		})
		if err != nil {
			n = &node{plan: q.plan, index: i, spec: &q.plan.Nodes[i], err: err}
		}
		return n, nil
	})
	return n
}

func (q *prepared) prepare(i int) *node {
	p := q.plan
	n := &node{plan: p, index: i, spec: &p.Nodes[i]}
	var errs []error
	keep := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	var err error
	n.input, err = q.schema(n.spec.InputSchema)
	keep(err)
	n.output, err = q.schema(n.spec.OutputSchema)
	keep(err)
	for _, w := range n.spec.With {
		t, err := template(w.Template, expr.With)
		keep(err)
		n.with = append(n.with, port{w.Port, t})
	}
	for _, e := range p.In(i) {
		t, err := transform(&p.Edges[e])
		keep(err)
		n.transforms = append(n.transforms, t)
	}
	for _, e := range p.Out(i) {
		c, err := predicate(&p.Edges[e])
		keep(err)
		n.predicates = append(n.predicates, c)
	}
	if err := errors.Join(errs...); err != nil {
		n.err = contract.Errorf(contract.Contract, "node %s cannot be prepared: %w", n.spec.ID, err)
	}
	return n
}

func (q *prepared) schema(i int) (*schemas.Schema, error) {
	if i < 0 {
		return nil, nil
	}
	return q.schemas[i].get(func() (*schemas.Schema, error) {
		s, err := schemas.Compile(q.plan.Schemas[i].Schema)
		if err == nil {
			q.grow(s.Memory())
		}
		return s, err
	})
}

// memory estimates how many bytes the node holds, without its schemas.
func (n *node) memory() int {
	held := nodeBytes + edgeBytes*(len(n.transforms)+len(n.predicates))
	for _, w := range n.spec.With {
		held += templateMemory(w.Template)
	}
	for _, e := range n.plan.In(n.index) {
		held += templateMemory(n.plan.Edges[e].Transform)
	}
	for _, e := range n.plan.Out(n.index) {
		if when := n.plan.Edges[e].When; when != "" {
			held += predicateBytes + predicateByte*len(when)
		}
	}
	return held
}

func templateMemory(raw json.RawMessage) int {
	switch {
	case raw == nil:
		return 0
	case bytes.Contains(raw, []byte("${")):
		return templateBytes + templateByte*len(raw)
	}
	return templateBytes + literalByte*len(raw)
}

func transform(e *plan.Edge) (*expr.Template, error) {
	if e.Transform == nil {
		return nil, nil
	}
	switch {
	case e.FromPort == plan.CompensatePort:
		return template(e.Transform, expr.Compensate)
	case e.Type == plan.Error:
		return template(e.Transform, expr.ErrorTransform)
	}
	return template(e.Transform, expr.Transform)
}

func template(raw json.RawMessage, scope expr.Scope) (*expr.Template, error) {
	v, err := schemas.Decode(raw)
	if err != nil {
		return nil, err
	}
	t, errs := expr.CompileTemplate(v, scope)
	if len(errs) > 0 {
		return nil, fmt.Errorf("expression: %s", errs[0].Message)
	}
	return t, nil
}

func predicate(e *plan.Edge) (*expr.Program, error) {
	if e.When == "" {
		return nil, nil
	}
	scope := expr.When
	if e.Type == plan.Error {
		scope = expr.ErrorWhen
	}
	return expr.CompilePredicate(e.When, scope)
}

// check decodes raw and validates it. Its errors have the given kind.
func (n *node) check(s *schemas.Schema, raw json.RawMessage, kind contract.Kind, what string) (any, error) {
	if n.err != nil {
		return nil, n.err
	}
	v, err := schemas.Decode(raw)
	if err != nil {
		if errors.Is(err, schemas.ErrTooLarge) {
			kind = contract.TooLarge
		}
		return nil, contract.Errorf(kind, "%s: %w", what, err)
	}
	return v, n.validate(s, v, kind, what)
}

func (n *node) validate(s *schemas.Schema, v any, kind contract.Kind, what string) error {
	if s == nil {
		return nil
	}
	err := s.Validate(v)
	if err == nil {
		return nil
	}
	if errors.Is(err, schemas.ErrTooLarge) {
		return contract.Errorf(contract.TooLarge, "%s: %w", what, err)
	}
	e := contract.Errorf(kind, "%s does not match its schema: %w", what, err)
	var invalid *schemas.Invalid
	if errors.As(err, &invalid) {
		e.Details = causes(invalid)
	}
	return e
}

// causes formats as many causes as fit into a failure's details.
func causes(invalid *schemas.Invalid) json.RawMessage {
	for n := len(invalid.Causes); n > 0; n-- {
		details := map[string]any{"causes": invalid.Causes[:n]}
		if more := len(invalid.Causes) - n + invalid.More; more > 0 {
			details["more"] = more
		}
		raw, err := json.Marshal(details)
		if err == nil && len(raw) <= contract.MaxDetails {
			return raw
		}
	}
	return nil
}
