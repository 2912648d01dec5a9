package lint

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/diag"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
)

// foreignField says what is meant by a field of another engine.
func (l *linter) foreignField(t *fields.Table, at, key, val *syntax.Value) (fields.Meaning, bool) {
	m, ok := l.foreignMeaning(t, at, key, val)
	if field, _, _ := strings.Cut(m.Text, ":"); at.Get(field) != nil {
		m.Text, m.Certain = "", false // it is there already
	}
	return m, ok
}

func (l *linter) foreignMeaning(t *fields.Table, at, key, val *syntax.Value) (fields.Meaning, bool) {
	name := strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(key.Text))
	switch t {
	case nodeFields:
		return l.foreignOfNode(name, at, val)
	case planFields:
		return foreignOfPlan(name, at, val)
	case catalog.RetryFields:
		return foreignOfRetry(name, at, val)
	case commitFields:
		if slices.Contains([]string{"compensate", "compensation", "undo", "rollback"}, name) {
			return fields.Meaning{
				Suggestion: "rollback: {node: " + undoer(val) + ", with: {PORT: \"${output.…}\"}}",
				Detail:     "`rollback` names the node that undoes the effect, and what it takes: expressions over `args` and `output` of the effect. Or it says why nothing can be undone: `{none: reason}`.",
			}, true
		}
	}
	return fields.Meaning{}, false
}

// idOf is the id of a node, or what its template is called, for suggestions.
func idOf(at *syntax.Value) string {
	for _, key := range []string{"id", "name", "key"} {
		if v := at.Get(key); v != nil && v.Kind == syntax.String && fields.NodeIDs.Re.MatchString(v.Text) {
			return v.Text
		}
	}
	return "ID"
}

// goal is the node that a field of control flow leads to, or "ID".
func goal(v *syntax.Value) string {
	switch v.Kind {
	case syntax.String:
		if fields.NodeIDs.Re.MatchString(v.Text) || v.Text == "$output" {
			return v.Text
		}
	case syntax.List:
		for _, item := range v.Items {
			if id := goal(item); id != "ID" {
				return id
			}
		}
	case syntax.Map:
		for _, key := range []string{"goto", "next", "Next", "to", "target", "node", "then", "step"} {
			if x := v.Get(key); x != nil {
				return goal(x)
			}
		}
	case syntax.Null, syntax.Bool, syntax.Number:
	}
	return "ID"
}

