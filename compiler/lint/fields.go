package lint

import (
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/policy"
)

// The fields of the plan language. schemas/plan.json states the same for editors; a
// test compares the two.

var planFields = &fields.Table{What: "a plan", Nested: []fields.Nested{{Field: "limits", Table: limitsFields}, {Field: "cycles", Table: cyclesFields}}, Fields: []fields.Field{
	fields.Required("apiVersion", fields.FormText, "always `chimera/v1`").Usually(always(fields.APIVersion, true)),
	fields.Required("kind", fields.FormText, "always `Plan`").Usually(always("Plan", true)),
	fields.Required("name", fields.FormText, "the plan's name: lower-case letters, digits and hyphens"),
	fields.Required("version", fields.FormText, "the plan's version, such as \"1.2.0\"").Usually(always("1.0.0", false)),
	fields.Optional("description", fields.FormText, "for people"),
	fields.Optional("agent", fields.FormText, "the identity of the agent that the plan acts for"),
	fields.Optional("currency", fields.FormText, "the ISO 4217 code of `cost_estimate` where the catalog does not price the operation, such as USD"),
	fields.Required("input_schema", fields.FormSchema, "the JSON Schema of the plan's input").Called("input", "inputs", "parameters"),
	fields.Required("output_schema", fields.FormSchema, "the JSON Schema of the plan's output").Called("returns"),
	fields.Optional("output", fields.FormMap|fields.FormText, "what the plan returns: a map from its output ports to constants or ${…} expressions over `nodes` and `input`, or one for the whole").Called("outputs", "result", "results"),
	fields.Optional("defs", fields.FormMap, "a map of JSON Schemas that every schema of the plan may refer to as #/defs/NAME"),
	fields.Optional("allow", fields.FormList, "the list of effect classes that the plan may hold"),
	fields.Optional("limits", fields.FormMap, "the bounds of a run"),
	fields.Optional("cycles", fields.FormMap, "the policy for loops; without it the plan has none"),
	fields.Required("nodes", fields.FormList, "the list of steps").Called("steps", "tasks", "actions", "jobs", "stages", "activities", "states"),
	fields.Optional("edges", fields.FormList, "the list of connections between steps").Called("connections", "links", "transitions", "wires", "flows"),
}}

var limitsFields = &fields.Table{What: "a `limits` map", Fields: []fields.Field{
	fields.Optional("max_parallel", fields.FormNumber, "the largest number of nodes in flight"),
	fields.Optional("deadline_ms", fields.FormNumber, "the time after which a run ends, in milliseconds"),
}}

var cyclesFields = &fields.Table{What: "a `cycles` map", Fields: []fields.Field{
	fields.Required("max_iterations", fields.FormNumber, "the largest number of visits of a loop"),
	fields.Optional("on_exhausted", fields.FormText, "what follows the last visit: `fail` or `continue`"),
}}

var nodeFields = &fields.Table{What: "a node", Nested: []fields.Nested{{Field: "retry_policy", Table: catalog.RetryFields}, {Field: "for_each", Table: forEachFields}, {Field: "commit_policy", Table: commitFields}}, Fields: []fields.Field{
	fields.Required("id", fields.FormText, "the node's name: letters, digits, `_` and `-`").Called("name", "key").Usually(idByTemplate),
	fields.Optional("template", fields.FormText, "an operation of the catalog, as `provider/operation`, which gives the fields that the node leaves out").Called("uses", "use", "action", "call", "tool", "function"),
	fields.Optional("provider_type", fields.FormText, "`skill` or `mcp`"),
	fields.Optional("provider_name", fields.FormText, "the name of the skill provider or MCP server"),
	fields.Optional("operation", fields.FormText, "the skill or tool to call"),
	fields.Optional("mode", fields.FormText, "`deter` if equal inputs give equal outputs, else `prob`"),
	fields.Optional("effect_class", fields.FormText, "what a call does outside: `pure`, `staged`, `committing` or `irreversible`"),
	fields.Optional("input_schema", fields.FormSchema, "the JSON Schema of what the node takes"),
	fields.Optional("output_schema", fields.FormSchema, "the JSON Schema of what the node returns"),
	fields.Optional("timeout_ms", fields.FormNumber, "the longest time that one call may take, in milliseconds"),
	fields.Optional("retry_policy", fields.FormMap, "how often, when and after what wait a failed call is repeated"),
	fields.Optional("trust_requirement", fields.FormText, "the trust state that the operation must have: `allow_auto`, `manual_review` or `block`"),
	fields.Optional("fingerprint", fields.FormText, "the operation's fingerprint when the plan was written, `sha256:` and 64 hex digits: another one in the catalog is refused"),
	fields.Optional("after", fields.FormText|fields.FormList, "the node, or the list of nodes, that must have succeeded before").SurelyCalled("needs", "depends_on", "dependson", "dependencies", "depends", "requires", "upstream", "runafter", "run_after"),
	fields.Optional("when", fields.FormText, "a CEL condition over `nodes` and `input`, such as `nodes.sum.total > 3`: the node runs only where it holds").Called("condition").SurelyCalled("if"),
	fields.Optional("otherwise_of", fields.FormText|fields.FormList, "the node, or the list of nodes, with a `when`: this node runs where none of them holds").Called("else_of", "else", "otherwise"),
	fields.Optional("with", fields.FormMap|fields.FormText, "a map from input ports to constants or ${…} expressions over `nodes` and `input`, such as `${nodes.read.text}`, or one for the whole input").Called("input", "parameters").SurelyCalled("inputs", "args", "arguments", "params", "kwargs"),
	fields.Optional("commit_policy", fields.FormMap, "who approves the effect, and how it is checked and undone"),
	fields.Optional("cost_estimate", fields.FormNumber|fields.FormText, "what a call costs: a number from 0 on, or a CEL expression over `args` and `input` that gives one"),
	fields.Optional("for_each", fields.FormMap, "the port whose list the node is run over"),
	fields.Optional("description", fields.FormText, "for people"),
	fields.Optional("resources", fields.FormList, "a list of strings for the task record"),
	fields.Optional("priority", fields.FormText, "`low`, `medium` or `high`"),
}}

