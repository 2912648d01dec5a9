// Package model defines the meaning of the ledger: what the entries of a log say, one
// after the other, about plans, runs, tasks, agents, budgets, holds and invocations.
//
// [State.Apply] takes the entries of each chain in their order; chains may be
// interleaved in any way that the log allows. It refuses an entry that cannot follow
// those before it: a task that is executed before it is signed, a hold that does not
// fit in its budget, an invocation that is settled twice. A refused entry changes
// nothing.
// Verifiers replay a log through it, and tests compare it with what a store
// answers.
package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/task"
)

// ErrImpossible reports an entry that cannot follow those before it.
var ErrImpossible = errors.New("impossible entry")

// State is what a log says. The zero value is not ready: use [New].
type State struct {
	Plans map[string]ledger.Plan // by name@version
	Runs  map[string]*Run        // by chain
	Tasks map[string]task.Task
	// Closed has the tasks that nobody will sign any more, which stay drafts.
	Closed  map[string]bool
	Agents  map[string]ledger.Agent
	Signers map[string]ledger.Signer
	Tools   map[string]ledger.Tool
	Budgets map[BudgetKey]ledger.BudgetData
	Uses    map[UseKey]Use
	Holds   map[string]ledger.Hold
	// Checks has the last check of each node.
	Checks      map[CheckKey]ledger.Check
	Decisions   map[string]ledger.Decision
	Barriers    map[string]ledger.Barrier
	Approvals   map[string]ledger.Approval
	Invocations map[string]ledger.Invocation
	Hypotheses  map[string]ledger.Hypothesis
	// Authority are the statements in order.
	Authority []json.RawMessage
	// LegalHolds are the chains under legal hold.
	LegalHolds map[string]bool
	// Pruned are the acts of pruning, in order.
	Pruned []ledger.PrunedData
	// Erased counts the acts of erasing a subject.
	Erased int
	// Vague holds the names of things that are no longer known, since bodies about them
	// are gone: see [State.Apply].
	Vague map[string]bool

	// course maps vague things to the kinds of their last entries.
	course map[string]ledger.Kind
	// from has the workflow id for which each of Approvals was made, and unused
	// the approvals of a workflow id of which it is known whether they are used
	// up.
	from   map[string]string
	unused map[string][]string
	// Brief drops the outcomes of runs: Apply checks them, but does not add them to Runs.
	// A verifier of a long log does not need them.
	Brief bool

	// consumed has the invocation for which an approval counts, by approval and action.
	consumed map[consumption]string
	// probCosts has what calls of probabilistic nodes cost.
	probCosts map[probCostKey]ledger.Money
	// rechecked has the checks that were made for a barrier.
	rechecked map[recheck]bool
	// granted has the origin of the run that each start grant has opened.
	granted map[grant]string
	// decided has the chain in which each of Decisions was made, and whether it has
	// permitted its invocation.
	decided map[string]decided
}

type decided struct {
	chain string
	used  bool
}

// consumption is one action of an approval.
type consumption struct{ approval, action string }

// visit is a visit of a node of a run, for one element.
type visit struct {
	node           string
	visit, element int
}

// grant is a start grant of a workflow id.
type grant struct{ workflow, digest string }

// BudgetKey names a budget.
type BudgetKey struct {
	Agent    string
	Currency ledger.Currency
}

// UseKey names a period of a budget.
type UseKey struct {
	BudgetKey
	Period string
}

// Thing is the period's name in [State.Vague]: the limit is known all the same.
func (k UseKey) Thing() string {
	return "budget:" + k.Agent + "\x00" + string(k.Currency) + "\x00" + k.Period
}

// Use is what is used of a budget in one period.
type Use struct{ Pending, Posted ledger.Money }

// Run is a run with the outcomes of its nodes, in the order in which they were
// stated.
type Run struct {
	ledger.Run
	Outcomes []ledger.Outcome
	// Paused reports that people have paused it, and not let it go on.
	Paused bool

	// said has the digests of the signed orders to it.
	said map[string]bool
	// ended has the nodes that have an outcome, while the run goes on.
	ended map[visit]struct{}
}