func (l *linter) foreignOfNode(name string, at, val *syntax.Value) (m fields.Meaning, ok bool) {
	id := idOf(at)
	switch name {
	case "timeout", "timeoutseconds", "timeouts", "starttoclosetimeout", "timeoutminutes", "executiontimeout", "deadline":
		m = fields.Meaning{Field: "timeout_ms", Suggestion: "timeout_ms: …", Detail: "The longest time that one call may take, in milliseconds."}
		ms, sure := milliseconds(val)
		if name == "timeoutminutes" && ms != "" {
			ms, sure = times(ms, 60), true
		}
		if ms != "" {
			m.Suggestion, m.Text, m.Certain = "timeout_ms: "+ms, "timeout_ms: "+ms, sure
		}
	case "retry", "retries", "maxretries", "maxtries", "maxattempts", "attempts", "retrypolicy", "retryonfail":
		m = retryOf(name, val)
	case "else", "otherwise", "unless", "default":
		return l.elseOf(id, val)
	case "onerror", "onfailure", "catch", "except", "onfail", "errorhandler", "fallback", "rescue":
		to := goal(val)
		m = fields.Meaning{
			Suggestion: fmt.Sprintf("edges: [%s.$error -> %s]", id, to),
			Detail:     fmt.Sprintf("A failure goes down an edge of the list `edges`: `- %s.$error -> %s`, or `{edge: \"%s.$error -> %s\", when: \"error.kind == 'timeout'\"}` for one kind of failure.", id, to, id, to),
		}
	case "ignoreerrors", "continueonfail", "continueonerror", "allowfailure":
		m = fields.Meaning{Suggestion: fmt.Sprintf("edges: [%s.$error -> ID.PORT]", id), Detail: "A run goes on after a failure if an edge of the list `edges` takes it: with what happens instead, or into an optional port of `$output`."}
	case "next", "then", "goto", "transition", "onsuccess":
		to := goal(val)
		m = fields.Meaning{
			Suggestion: fmt.Sprintf("after: [%s]", id),
			Detail:     fmt.Sprintf("A node says what it comes after, or reads the output of: write `after: [%s]` in %s, if it does not read `nodes.%s` anyway.", id, fields.Quote(to), id),
		}
	case "end", "isend", "terminal":
		m = fields.Meaning{Suggestion: "output: {PORT: \"${nodes." + id + ".PORT}\"}", Detail: "A run ends when nothing more can run. What the plan returns is said by its `output`."}
	case "register", "as", "result", "saveas", "resultpath", "assignto", "outputkey", "storeas":
		m = fields.Meaning{Suggestion: "${nodes." + id + ".PORT}", Detail: "What a node returns is read by its id: `${nodes." + id + ".PORT}`."}
	case "outputs", "output", "returns":
		m = fields.Meaning{Suggestion: "${nodes." + id + ".PORT}", Detail: "What a node returns follows from its operation, and is read as `${nodes." + id + ".PORT}`. What the plan returns is said by `output` of the plan."}
	case "foreach", "loop", "for", "withitems", "map", "mapover", "iterate", "items":
		m = fields.Meaning{Field: "for_each", Suggestion: "for_each: {port: PORT, max_items: 100}", Detail: "The node is called with each element of the list that arrives at a port; `with` fills that port with the list."}
	case "maxiterations", "until", "while", "repeat":
		m = fields.Meaning{Suggestion: "cycles: {max_iterations: 3, on_exhausted: continue}", Detail: "A loop needs `cycles` of the plan, and an edge with a condition from its last node back to its first: `{edge: \"last.x -> first.y\", when: …, required: false}`."}
	case "parallel", "branches", "fork":
		m = fields.Meaning{Suggestion: "nodes: [{id: …, template: …}]", Detail: "Nodes that wait for nothing run at the same time: make each branch a node of its own. `limits: {max_parallel: N}` of the plan bounds them."}
		if first := firstStep(val); first != "" {
			m.Suggestion = first
		}
	case "switch", "cases", "choices", "case", "branch":
		return switchOf(at, val), true
	case "compensate", "compensation", "undo", "rollback", "onrollback":
		m = fields.Meaning{
			Suggestion: "commit_policy: {rollback: {node: " + undoer(val) + ", with: {PORT: \"${output.…}\"}}}",
			Detail:     "What undoes the effect is a node of its own, which `rollback` names, with what it takes: expressions over `args` and `output` of the effect.",
		}
	case "triggerrule", "runwhen":
		m = fields.Meaning{Suggestion: "${nodes.ID.PORT ?? nodes.ID.PORT}", Detail: "A node runs if all that it reads arrives. Alternatives stand in one entry of `with`, `${nodes.a.x ?? nodes.b.y}`; after a failure an edge from `$error` leads on."}
	case "run", "script", "code", "cmd", "command", "shell", "prompt":
		m = fields.Meaning{Suggestion: "template: PROVIDER/OPERATION", Detail: "A node calls an operation of the catalog; `chimera init` makes one of your own."}
	default:
		return m, false
	}
	return m, true
}

// undoer is the node that undoes an effect, as another engine names it.
func undoer(v *syntax.Value) string {
	if v.Kind == syntax.Map {
		for _, key := range []string{"node", "activity", "step", "template", "operation"} {
			if x := v.Get(key); x != nil && x.Kind == syntax.String {
				name := x.Text[strings.LastIndexByte(x.Text, '/')+1:]
				if at := strings.IndexByte(name, '_'); at > 0 && strings.Contains(x.Text, "/") {
					name = name[:at]
				}
				return name
			}
		}
	}
	return goal(v)
}

