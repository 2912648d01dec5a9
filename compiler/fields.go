package compiler

// The closed sets of the plan language. schemas/plan.json says the same to
// editors, and a test compares the two.

var planFields = &table{what: "a plan", fields: []field{
	{"apiVersion", formText, true, "always `chimera/v1`"},
	{"kind", formText, true, "always `Plan`"},
	{"name", formText, true, "the plan's name: lower-case letters, digits and hyphens"},
	{"version", formText, true, "the plan's version, such as \"1.2.0\""},
	{"description", formText, false, "for people"},
	{"agent", formText, false, "the identity of the agent that the plan acts for"},
	{"currency", formText, false, "the ISO 4217 code of `cost_estimate` where the catalog does not price the operation, such as USD"},
	{"input_schema", formSchema, true, "the JSON Schema of the plan's input"},
	{"output_schema", formSchema, true, "the JSON Schema of the plan's output"},
	{"defs", formMap, false, "a map of JSON Schemas that every schema of the plan may refer to as #/defs/NAME"},
	{"allow", formList, false, "the list of effect classes that the plan may hold"},
	{"limits", formMap, false, "the bounds of a run"},
	{"cycles", formMap, false, "the policy for loops; without it the plan has none"},
	{"nodes", formList, true, "the list of steps"},
	{"edges", formList, false, "the list of connections between steps"},
}}

var limitsFields = &table{what: "a `limits` map", fields: []field{
	{"max_parallel", formNumber, false, "the largest number of nodes in flight"},
	{"deadline_ms", formNumber, false, "the time after which a run ends, in milliseconds"},
}}

var cyclesFields = &table{what: "a `cycles` map", fields: []field{
	{"max_iterations", formNumber, true, "the largest number of visits of a loop"},
	{"on_exhausted", formText, false, "what follows the last visit: `fail` or `continue`"},
}}

var nodeFields = &table{what: "a node", fields: []field{
	{"id", formText, true, "the node's name: letters, digits, `_` and `-`"},
	{"template", formText, false, "an operation of the catalog, as `provider/operation`, which gives the fields that the node leaves out"},
	{"provider_type", formText, false, "`skill` or `mcp`"},
	{"provider_name", formText, false, "the name of the skill provider or MCP server"},
	{"operation", formText, false, "the skill or tool to call"},
	{"mode", formText, false, "`deter` if equal inputs give equal outputs, else `prob`"},
	{"effect_class", formText, false, "what a call does outside: `pure`, `staged`, `committing` or `irreversible`"},
	{"input_schema", formSchema, false, "the JSON Schema of what the node takes"},
	{"output_schema", formSchema, false, "the JSON Schema of what the node returns"},
	{"timeout_ms", formNumber, false, "the longest time that one call may take, in milliseconds"},
	{"retry_policy", formMap, false, "how often, when and after what wait a failed call is repeated"},
	{"trust_requirement", formText, false, "the trust state that the operation must have: `allow_auto`, `manual_review` or `block`"},
	{"fingerprint", formText, false, "the operation's fingerprint when the plan was written, `sha256:` and 64 hex digits: another one in the catalog is refused"},
	{"with", formMap, false, "a map from input ports to constants or ${…} expressions over `input`"},
	{"commit_policy", formMap, false, "who approves the effect, and how it is checked and undone"},
	{"cost_estimate", formNumber | formText, false, "what a call costs: a number from 0 on, or a CEL expression over `args` and `input` that gives one"},
	{"for_each", formMap, false, "the port whose list the node is run over"},
	{"description", formText, false, "for people"},
	{"resources", formList, false, "a list of strings for the task record"},
	{"priority", formText, false, "`low`, `medium` or `high`"},
}}

// contractFields are those that a node must have and a template may stand for.
var contractFields = []string{
	"provider_type", "provider_name", "operation", "mode", "effect_class",
	"input_schema", "output_schema", "timeout_ms", "retry_policy", "trust_requirement",
}