// New returns the state of an empty log.
func New() *State {
	return &State{
		Plans: map[string]ledger.Plan{}, Runs: map[string]*Run{}, Tasks: map[string]task.Task{}, Agents: map[string]ledger.Agent{},
		Signers: map[string]ledger.Signer{}, Tools: map[string]ledger.Tool{}, Budgets: map[BudgetKey]ledger.BudgetData{}, Uses: map[UseKey]Use{},
		Holds: map[string]ledger.Hold{}, Checks: map[CheckKey]ledger.Check{}, rechecked: map[recheck]bool{}, Decisions: map[string]ledger.Decision{}, Closed: map[string]bool{}, Barriers: map[string]ledger.Barrier{}, Approvals: map[string]ledger.Approval{},
		Invocations: map[string]ledger.Invocation{}, Hypotheses: map[string]ledger.Hypothesis{}, LegalHolds: map[string]bool{}, Vague: map[string]bool{},
		course: map[string]ledger.Kind{}, from: map[string]string{}, unused: map[string][]string{},
		consumed: map[consumption]string{}, granted: map[grant]string{}, probCosts: map[probCostKey]ledger.Money{}, decided: map[string]decided{},
	}
}

// Apply applies the next entry with its body's data. data is nil if the entry has no body,
// or if the body was pruned or erased: then the thing that the entry is about becomes
// vague, and is no longer in the state. Apply believes what later entries say about it,
// except for what the entries alone show: the order in which a thing begins and ends, and
// that decisions and permits of a run come before its end. [State.Vague] has the thing
// under the name that [Thing] returns. For a hold of unknown amount it has the periods of
// budgets that were charged ([UseKey.Thing]), for approvals that may have been used up, each
// of them ("used:ID"), and for checks that are not known the workflow ("checks:WORKFLOW").
func (s *State) Apply(e *ledger.Entry, h ledger.Hash, data json.RawMessage) error {
	if data == nil {
		return s.ApplyFacts(e, h, Facts{})
	}
	return s.ApplyFacts(e, h, Read(e.Kind, data))
}

// ApplyFacts is like [State.Apply], for data that [Read] has read; the zero value means no
// data.
func (s *State) ApplyFacts(e *ledger.Entry, h ledger.Hash, data Facts) error {
	if e.Body == "" {
		return nil
	}
	thing := Thing(e)
	gone := data == (Facts{})
	err := s.within(e)
	switch {
	case err != nil:
	case data.err != nil:
		err = data.err
	case gone || s.Vague[thing]:
		err = s.blind(e, thing, gone)
	default:
		err = s.apply(e, h, data)
	}
	if err != nil {
		return fmt.Errorf("entry %d of %s (%s): %w", e.N, e.Chain, e.Kind, err)
	}
	return nil
}

// within checks an entry about a run against the run: it must be open, except for entries
// that may follow its end.
func (s *State) within(e *ledger.Entry) error {
	running := false
	switch e.Kind {
	case ledger.CheckMade, ledger.DecisionMade, ledger.BarrierOpened, ledger.ApprovalAccepted, ledger.ApprovalRefused, ledger.ApprovalConsumed, ledger.InvocationPermitted:
		running = true
	case ledger.TaskDrafted:
	default:
		return nil
	}
	switch s.stands(e, "run:"+e.Chain) {
	case "":
		return impossible("the run was not opened")
	case ledger.RunClosed:
		if r := s.Runs[e.Chain]; running && r != nil {
			return impossible("the run has ended as %s", r.State)
		} else if running {
			return impossible("the run has ended")
		}
	}
	return nil
}

func impossible(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrImpossible, fmt.Sprintf(format, args...))
}

