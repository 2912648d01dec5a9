package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Bounds of numbers that are computed with at run time. They exceed what the
// compiler accepts, and keep durations and counts from overflowing.
const (
	// maxMS bounds every time: a thousand years.
	maxMS = 1000 * 366 * 24 * 60 * 60 * 1000
	// maxAttempts is the most that Temporal counts.
	maxAttempts = math.MaxInt32
	// maxMultiplierMilli bounds the backoff factor.
	maxMultiplierMilli = 1_000_000
)

// Verify checks the invariants of a compiled plan and reports the first that
// does not hold: known format and enumerations, virtual nodes in place, unique
// ids, sorted lists, indexes and numbers in range, edges by the rules of their
// type, every value that an edge takes along among its source's OutPorts, loops
// natural and no other cycle, implicit edges those of the prechecks, barriers
// and their members in agreement, compensations entered by their own edges only,
// and children, where they are given, those that nodes name. That expressions
// compile and types agree is the compiler's word.
func (p *Plan) Verify() error {
	if p.Format != Format {
		return fmt.Errorf("verify plan: format is %q, this build reads %q", p.Format, Format)
	}
	if p.Expr != ExprVersion {
		return fmt.Errorf("verify plan: expressions of version %d, this build knows %d", p.Expr, ExprVersion)
	}
	if p.Limits.MaxParallel < 1 || p.Limits.DeadlineMS < 1 || p.Limits.DeadlineMS > maxMS {
		return errors.New("verify plan: limits out of range")
	}
	last := len(p.Nodes) - 1
	if last < 1 || p.Nodes[0].Kind != KindInput || p.Nodes[last].Kind != KindOutput {
		return errors.New("verify plan: $input is not first or $output not last")
	}
	if p.Nodes[0].ID != InputNode || p.Nodes[last].ID != OutputNode {
		return errors.New("verify plan: a virtual node does not have its name")
	}
	ids := make(map[string]bool, len(p.Nodes))
	for i := range p.Nodes {
		n := &p.Nodes[i]
		if ids[n.ID] {
			return fmt.Errorf("verify plan: node %q is there twice", n.ID)
		}
		ids[n.ID] = true
		if err := p.verifyNode(i); err != nil {
			return fmt.Errorf("verify plan: node %q: %w", n.ID, err)
		}
	}
	for i := range p.Edges {
		if err := p.verifyEdge(&p.Edges[i]); err != nil {
			return fmt.Errorf("verify plan: edge %d: %w", i, err)
		}
	}
	for _, verify := range []func() error{
		p.verifyPayloads, p.verifyLoops, p.verifyCommits, p.verifyBlocks, p.verifyChildren, p.verifyMarks,
	} {
		if err := verify(); err != nil {
			return fmt.Errorf("verify plan: %w", err)
		}
	}
	for i := range p.Schemas {
		s := &p.Schemas[i]
		if DigestOf(s.Schema) != s.Digest {
			return fmt.Errorf("verify plan: schema %d does not have its digest", i)
		}
		if i > 0 && p.Schemas[i-1].Digest >= s.Digest {
			return errors.New("verify plan: schemas are not sorted")
		}
	}
	return nil
}

func (p *Plan) verifyNode(i int) error {
	n := &p.Nodes[i]
	first, last := i == 0, i == len(p.Nodes)-1
	virtual := first || last
	if (n.Kind == KindCall) == virtual {
		return fmt.Errorf("kind %q is out of place", n.Kind)
	}
	for _, s := range []int{n.InputSchema, n.OutputSchema} {
		if s < -1 || s >= len(p.Schemas) || (s < 0 && !virtual) {
			return errors.New("schema out of range")
		}
	}
	switch {
	case !ascending(n.RequiredPorts):
		return errors.New("required_ports are not sorted names")
	case !ascending(n.OutPorts):
		return errors.New("out_ports are not sorted names")
	case first && (n.InputSchema != -1 || n.RequiredPorts != nil || n.ReadsInput):
		return errors.New("$input takes no input")
	case last && (n.OutputSchema != -1 || n.OutPorts != nil || n.RoutesOnInput):
		return errors.New("$output has no output")
	case virtual && !bare(n):
		return errors.New("a virtual node calls nothing")
	case virtual:
		return nil
	}
	return n.verifyCall()
}