// retryOf reads how often other engines repeat a call.
func retryOf(name string, val *syntax.Value) fields.Meaning {
	m := fields.Meaning{Field: "retry_policy", Suggestion: "retry_policy: {max_retries: 2}", Detail: "How often a call is repeated after it failed, at most."}
	n := val
	if val.Kind == syntax.Map {
		n = nil
		for i := range val.Fields {
			switch key := strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(val.Fields[i].Key.Text)); key {
			case "maxattempt", "maxattempts", "maximumattempts", "attempts", "maxtries", "maxretries", "retries", "limit", "count":
				n, name = val.Fields[i].Value, key
			}
		}
	}
	if n == nil || n.Kind != syntax.Number || len(n.Text) > 3 {
		return m
	}
	times := fields.Number(n)
	if times == nil || !times.IsInt() || times.Sign() < 0 || times.Cmp(big.NewRat(catalog.MaxRetries, 1)) > 0 {
		return m
	}
	count := times.Num().Int64()
	if strings.Contains(name, "attempt") || strings.Contains(name, "tries") && name != "retries" && name != "maxretries" {
		count = max(count-1, 0)
	}
	m.Suggestion = fmt.Sprintf("retry_policy: {max_retries: %d}", count)
	m.Text, m.Certain = m.Suggestion, val.Kind == syntax.Number
	return m
}

// elseOf reads `else: ID` of the node that has the condition, or `otherwise: true` of the other.
func (l *linter) elseOf(id string, val *syntax.Value) (fields.Meaning, bool) {
	if l.steps == nil {
		l.steps = stepsOf(l.reading)
	}
	to := goal(val)
	if conditional, there := l.steps.conditional[to]; val.Kind == syntax.String && to != "ID" && there && !conditional {
		return fields.Meaning{
			Suggestion: "otherwise_of: " + id,
			Detail:     fmt.Sprintf("The node that runs where the condition of another does not hold says so: write `otherwise_of: %s` in %s.", id, fields.Quote(to)),
		}, true
	}
	of := l.steps.only
	if of == id {
		of = "…"
	}
	m := fields.Meaning{Field: "otherwise_of", Suggestion: "otherwise_of: " + of, Detail: "The node runs where the `when` of the node that it names does not hold."}
	if of != "…" {
		m.Text, m.Certain = m.Suggestion, true
	}
	return m, true
}

// switchOf reads a choice by cases.
func switchOf(at, val *syntax.Value) fields.Meaning {
	m := fields.Meaning{Suggestion: "when: \"input.kind == 'a'\"", Detail: "No node decides about others: each has its own `when`, and the last one `otherwise_of: [ID, …]`."}
	over := ""
	for _, key := range []string{"expression", "on", "value", "switch"} {
		if x := at.Get(key); x != nil && x.Kind == syntax.String {
			over = unmarked(x.Text)
		}
	}
	if val.Kind == syntax.Map && len(val.Fields) > 0 && over != "" {
		f := val.Fields[0]
		m.Suggestion = fmt.Sprintf("when: %q", over+" == "+quoteCEL(f.Key.Text))
		if to := goal(f.Value); to != "ID" {
			m.Detail = fmt.Sprintf("No node decides about others: %s has `when: %q`, and so on; the last one has `otherwise_of: [ID, …]`.", fields.Quote(to), over+" == "+quoteCEL(f.Key.Text))
		}
	}
	return m
}

func foreignOfPlan(name string, at, val *syntax.Value) (m fields.Meaning, ok bool) {
	switch name {
	case "timeout", "timeoutseconds", "deadline", "executiontimeout":
		m = fields.Meaning{Suggestion: "limits: {deadline_ms: …}", Detail: "The time after which a run ends, in milliseconds."}
		if ms, sure := milliseconds(val); ms != "" {
			m.Suggestion = "limits: {deadline_ms: " + ms + "}"
			if at.Get("limits") == nil {
				m.Text, m.Certain = m.Suggestion, sure
			}
		}
	case "inputs", "parameters", "params", "input", "variables", "vars":
		if val.Get("type") != nil || val.Get("properties") != nil {
			return m, false // it is a schema under another name
		}
		m = fields.Meaning{Field: "input_schema", Suggestion: "input_schema: {type: object, properties: {…}, required: […]}", Detail: "`input_schema` is the JSON Schema of the plan's input, which expressions read as `input.NAME`."}
	case "connections", "links":
		if val.Kind != syntax.Map {
			return m, false
		}
		m = fields.Meaning{Field: "edges", Suggestion: "edges: [a.x -> b.y]", Detail: "`edges` is a list of arrows from node to node, and most of them follow from references such as `${nodes.a.x}`."}
	case "startat", "start", "entrypoint", "initial":
		m = fields.Meaning{Suggestion: "edges: [$input -> ID]", Detail: "Nodes that wait for nothing start at once. What a node comes after it says by `after`, or by what it reads."}
	case "on", "triggers", "trigger", "schedule", "cron":
		m = fields.Meaning{Suggestion: "chimera start PLAN --input JSON", Detail: "A plan says what a run does, not when it starts."}
	case "maxparallel", "concurrency", "parallelism":
		m = fields.Meaning{Suggestion: "limits: {max_parallel: 8}"}
	default:
		if name == "nodes" && val.Kind == syntax.Map || val.Kind == syntax.Map && slices.Contains([]string{"jobs", "steps", "tasks", "states", "activities", "stages", "actions"}, name) {
			return fields.Meaning{Field: "nodes", Suggestion: nodesOf(val), Detail: "`nodes` is the list of steps; each names its operation by `template`."}, true
		}
		return m, false
	}
	return m, true
}