// add inserts a new thing into a map.
func add[K comparable, V any](m map[K]V, k K, v V) error {
	if _, ok := m[k]; ok {
		return impossible("%v is there already", k)
	}
	m[k] = v
	return nil
}

func (s *State) apply(e *ledger.Entry, h ledger.Hash, data Facts) error {
	switch e.Kind {
	case ledger.PlanPublished:
		p, err := read[ledger.Plan](data)
		if err != nil {
			return err
		}
		if err := named(e, p.Name+"@"+p.Version); err != nil {
			return err
		}
		return add(s.Plans, p.Name+"@"+p.Version, p)
	case ledger.RunOpened, ledger.RunClosed, ledger.NodeSucceeded, ledger.NodeFailed, ledger.NodeSkipped:
		return s.run(e, data)
	case ledger.RunPaused, ledger.RunResumed:
		return s.order(e, data)
	case ledger.CheckMade:
		return s.check(e, data)
	case ledger.TaskDrafted, ledger.TaskSigned, ledger.TaskExecuted, ledger.TaskClosed:
		return s.task(e, h, data)
	case ledger.BarrierOpened, ledger.BarrierReminded, ledger.BarrierEscalated, ledger.BarrierClosed:
		return s.barrier(e, data)
	case ledger.AgentAdded:
		a, err := read[ledger.Agent](data)
		if err != nil {
			return err
		}
		if err := named(e, a.AgentID); err != nil {
			return err
		}
		return add(s.Agents, a.AgentID, a)
	case ledger.SignerEnrolled, ledger.SignerRevoked:
		return s.signer(e, data)
	case ledger.ToolRegistered, ledger.ToolTrusted:
		return s.tool(e, data)
	case ledger.BudgetSet, ledger.HoldOpened, ledger.HoldRunning, ledger.HoldPosted, ledger.HoldVoided, ledger.HoldExpired:
		return s.money(e, data)
	case ledger.DecisionMade:
		return s.decision(e, data)
	case ledger.ApprovalAccepted, ledger.ApprovalRefused:
		a, err := read[ledger.Approval](data)
		if err != nil {
			return err
		}
		if a.Accepted != (e.Kind == ledger.ApprovalAccepted) {
			return impossible("its data say otherwise")
		}
		if err := named(e, a.ID); err != nil {
			return err
		}
		if err := add(s.Approvals, a.ID, a); err != nil {
			return err
		}
		w := strings.Clone(workflow(e.Chain))
		s.from[a.ID] = w
		if a.Accepted {
			s.unused[w] = append(s.unused[w], a.ID)
		}
		return nil
	case ledger.ApprovalConsumed:
		return s.consume(e, data)
	case ledger.InvocationPermitted, ledger.InvocationCalling, ledger.InvocationReleased, ledger.InvocationSettled, ledger.InvocationUnknown:
		return s.invocation(e, data)
	case ledger.HypothesisStated, ledger.HypothesisObserved:
		return s.hypothesis(e, data)
	case ledger.SnapshotTaken:
		// Nothing follows from it.
		return nil
	case ledger.RulesKept:
		r, err := read[ledger.RulesData](data)
		if err != nil {
			return err
		}
		if plan.DigestOf(r.Rules) != r.Digest {
			return impossible("the rules have another digest")
		}
		return named(e, r.Digest)
	case ledger.AuthorityStated:
		a, err := read[ledger.AuthorityData](data)
		if err != nil {
			return err
		}
		s.Authority = append(s.Authority, a.Statement)
		return nil
	case ledger.BodyPruned:
		p, err := read[ledger.PrunedData](data)
		if err != nil {
			return err
		}
		s.Pruned = append(s.Pruned, p)
		return nil
	case ledger.SubjectErased:
		if _, err := read[ledger.ErasedData](data); err != nil {
			return err
		}
		s.Erased++
		return nil
	case ledger.LegalHoldPlaced, ledger.LegalHoldLifted:
		l, err := read[ledger.LegalHoldData](data)
		if err != nil {
			return err
		}
		placed := e.Kind == ledger.LegalHoldPlaced
		if s.LegalHolds[l.Chain] == placed {
			return impossible("%s is in that state already", l.Chain)
		}
		if placed {
			s.LegalHolds[l.Chain] = true
		} else {
			delete(s.LegalHolds, l.Chain)
		}
		return nil
	}
	return impossible("the kind is not known")
}

