package activities

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"chimera.ai/engine/contract"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
)

// maxDiagnostics is how many findings a failure carries.
const maxDiagnostics = 50

// maxFindings bounds their size as JSON, in bytes: clients without the engine's
// store read them.
const maxFindings = 128 << 10

// loading lists the kinds of failure after which Temporal retries a start.
var loading = &plan.Retry{On: []contract.Kind{contract.StoreUnavailable, contract.Timeout, contract.WorkerLost}}

// Load implements the activity engine/load: it compiles the plan of a start,
// stores it, validates the input, and states that the run has begun.
func (e *Engine) Load(ctx context.Context, request contract.LoadRequest) (*plan.Loaded, error) {
	var s subject
	loaded, err := e.load(ctx, &request, &s)
	if err != nil {
		return nil, e.about(err, &s)
	}
	return loaded, nil
}

func (e *Engine) load(ctx context.Context, request *contract.LoadRequest, s *subject) (*plan.Loaded, error) {
	raw, err := e.argument(ctx, request)
	if err != nil {
		return nil, err
	}
	start, err := readStart(raw)
	if err != nil {
		return nil, fail(ctx, nil, err)
	}
	s.source = start.Source
	if strings.Contains(start.Plan, "@") {
		s.plan = start.Plan
	}
	bench := e.workbench()
	if bench.Away != nil {
		return nil, unavailable(bench.Away)
	}
	shared, digest, err := e.find(ctx, &bench, &start)
	if err != nil {
		return nil, err
	}
	s.is(shared)
	input := start.Input
	if len(input) == 0 {
		input = json.RawMessage("{}")
	}
	if err := e.believed(ctx, &bench, shared); err != nil {
		return nil, fail(ctx, loading, err)
	}
	admitted, input, err := e.admit(ctx, digest, input)
	if err != nil {
		return nil, fail(ctx, loading, err)
	}
	inputDigest := plan.DigestOf(input)
	r := runOf(shared, digest, request.Run, inputDigest)
	r.Subject = start.Subject
	if present(start.Grant) {
		if err := e.granted(ctx, &r, start.Grant); err != nil {
			return nil, fail(ctx, loading, err)
		}
	}
	if err := refusal(e.Ledger.OpenRun(ctx, r)); err != nil {
		return nil, fail(ctx, loading, e.differs(ctx, &r, err))
	}
	if !slices.ContainsFunc(shared.Nodes, func(n plan.Node) bool { return n.ReadsInput || n.RoutesOnInput }) {
		input = nil
	}
	head := []contract.Value{input}
	for _, values := range [][]contract.Value{admitted.Values, head} {
		if err := e.Values.Keep(ctx, request.Run.Workflow, values, false); err != nil {
			return nil, fail(ctx, loading, err)
		}
	}
	after := e.ContinueAfter
	if after == 0 {
		after = DefaultContinueAfter
	}
	return &plan.Loaded{Plan: shared, Head: plan.Head{
		Digest: digest, Input: admitted, Whole: head[0], InputDigest: inputDigest, Attributes: e.Attributes, ContinueAfter: after, Policy: bench.Policy, Catalog: bench.Catalog,
		ToolsQueue: e.ToolsQueue,
	}}, nil
}

// differs explains that a run cannot be opened because a worker that was lost
// before its answer arrived opened it with another plan. That plan is not taken
// from the ledger, since only this worker's compiler vouches for plans.
func (e *Engine) differs(ctx context.Context, r *ledger.Run, refused error) error {
	if !errors.Is(refused, ledger.ErrConflict) {
		return refused
	}
	have, err := e.Ledger.Run(ctx, r.Workflow, r.Root)
	if err != nil || have.PlanDigest == r.PlanDigest {
		return refused
	}
	return contract.Errorf(contract.Conflict,
		"the run was opened with %s, and its worker was lost then: the catalog or the policy of this worker differs from that one's, and makes %s of the start. Give all workers the same, and start the run again",
		have.PlanDigest, r.PlanDigest)
}

// workbench returns what a start is compiled with.
func (e *Engine) workbench() Workbench {
	if e.Renew != nil {
		return e.Renew()
	}
	return Workbench{Compile: e.Compile, Policy: e.Policy, Catalog: e.Catalog}
}