func foreignOfRetry(name string, _, val *syntax.Value) (m fields.Meaning, ok bool) {
	switch name {
	case "attempts", "maxattempts", "maximumattempts", "retries", "limit", "maxtries", "count":
		r := retryOf(name, val)
		text := strings.TrimSuffix(strings.TrimPrefix(r.Suggestion, "retry_policy: {"), "}")
		return fields.Meaning{Field: "max_retries", Suggestion: text, Detail: "The number of calls after the first.", Text: text, Certain: r.Certain}, true
	case "backoff", "strategy":
		return fields.Meaning{Suggestion: "multiplier: 2", Detail: "The wait before each call is `initial_ms`, then `multiplier` times the last one, at most `max_ms`."}, true
	case "delay", "interval", "initialinterval", "wait":
		text := "initial_ms: …"
		ms, sure := milliseconds(val)
		if ms != "" {
			text = "initial_ms: " + ms
		}
		return fields.Meaning{Field: "initial_ms", Suggestion: text, Text: strings.TrimSuffix(text, "…"), Certain: sure}, true
	}
	return m, false
}

// steps is what the nodes of a plan that is being read say of conditions, by their ids.
type steps struct {
	conditional map[string]bool
	// only is the one node with a condition, or "…".
	only string
}

// stepsOf reads the nodes of a plan.
func stepsOf(nodes []*syntax.Value) *steps {
	s := &steps{conditional: make(map[string]bool, len(nodes)), only: "…"}
	found := 0
	for _, v := range nodes {
		id := idOf(v)
		has := v.Get("when") != nil || v.Get("if") != nil || v.Get("condition") != nil
		s.conditional[id] = s.conditional[id] || has
		if has {
			found++
			s.only = id
		}
	}
	if found != 1 {
		s.only = "…"
	}
	return s
}

// otherFile names the file of Chimera that a document is, if that is none of plans, or returns "".
func otherFile(root *syntax.Value) string {
	if root.Get("nodes") != nil {
		return ""
	}
	if kind := root.Get("kind"); kind != nil {
		return map[string]string{"Catalog": "a catalog", "PolicyBundle": "a policy bundle", "PolicyTest": "a file of cases for chimera policy test"}[kind.Text]
	}
	if root.Get("apiVersion") != nil {
		return ""
	}
	for _, key := range []string{"catalog", "ledger", "mcpServers", "policy", "skills", "store", "temporal", "trust", "worker"} {
		if root.Get(key) != nil {
			return "the configuration, chimera.yaml"
		}
	}
	return ""
}