// bare reports whether the fields of a call are empty.
func bare(n *Node) bool {
	return n.ProviderType == "" && n.Provider == "" && n.Operation == "" && n.Mode == "" && n.Effect == "" && n.Trust == "" &&
		n.TimeoutMS == 0 && n.Retry.zero() && n.Fingerprint == "" && n.Parts == nil && n.Endpoints == nil && n.Instructions == "" && !n.Structured && n.Resource == nil && !n.InProcess && !n.Local && n.With == nil &&
		n.Plan == "" && n.IdempotencyPort == "" && n.Commit == nil && n.Taint == nil && n.Estimate == nil && n.Cost == nil && n.ForEach == nil &&
		n.Undoes == 0 && !n.Called && n.Description == "" && n.Resources == nil && n.Priority == ""
}

func (r *Retry) zero() bool {
	return r.MaxAttempts == 0 && r.On == nil && r.InitialMS == 0 && r.MultiplierMilli == 0 && r.MaxMS == 0
}

func (n *Node) verifyCall() error {
	switch {
	case n.ID == "" || strings.HasPrefix(n.ID, "$"):
		return errors.New("the id is empty or reserved")
	case n.Provider == "" || n.Operation == "":
		return errors.New("no operation")
	case n.ProviderType != Skill && n.ProviderType != MCP:
		return fmt.Errorf("unknown provider type %q", n.ProviderType)
	case n.Mode != Prob && n.Mode != Deter:
		return fmt.Errorf("unknown mode %q", n.Mode)
	case !slices.Contains([]EffectClass{Pure, Staged, Committing, Irreversible}, n.Effect):
		return fmt.Errorf("unknown effect class %q", n.Effect)
	case !slices.Contains([]Trust{AllowAuto, ManualReview, Block}, n.Trust):
		return fmt.Errorf("unknown trust requirement %q", n.Trust)
	case n.TimeoutMS < 1 || n.TimeoutMS > maxMS:
		return errors.New("timeout out of range")
	case n.InProcess && n.ProviderType != Skill:
		return errors.New("marked in-process, but not a skill")
	case !ascending(n.Endpoints):
		return errors.New("the endpoints are not sorted")
	case n.InProcess && n.Endpoints != nil, n.Instructions != "" && n.ProviderType != MCP,
		n.Parts != nil && (n.Fingerprint == "" || n.ProviderType != MCP || n.Resource != nil):
		return errors.New("something is pinned that the operation does not have")
	case n.Structured && (n.ProviderType != MCP || n.Resource != nil):
		return errors.New("marked structured, but not a tool")
	case n.Local && (!n.InProcess || n.Guarded() || n.Mode != Deter):
		return errors.New("marked local, but not a pure deterministic skill in process that nobody reviews")
	}
	for i, w := range n.With {
		if len(w.Template) == 0 || i > 0 && n.With[i-1].Port >= w.Port {
			return errors.New("with is not a sorted list of templates")
		}
	}
	if err := n.Retry.verify(); err != nil {
		return err
	}
	if n.Resource != nil {
		if err := n.Resource.verify(n); err != nil {
			return err
		}
	}
	return n.verifyEffect()
}

func (r *Retry) verify() error {
	switch {
	case r.MaxAttempts < 1 || r.MaxAttempts > maxAttempts,
		r.MultiplierMilli < 1000 || r.MultiplierMilli > maxMultiplierMilli,
		r.InitialMS < 0 || r.InitialMS > maxMS,
		r.MaxMS < 0 || r.MaxMS > maxMS:
		return errors.New("retry policy out of range")
	case !ascending(r.On):
		return errors.New("the kinds that are retried are not sorted")
	}
	for _, k := range r.On {
		if !k.Valid() {
			return fmt.Errorf("unknown error kind %q", k)
		}
	}
	return nil
}