// find returns the compiled plan of a start. A published plan is compiled from its
// source again: its author must have signed it, and the digest must be the same.
func (e *Engine) find(ctx context.Context, bench *Workbench, start *contract.Start) (*plan.Plan, string, error) {
	if start.Plan == "" {
		return e.plan(ctx, bench, "", start.Source, present(start.Grant))
	}
	published, err := e.Ledger.Plan(ctx, start.Plan)
	if err != nil {
		if errors.Is(err, ledger.ErrNotFound) {
			err = contract.Errorf(contract.Contract, "no plan is published as %s", excerpt.Bytes(start.Plan, 200))
		}
		return nil, "", fail(ctx, loading, refusal(err))
	}
	if err := e.authored(ctx, start.Plan, published); err != nil {
		return nil, "", fail(ctx, loading, err)
	}
	source, err := e.Ledger.GetBlob(ctx, published.SourceDigest)
	if err != nil {
		return nil, "", fail(ctx, loading, refusal(err))
	}
	compiled, digest, err := e.plan(ctx, bench, published.Name+"@"+published.Version, string(source), present(start.Grant))
	if err != nil {
		return nil, "", err
	}
	if digest != published.Digest {
		return nil, "", fail(ctx, nil, contract.Errorf(contract.Contract,
			"%s@%s was published as %s: the catalog or the policy of this worker differs from what it was published with, and makes %s of its source. Give the worker those, which it reads when it starts, or publish it again: chimera publish --again",
			published.Name, published.Version, published.Digest, digest))
	}
	if compiled.Name != published.Name || compiled.Version != published.Version {
		return nil, "", fail(ctx, nil, contract.Errorf(contract.Blocked, "what is published as %s@%s is the source of %s@%s",
			excerpt.Bytes(published.Name, 100), excerpt.Bytes(published.Version, 100), compiled.Name, compiled.Version))
	}
	return compiled, digest, nil
}

// plan returns the compiled plan of a source, and stores it. Without a start grant
// it holds only pure nodes. published is the name@version under which the source is
// published, or "".
func (e *Engine) plan(ctx context.Context, bench *Workbench, published, source string, granted bool) (*plan.Plan, string, error) {
	if digest, ok := e.sources.get(bench.Edition + source); ok {
		if p, err := e.Plans.Get(ctx, digest); err == nil {
			return p, digest, fail(ctx, nil, harmless(p, granted))
		}
	}
	compiled, diagnostics, err := e.compile(ctx, bench, source)
	if err != nil {
		return nil, "", fail(ctx, loading, err)
	}
	if compiled == nil {
		return nil, "", refused(ctx, published, diagnostics)
	}
	if err := harmless(compiled, granted); err != nil {
		return nil, "", fail(ctx, nil, err)
	}
	if what := beyond(compiled); what != "" {
		return nil, "", fail(ctx, nil, contract.Errorf(contract.Contract, "not supported yet: %s", what))
	}
	digest, err := e.Plans.Put(ctx, compiled)
	if err != nil {
		return nil, "", unavailable(err)
	}
	shared, err := e.Plans.Get(ctx, digest)
	if err != nil {
		return nil, "", unavailable(err)
	}
	e.sources.remember(bench.Edition+source, digest)
	return shared, digest, nil
}

// unavailable is the failure of a start while the store is unavailable: Temporal
// retries it, outside any contract.
func unavailable(err error) error {
	return temporal.NewApplicationErrorWithOptions(excerpt.Bytes(err.Error(), contract.MaxMessage), string(contract.StoreUnavailable),
		temporal.ApplicationErrorOptions{})
}

// admit validates the plan's input, resolves the edges of $input and returns the
// input in canonical form. With other white space, an input that looks like a
// reference would be taken for a value ([Values]), and then be read as a reference.
func (e *Engine) admit(ctx context.Context, digest string, raw json.RawMessage) (contract.Outcome, json.RawMessage, error) {
	q, err := preparedPlan(ctx, e.Plans, digest)
	if err != nil {
		return contract.Outcome{}, nil, err
	}
	n := q.node(0)
	input, err := n.check(n.output, raw, contract.Contract, "the plan's input")
	if err != nil {
		return contract.Outcome{}, nil, err
	}
	whole, err := plan.Canonical(input)
	if err != nil {
		return contract.Outcome{}, nil, contract.Errorf(contract.Contract, "the plan's input: %w", err)
	}
	out, err := n.outcome(input, input)
	return out, whole, err
}

