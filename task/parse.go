package task

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// stages maps states to their schemas.
var stages = map[State]func() (*schemas.Schema, error){
	StateDraft: compiled("task.draft"), StateSigned: compiled("task.signed"), StateExecuted: compiled("task.executed"),
}

func compiled(name string) func() (*schemas.Schema, error) {
	return sync.OnceValues(func() (*schemas.Schema, error) { return schemas.CompileNamed(name) })
}

// Parse reads a task of any stage. It returns a [Draft], [Signed] or [Executed],
// depending on the document's state. The error is [Faults] if the document is JSON but
// not a valid task. Parse ignores fields that the schemas do not name.
func Parse(raw []byte) (Task, error) {
	v, err := schemas.Decode(raw)
	if err != nil {
		return nil, fmt.Errorf("read task: %w", err)
	}
	doc, ok := v.(map[string]any)
	if !ok {
		return nil, Faults{{"", "is not an object"}}
	}
	state, _ := doc["state"].(string)
	stage, ok := stages[State(state)]
	if !ok {
		// The schema of drafts reports what is wrong with the state.
		stage = stages[StateDraft]
	}
	s, err := stage()
	if err != nil {
		return nil, err
	}
	r := reader{doc: doc}
	var invalid *schemas.Invalid
	if err := s.Validate(v); errors.As(err, &invalid) {
		for _, c := range invalid.Causes {
			r.add(c.Instance, c.Message)
		}
	} else if err != nil {
		return nil, fmt.Errorf("read task: %w", err)
	}
	t := r.task(State(state))
	if t != nil {
		for _, f := range t.faults() {
			if !r.known[f.Path] && (len(r.found) == 0 || r.has(f.Path) || strings.Count(f.Path, "/") > 1) {
				r.add(f.Path, f.Message)
			}
		}
	}
	if len(r.found) > 0 {
		slices.SortFunc(r.found, func(a, b Fault) int { return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message)) })
		return nil, Faults(r.found)
	}
	return t, nil
}

// ParseDraft reads a draft, and refuses tasks of other stages.
func ParseDraft(raw []byte) (Draft, error) { return only[Draft](raw, StateDraft) }

// ParseSigned reads a signed task; see [ParseDraft].
func ParseSigned(raw []byte) (Signed, error) { return only[Signed](raw, StateSigned) }

// ParseExecuted reads an executed task; see [ParseDraft].
func ParseExecuted(raw []byte) (Executed, error) { return only[Executed](raw, StateExecuted) }

func only[T Task](raw []byte, want State) (T, error) {
	t, err := Parse(raw)
	if err != nil {
		var none T
		return none, err
	}
	out, ok := t.(T)
	if !ok {
		return out, Faults{{"/state", fmt.Sprintf("must be %q at this stage, not %q", want, string(t.Base().State))}}
	}
	return out, nil
}

// reader reads the fields of a decoded document. A malformed value adds a fault, and
// counts as the zero value.
type reader struct {
	doc   map[string]any
	found []Fault
	known map[string]bool
}

func (r *reader) add(path, message string) {
	if r.known == nil {
		r.known = map[string]bool{}
	}
	r.known[path] = true
	r.found = append(r.found, Fault{path, message})
}

// has reports whether the document has a field at the top.
func (r *reader) has(path string) bool {
	_, ok := r.doc[strings.TrimPrefix(path, "/")]
	return ok
}

func text(m map[string]any, key string) string {
	s, _ := m[key].(string)
	return s
}

// instants matches RFC 3339. Package time also accepts a comma instead of the point, hours
// of one digit, and zones that RFC 3339 does not allow.
var instants = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$`)

func (r *reader) instant(m map[string]any, key, path string) time.Time {
	s, ok := m[key].(string)
	if !ok {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err == nil {
		_, err = t.MarshalText()
	}
	if err != nil || !instants.MatchString(s) {
		r.add(path, fmt.Sprintf("%.40q is not an instant of RFC 3339", s))
	}
	return t
}

func (r *reader) task(state State) Task {
	d := Draft{
		TaskID: text(r.doc, "task_id"), AgentID: text(r.doc, "agent_id"), Description: text(r.doc, "description"),
		Resources: []string{}, CostEstimate: "0", Priority: Medium, State: state, CreatedAt: r.instant(r.doc, "created_at", "/created_at"),
	}
	if list, ok := r.doc["resources"].([]any); ok {
		for _, x := range list {
			if s, ok := x.(string); ok {
				d.Resources = append(d.Resources, s)
			}
		}
	}
	if n, ok := r.doc["cost_estimate"].(json.Number); ok {
		d.CostEstimate = n
	}
	if s, ok := r.doc["priority"].(string); ok {
		d.Priority = Priority(s)
	}
	if state != StateSigned && state != StateExecuted {
		return d
	}
	m, _ := r.doc["signature"].(map[string]any)
	s := Signed{Draft: d, Signature: Signature{
		SignerID: text(m, "signer_id"), SigType: text(m, "sig_type"), Signature: text(m, "signature"),
		SignedAt: r.instant(m, "signed_at", "/signature/signed_at"),
	}}
	if state == StateSigned {
		return s
	}
	e := Executed{Signed: s, ExecutedAt: r.instant(r.doc, "executed_at", "/executed_at"), AuditRef: text(r.doc, "audit_ref")}
	if result, ok := r.doc["result"].(map[string]any); ok {
		raw, err := plan.Canonical(result)
		if err != nil {
			r.add("/result", err.Error())
		}
		e.Result = raw
	}
	return e
}