func (p *Plan) verifyEdge(e *Edge) error {
	last := len(p.Nodes) - 1
	if e.From < 0 || e.From >= last || e.To < 1 || e.To > last {
		return errors.New("node out of range")
	}
	failed := e.FromPort == ErrorPort || e.FromPort == CompensatePort
	conditional := e.When != "" || e.Otherwise
	switch {
	case e.FromPort == StartPort || slices.Contains([]string{DonePort, ErrorPort, CompensatePort}, e.ToPort):
		return errors.New("a reserved port is out of place")
	case failed != (e.Type == Error):
		return errors.New("error edges, and they alone, leave $error and $compensate")
	case e.When != "" && e.Otherwise:
		return errors.New("both a predicate and otherwise")
	}
	switch e.Type {
	case Data:
		if e.FromPort == DonePort || e.ToPort == StartPort || conditional {
			return errors.New("a data edge moves a value, always")
		}
	case Control:
		if e.FromPort != DonePort || e.ToPort != StartPort || conditional {
			return errors.New("a control edge goes from $done to $start, always")
		}
	case Conditional:
		if e.FromPort == DonePort && (e.ToPort != StartPort || !conditional) {
			return errors.New("a conditional edge from $done has a condition and no value")
		}
	case Error:
		if e.From == 0 || e.Otherwise {
			return errors.New("an error edge leaves a node that can fail, and has no otherwise")
		}
	default:
		return fmt.Errorf("unknown type %q", e.Type)
	}
	ports := p.Nodes[e.From].OutPorts
	switch {
	case e.ReadsError && (e.FromPort != CompensatePort || len(e.Transform) == 0):
		return errors.New("marked to read the failure, and not the transform of a compensation")
	case !e.Carries() && (len(e.Transform) > 0 || e.ReadsOutput):
		return errors.New("a transform without a value")
	case e.Implicit && (e.Type != Control || !e.Required):
		return errors.New("an implicit edge is a required control edge")
	case e.ReadsOutput && (e.FromPort == ErrorPort || len(e.Transform) == 0):
		return errors.New("marked to read the output, without a transform that could")
	case e.Type != Error && e.Carries() && !has(ports, e.FromPort):
		return fmt.Errorf("the port %q is not among the source's out_ports", e.FromPort)
	case e.ReadsOutput && !has(ports, WholePort):
		return errors.New("the whole output is not among the source's out_ports")
	}
	return nil
}

// verifyPayloads checks that what fills "$" of a node is its only payload.
func (p *Plan) verifyPayloads() error {
	whole := make([]bool, len(p.Nodes))
	part := make([]bool, len(p.Nodes))
	fill := func(node int, port string) {
		if port == WholePort {
			whole[node] = true
		} else {
			part[node] = true
		}
	}
	for i := range p.Edges {
		if e := &p.Edges[i]; e.Carries() {
			fill(e.To, e.ToPort)
		}
	}
	for i := range p.Nodes {
		for _, w := range p.Nodes[i].With {
			fill(i, w.Port)
		}
		if whole[i] && part[i] {
			return fmt.Errorf("node %q: \"$\" beside another payload", p.Nodes[i].ID)
		}
	}
	return nil
}

// verifyChildren checks that Children, if given, are exactly the plans that the
// nodes run, directly or through others. It follows that no plan runs itself, since
// none can contain its own digest.
func (p *Plan) verifyChildren() error {
	if len(p.Children) == 0 {
		return nil
	}
	used := make([]bool, len(p.Children))
	need := func(q *Plan) error {
		for i := range q.Nodes {
			d := q.Nodes[i].Plan
			if d == "" {
				continue
			}
			at, ok := slices.BinarySearchFunc(p.Children, d, func(c Child, d string) int { return strings.Compare(c.Digest, d) })
			if !ok {
				return fmt.Errorf("node %q: the plan that it runs is missing", q.Nodes[i].ID)
			}
			used[at] = true
		}
		return nil
	}
	for i := range p.Children {
		c := &p.Children[i]
		if c.Plan == nil || i > 0 && p.Children[i-1].Digest >= c.Digest {
			return errors.New("children are not a sorted list of plans")
		}
		if err := c.Plan.Verify(); err != nil {
			return fmt.Errorf("plan %q: %w", c.Plan.Name, err)
		}
		b, err := c.Plan.Encode()
		if err != nil {
			return err
		}
		if DigestOf(b) != c.Digest {
			return fmt.Errorf("plan %q does not have its digest", c.Plan.Name)
		}
		for n := range c.Plan.Nodes {
			if c.Plan.Nodes[n].Effect.Acts() {
				return fmt.Errorf("plan %q: a plan that another one runs has no effect", c.Plan.Name)
			}
		}
		if err := need(c.Plan); err != nil {
			return err
		}
	}
	if err := need(p); err != nil {
		return err
	}
	if slices.Contains(used, false) {
		return errors.New("children that nobody runs")
	}
	return nil
}