// readStart reads the argument of a run, strictly.
func readStart(raw json.RawMessage) (contract.Start, error) {
	start, err := decodeStart(raw)
	switch {
	case err != nil:
		return start, contract.Errorf(contract.Contract, "the start's argument is not {plan | source, input, grant, subject}: %w", err)
	case (start.Plan == "") == (start.Source == ""):
		return start, contract.Errorf(contract.Contract, "a start names exactly one of plan and source")
	case start.Plan != "" && !planRef.MatchString(start.Plan):
		return start, contract.Errorf(contract.Contract, "plan is %.120q, and neither name@version nor sha256:…", start.Plan)
	case !contract.IsSubject(start.Subject):
		return start, contract.Errorf(contract.Contract, "subject is not a name of at most %d bytes without control characters", contract.MaxSubject)
	}
	return start, nil
}

// planRef matches how a start names a published plan: exactly one, whatever is
// published later.
var planRef = regexp.MustCompile(`^([a-z0-9-]{1,63}@[0-9A-Za-z][0-9A-Za-z.+-]{0,63}|sha256:[0-9a-f]{64})$`)

// decodeStart reads the fields of a start one by one, since encoding/json ignores
// case and takes the last of several: another reader of the same text would see
// another start.
func decodeStart(raw json.RawMessage) (contract.Start, error) {
	var start contract.Start
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return start, errors.New("it is not a JSON object")
	}
	fields := map[string]any{"plan": &start.Plan, "source": &start.Source, "input": &start.Input, "grant": &start.Grant, "subject": &start.Subject}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return start, err
		}
		name, _ := token.(string)
		target, ok := fields[name]
		switch {
		case !ok:
			return start, fmt.Errorf("unknown field %q", excerpt.Bytes(name, 100))
		case seen[name]:
			return start, fmt.Errorf("the field %q is there twice", name)
		}
		seen[name] = true
		if err := dec.Decode(target); err != nil {
			return start, fmt.Errorf("%s: %w", name, err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return start, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return start, errors.New("data after the JSON object")
	}
	return start, nil
}

func present(raw json.RawMessage) bool {
	return len(raw) > 0 && string(raw) != "null"
}

// refused is the failure of a run whose plan does not compile. A published plan did
// compile when it was published, so the catalog or policy has changed.
func refused(ctx context.Context, published string, ds diag.Diagnostics) error {
	ds.Sort()
	var text strings.Builder
	n := 0
	for _, d := range ds {
		if d.Severity != diag.Error {
			continue
		}
		if n++; n <= 3 {
			fmt.Fprintf(&text, "\n%d:%d %s: %s", d.Subject.Start.Line, d.Subject.Start.Column, d.Code, d.Summary)
		}
	}
	if n > 3 {
		fmt.Fprintf(&text, "\nand %d more", n-3)
	}
	if len(ds) > maxDiagnostics {
		// What forbids the plan comes first.
		slices.SortStableFunc(ds, func(a, b diag.Diagnostic) int { return cmp.Compare(a.Severity, b.Severity) })
		ds = ds[:maxDiagnostics]
	}
	list, err := json.Marshal(ds)
	for err == nil && len(list) > maxFindings {
		if len(ds) > 1 {
			slices.SortStableFunc(ds, func(a, b diag.Diagnostic) int { return cmp.Compare(a.Severity, b.Severity) })
			ds = ds[:len(ds)/2]
		} else {
			d := ds[0]
			ds = diag.Diagnostics{{Code: d.Code, Severity: d.Severity, Summary: excerpt.Bytes(d.Summary, contract.MaxMessage), Subject: d.Subject}}
			ds[0].Subject.File = excerpt.Bytes(d.Subject.File, contract.MaxMessage)
		}
		list, err = json.Marshal(ds)
	}
	if err != nil {
		return fail(ctx, nil, contract.Errorf(contract.Contract, "write diagnostics: %w", err))
	}
	what := "the plan does not compile"
	if published != "" {
		what = excerpt.Bytes(published, 200) + " compiled when it was published: the catalog or the policy of this worker differs from what it was published with, and the plan does not compile any more"
	}
	message := fmt.Sprintf("%s (%d errors):%s", what, n, text.String())
	return temporal.NewApplicationErrorWithOptions(excerpt.Bytes(message, contract.MaxMessage), string(contract.Contract), temporal.ApplicationErrorOptions{
		NonRetryable: true,
		Details:      []any{contract.ErrorDetails{Attempts: int(activity.GetInfo(ctx).Attempt), Diagnostics: list}},
	})
}