func (s *State) run(e *ledger.Entry, data Facts) error {
	if e.Kind == ledger.RunOpened {
		r, err := read[ledger.Run](data)
		if err != nil {
			return err
		}
		if r.Chain() != e.Chain || strings.Contains(r.Root, "/") || e.N != 0 {
			return impossible("it does not open its chain")
		}
		if err := told(e, r.Agent, r.PlanDigest, r.InputDigest, ""); err != nil {
			return err
		}
		if _, ok := s.Runs[e.Chain]; ok {
			return impossible("the run was opened before")
		}
		if r.GrantDigest != "" {
			used := grant{r.Workflow, r.GrantDigest}
			if origin, ok := s.granted[used]; ok && origin != r.Origin {
				return impossible("its start grant has opened another run")
			}
			s.granted[used] = r.Origin
		}
		s.Runs[r.Chain()] = &Run{Run: r, ended: map[visit]struct{}{}}
		return nil
	}
	r := s.Runs[e.Chain]
	if r == nil {
		return impossible("the run was not opened")
	}
	if e.Kind == ledger.RunClosed {
		end, err := read[ledger.Run](data)
		if err != nil {
			return err
		}
		switch {
		case end.ClosedAt == nil:
			return impossible("it does not say when the run has ended")
		case r.State != ledger.RunRunning && r.State != end.State:
			return impossible("the run has ended as %s", r.State)
		case !same(begun(end), begun(r.Run)):
			return impossible("it is about another run, or says something else of how it was opened")
		case r.State != ledger.RunRunning && !same(end, r.Run):
			return impossible("it says something else of how the run has ended")
		}
		if err := told(e, end.Agent, end.PlanDigest, end.InputDigest, end.OutputDigest); err != nil {
			return err
		}
		// Nothing more ends in it.
		r.Run, r.ended = end, nil
		return nil
	}
	o, err := read[ledger.Outcome](data)
	if err != nil {
		return err
	}
	if err := digests(o.Snapshots); err != nil {
		return err
	}
	switch {
	case o.Node != e.Node || o.Visit != e.Visit || o.Element != e.Element:
		return impossible("its data are about something else")
	case r.State != ledger.RunRunning:
		return impossible("the run has ended")
	}
	if err := told(e, r.Agent, r.PlanDigest, o.InputDigest, o.OutputDigest); err != nil {
		return err
	}
	at := visit{o.Node, o.Visit, o.Element}
	if _, twice := r.ended[at]; twice {
		return impossible("node %s has ended before", o.Node)
	}
	if s.Brief {
		// The name is a part of the data, which it would keep in memory.
		at.node = strings.Clone(at.node)
	} else {
		r.Outcomes = append(r.Outcomes, o)
	}
	r.ended[at] = struct{}{}
	return nil
}

// workflow is the workflow id in the name of a run's chain.
func workflow(chain string) string {
	id, _, _ := ledger.RunOf(chain)
	return id
}

// begun returns a run as it was when it was opened.
func begun(r ledger.Run) ledger.Run {
	r.State, r.ClosedAt, r.OutputDigest, r.Failure = ledger.RunRunning, nil, "", nil
	return r
}

// told checks that the fields of an entry match its body. Guessable digests may be
// missing.
func told(e *ledger.Entry, agent, plan, input, output string) error {
	in, out := e.Ref("input"), e.Ref("output")
	if e.Agent != agent || e.Plan != plan || in != "" && in != input || out != "" && out != output {
		return impossible("its body is of another agent, plan, input or output")
	}
	return nil
}