// foreignPlan reports another file of Chimera, or one of another engine, rather than each field of it.
func (l *linter) foreignPlan(root *syntax.Value) bool {
	if other := otherFile(root); other != "" {
		l.Report(diag.Diagnostic{
			Code: diag.PlanSchema, Summary: "this is no plan; it looks like " + other, Subject: fields.Head(root),
			Detail: "A plan has `kind: Plan`, and a list `nodes`. The configuration names catalogs and policies (`catalog`, `tools`, `policy`), and is itself found as chimera.yaml, or by `--config`.",
		})
		return true
	}
	if kind := root.Get("kind"); kind != nil && strings.EqualFold(kind.Text, "Plan") {
		return false
	}
	if api := root.Get("apiVersion"); api != nil && strings.HasPrefix(api.Text, "chimera") {
		return false
	}
	engine := ""
	for _, e := range []struct{ key, name string }{
		{"jobs", "a workflow of GitHub Actions"}, {"States", "a state machine of AWS Step Functions"}, {"spec", "a resource of Kubernetes"},
		{"connections", "a workflow of n8n"}, {"namespace", "a flow of Kestra"}, {"main", "a workflow of Google Cloud"}, {"flow", "a flow of another engine"},
		{"tasks", "a workflow of another engine"}, {"steps", "a workflow of another engine"}, {"stages", "a pipeline of another engine"},
	} {
		if root.Get(e.key) != nil {
			engine = e.name
			break
		}
	}
	if root.Kind == syntax.List && len(root.Items) > 0 && (root.Items[0].Get("tasks") != nil || root.Items[0].Get("hosts") != nil) {
		engine = "a playbook of Ansible"
	}
	if engine == "" {
		return false
	}
	suggestion := nodesOf(root)
	if template := l.mentioned(root); template != "" {
		id := firstID(template)
		suggestion = fmt.Sprintf("nodes: [{id: %s, template: %s}]", id, template)
		if l.jsonFile() {
			suggestion = fmt.Sprintf("\"nodes\": [{\"id\": %q, \"template\": %q}]", id, template)
		}
	}
	l.Report(diag.Diagnostic{
		Code: diag.PlanSchema, Summary: "this is no plan; it looks like " + engine, Subject: fields.Head(root), Suggestion: suggestion,
		Detail: "A plan begins with `apiVersion: chimera/v1` and `kind: Plan`, has a `name`, a `version`, an `input_schema` and an `output_schema`, a list `nodes` whose entries have an `id` and a `template: provider/operation`, and an `output`. A node reads another by `with: {text: \"${nodes.read.text}\"}`. docs/write-a-plan.md shows one.",
	})
	return true
}

func (l *linter) jsonFile() bool { return bytes.HasPrefix(bytes.TrimSpace(l.Src.Text), []byte("{")) }

// mentioned finds the first operation of the catalog that a file of another engine names.
func (l *linter) mentioned(v *syntax.Value) string {
	if name := l.operationIn(v.Text); v.Kind == syntax.String && name != "" {
		return name
	}
	for _, item := range v.Items {
		if name := l.mentioned(item); name != "" {
			return name
		}
	}
	for _, f := range v.Fields {
		if name := l.operationIn(f.Key.Text); name != "" {
			return name
		}
		if name := l.mentioned(f.Value); name != "" {
			return name
		}
	}
	return ""
}

// operationIn returns the operation of the catalog that a word names, in the way of any engine.
func (l *linter) operationIn(word string) string {
	word, _, _ = strings.Cut(word, "@")
	provider, operation, ok := strings.Cut(strings.NewReplacer("::", "/", ":", "/", ".", "/").Replace(word), "/")
	if name := catalog.OperationName(provider, operation); ok && l.Catalog.byName[name] != nil {
		return name
	}
	return ""
}

// firstID is an id for the step that calls an operation.
func firstID(template string) string {
	_, operation, _ := strings.Cut(template, "/")
	id, _, _ := strings.Cut(operation, "_")
	return id
}

// nodesOf is the beginning of a list of nodes for the steps of another engine.
func nodesOf(v *syntax.Value) string {
	id := "ID"
	if v.Kind == syntax.Map && len(v.Fields) > 0 && fields.NodeIDs.Re.MatchString(v.Fields[0].Key.Text) && v.Fields[0].Value.Kind == syntax.Map {
		id = v.Fields[0].Key.Text
	}
	template := "PROVIDER/OPERATION"
	if v.Kind == syntax.Map && len(v.Fields) > 0 {
		if t := v.Fields[0].Value.Get("template"); t != nil && t.Kind == syntax.String {
			template = t.Text
		}
	}
	return fmt.Sprintf("nodes: [{id: %s, template: %s, …}]", id, template)
}

// firstStep is the first step of a block of another engine, as a node.
func firstStep(v *syntax.Value) string {
	for _, item := range v.Items {
		if id, t := item.Get("id"), item.Get("template"); id != nil && t != nil {
			return fmt.Sprintf("- {id: %s, template: %s, …}", id.Text, t.Text)
		}
	}
	for _, f := range v.Fields {
		if found := firstStep(f.Value); found != "" {
			return found
		}
	}
	return ""
}