var retryFields = &table{what: "a `retry_policy`", fields: []field{
	{"max_retries", formNumber, true, "the number of calls after the first"},
	{"on", formList, false, "the list of error kinds that are retried"},
	{"initial_ms", formNumber, false, "the wait before the first retry, in milliseconds"},
	{"multiplier", formNumber, false, "the factor by which the wait grows"},
	{"max_ms", formNumber, false, "the longest wait, in milliseconds"},
}}

var forEachFields = &table{what: "a `for_each` map", fields: []field{
	{"port", formText, true, "the input port that takes one element at a time"},
	{"max_parallel", formNumber, false, "the largest number of elements in flight"},
	{"max_items", formNumber, true, "the longest list that is accepted"},
}}

var commitFields = &table{what: "a `commit_policy`", fields: []field{
	{"approval", formMap, false, "who must sign, and until when"},
	{"barrier", formText, false, "the name of a barrier that several nodes share"},
	{"prechecks", formList, false, "a list of nodes that must succeed first"},
	{"verify", formMap, false, "how to find out whether the effect happened"},
	{"rollback", formMap, false, "`{none: reason}` where the effect cannot be undone or verified"},
}}

var approvalFields = &table{what: "an `approval`", fields: []field{
	{"groups", formList, false, "the list of groups that must all sign"},
	{"expires_in_ms", formNumber, false, "the time after which an unsigned approval is refused, in milliseconds"},
	{"exclude", formList, false, "a list of persons who may not sign"},
}}

var groupFields = &table{what: "an approval group", fields: []field{
	{"role", formText, true, "the role that its signers hold"},
	{"min", formNumber, true, "the number of signatures"},
}}

var verifyFields = &table{what: "a `verify` map", fields: []field{
	{"node", formText, true, "a pure node without edges"},
	{"with", formMap, false, "a map from its input ports to constants or ${…} expressions over `args`, `output` and `input`"},
	{"executed", formText, true, "a CEL predicate over its `output`: the effect happened"},
	{"output", formAny, false, "a template over its `output` that gives what the effect returned"},
}}

var rollbackFields = &table{what: "a `rollback` map", fields: []field{
	{"none", formText, true, "the reason why nothing can be undone"},
}}

var edgeFields = &table{what: "an edge", fields: []field{
	{"from_node", formText, true, "the node that the edge leaves"},
	{"from_port", formText, true, "a port of that node's output, or `$`, `$done`, `$error`, `$compensate`"},
	{"to_node", formText, true, "the node that the edge enters"},
	{"to_port", formText, true, "a port of that node's input, or `$`, `$start`"},
	{"edge_type", formText, true, "`data`, `control`, `conditional` or `error`"},
	{"required", formBool, true, "whether the target needs this edge to run"},
	{"transform", formAny, false, "a JSON template with ${…} expressions, or the id of an adapter"},
	{"when", formText, false, "a CEL predicate, or `otherwise`"},
	{"check", formText, false, "always `runtime`: the value is checked when it arrives"},
}}

// nested are the tables of the maps in a construct, for fields that stand one
// level too high.
var nested = map[*table][]struct {
	field string
	table *table
}{
	planFields:   {{"limits", limitsFields}, {"cycles", cyclesFields}},
	nodeFields:   {{"retry_policy", retryFields}, {"for_each", forEachFields}, {"commit_policy", commitFields}},
	commitFields: {{"approval", approvalFields}, {"verify", verifyFields}, {"rollback", rollbackFields}},
}

// Closed sets of words.
var (
	providerTypes = []string{"skill", "mcp"}
	modes         = []string{"prob", "deter"}
	effectClasses = []string{"pure", "staged", "committing", "irreversible"}
	trustStates   = []string{"allow_auto", "manual_review", "block"}
	edgeTypes     = []string{"data", "control", "conditional", "error"}
	exhaustions   = []string{"fail", "continue"}
	priorities    = []string{"low", "medium", "high"}
)