func (s *State) task(e *ledger.Entry, h ledger.Hash, data Facts) error {
	if e.Kind == ledger.TaskExecuted {
		x, err := read[ledger.ExecutedData](data)
		if err != nil {
			return err
		}
		if err := named(e, x.TaskID); err != nil {
			return err
		}
		signed, ok := s.Tasks[x.TaskID].(task.Signed)
		if !ok {
			return impossible("task %s is not signed", x.TaskID)
		}
		about, _, _ := cutLast(x.TaskID)
		if i, ok := s.Invocations[about]; ok && i.TaskID != x.TaskID {
			return impossible("task %s is not that of invocation %s", x.TaskID, about)
		} else if by, known := s.decided[x.TaskID]; known && by.chain != "" && by.chain != e.Chain {
			// The decision that has drafted it has its id: a run that was reset executes it for an earlier one.
			return impossible("task %s is one of another run", x.TaskID)
		}
		done, err := signed.Execute(x.Result, ledger.Reference(e.Origin, h), x.ExecutedAt.Time())
		if err != nil {
			return impossible("%s", err)
		}
		s.Tasks[x.TaskID] = done
		return nil
	}
	if e.Kind == ledger.TaskClosed {
		c, err := read[ledger.TaskClosedData](data)
		if err != nil {
			return err
		}
		if _, ok := s.Tasks[c.TaskID].(task.Draft); !ok || s.Closed[c.TaskID] {
			return impossible("task %s is not a draft, or closed", c.TaskID)
		}
		s.Closed[c.TaskID] = true
		return named(e, c.TaskID)
	}
	t, err := read[task.Task](data)
	if err != nil {
		return err
	}
	id := t.Base().TaskID
	if err := named(e, id); err != nil {
		return err
	}
	switch t := t.(type) {
	case task.Draft:
		if e.Kind != ledger.TaskDrafted {
			return impossible("it is a draft")
		}
		return add(s.Tasks, id, task.Task(t))
	case task.Signed:
		draft, ok := s.Tasks[id].(task.Draft)
		if !ok || s.Closed[id] || e.Kind != ledger.TaskSigned {
			return impossible("task %s is not a draft, or closed", id)
		}
		again, err := draft.Sign(t.Signature)
		if err != nil || !same(again, t) {
			return impossible("task %s is not what was drafted", id)
		}
		s.Tasks[id] = t
		return nil
	}
	return impossible("a task is executed by its own kind of data")
}

// same reports whether two things have the same JSON.
func same(a, b any) bool {
	x, err := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err == nil && err2 == nil && string(x) == string(y)
}

func (s *State) signer(e *ledger.Entry, data Facts) error {
	if e.Kind == ledger.SignerEnrolled {
		v, err := read[ledger.Signer](data)
		if err != nil {
			return err
		}
		if v.RevokedAt != nil {
			return impossible("it is revoked from the start")
		}
		if err := named(e, v.ID); err != nil {
			return err
		}
		return add(s.Signers, v.ID, v)
	}
	r, err := read[ledger.RevokedData](data)
	if err != nil {
		return err
	}
	v, ok := s.Signers[r.ID]
	if !ok || v.RevokedAt != nil {
		return impossible("signer %s is not there, or revoked", r.ID)
	}
	v.RevokedAt = &r.RevokedAt
	s.Signers[r.ID] = v
	return nil
}

func (s *State) tool(e *ledger.Entry, data Facts) error {
	if e.Kind == ledger.ToolRegistered {
		v, err := read[ledger.Tool](data)
		if err != nil {
			return err
		}
		if err := named(e, v.ToolID); err != nil {
			return err
		}
		return add(s.Tools, v.ToolID, v)
	}
	r, err := read[ledger.TrustedData](data)
	if err != nil {
		return err
	}
	v, ok := s.Tools[r.ToolID]
	if !ok {
		return impossible("tool %s is not there", r.ToolID)
	}
	v.Status = r.Status
	s.Tools[r.ToolID] = v
	return nil
}