// always returns a value that does not depend on the rest of the map.
func always(value string, sure bool) func(*syntax.Value) (string, bool) {
	return func(*syntax.Value) (string, bool) { return value, sure }
}

// idByTemplate proposes the name of the operation as the id of a node.
func idByTemplate(at *syntax.Value) (value string, sure bool) {
	t := at.Get("template")
	if t == nil || t.Kind != syntax.String {
		return "", false
	}
	return firstID(t.Text), false
}

// contractFields are the fields that a node has or takes from its template.
var contractFields = []string{
	"provider_type", "provider_name", "operation", "mode", "effect_class",
	"input_schema", "output_schema", "timeout_ms", "retry_policy", "trust_requirement",
}

var forEachFields = &fields.Table{What: "a `for_each` map", Fields: []fields.Field{
	fields.Required("port", fields.FormText, "the input port that takes one element at a time"),
	fields.Optional("max_parallel", fields.FormNumber, "the largest number of elements in flight"),
	fields.Required("max_items", fields.FormNumber, "the longest list that is accepted"),
}}

var commitFields = &fields.Table{What: "a `commit_policy`", Nested: []fields.Nested{{Field: "approval", Table: approvalFields}, {Field: "verify", Table: verifyFields}, {Field: "rollback", Table: rollbackFields}}, Fields: []fields.Field{
	fields.Optional("approval", fields.FormMap, "who must sign, and until when"),
	fields.Optional("barrier", fields.FormText, "the name of a barrier that several nodes share"),
	fields.Optional("prechecks", fields.FormList, "a list of nodes that must succeed first"),
	fields.Optional("verify", fields.FormMap, "how to find out whether the effect happened"),
	fields.Optional("rollback", fields.FormMap, "the node that undoes the effect, or `{none: reason}` where it cannot be undone or verified").Called("compensate", "compensation", "undo"),
}}

var rollbackFields = &fields.Table{What: "a `rollback` map", Fields: []fields.Field{
	fields.Optional("node", fields.FormText, "the node that undoes the effect"),
	fields.Optional("with", fields.FormMap|fields.FormText, "a map from its input ports to constants or ${…} expressions over `args`, `output` and `error` of the effect, and `input`"),
	fields.Optional("none", fields.FormText, "the reason why nothing can be undone"),
}}

var approvalFields = &fields.Table{What: "an `approval`", Fields: append([]fields.Field{
	fields.Optional("groups", fields.FormList, "the list of groups that must all sign"),
	fields.Optional("expires_in_ms", fields.FormNumber, "the time after which an unsigned approval is refused, in milliseconds"),
	fields.Optional("exclude", fields.FormList, "a list of persons who may not sign"),
}, policy.FollowUpFields...)}

var verifyFields = &fields.Table{What: "a `verify` map", Fields: append([]fields.Field{
	fields.Required("node", fields.FormText, "a pure node without edges"),
}, catalog.VerifyCall...)}

var edgeFields = &fields.Table{What: "an edge", Fields: []fields.Field{
	fields.Required("from_node", fields.FormText, "the node that the edge leaves").Called("from", "source"),
	fields.Required("from_port", fields.FormText, "a port of that node's output, or `$`, `$done`, `$error`, `$compensate`"),
	fields.Required("to_node", fields.FormText, "the node that the edge enters").Called("to", "target"),
	fields.Required("to_port", fields.FormText, "a port of that node's input, or `$`, `$start`"),
	fields.Required("edge_type", fields.FormText, "`data`, `control`, `conditional` or `error`").Called("type", "kind"),
	fields.Required("required", fields.FormBool, "whether the target needs this edge to run"),
	fields.Optional("transform", fields.FormAny, "a JSON template with ${…} expressions, or the id of an adapter").Called("map", "mapping"),
	fields.Optional("when", fields.FormText, "a CEL predicate, or `otherwise`").Called("if", "condition"),
	fields.Optional("check", fields.FormText, "always `runtime`: the value is checked when it arrives"),
}}

// arrowFields are those of an edge whose ends are an arrow.
var arrowFields = &fields.Table{What: "an edge", Fields: []fields.Field{
	fields.Required("edge", fields.FormText, "the ends of the edge, such as `a.x -> b.y`"),
	fields.Optional("edge_type", fields.FormText, "`data`, `control`, `conditional` or `error`; it follows from the rest"),
	fields.Optional("required", fields.FormBool, "whether the target needs this edge to run: by default true, for error edges false"),
	fields.Optional("transform", fields.FormAny, "a JSON template with ${…} expressions, or the id of an adapter").Called("map", "mapping"),
	fields.Optional("when", fields.FormText, "a CEL predicate, or `otherwise`").Called("if", "condition"),
	fields.Optional("check", fields.FormText, "always `runtime`: the value is checked when it arrives"),
}}

// Closed sets of words.
var (
	edgeTypes   = []string{"data", "control", "conditional", "error"}
	exhaustions = []string{"fail", "continue"}
	Priorities  = []string{"low", "medium", "high"}
)
