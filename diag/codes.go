package diag

// Code names a kind of finding. Codes are stable: tools may depend on them, and the
// meaning of a code never changes.
//
// The example of a code is the part of a plan file that is reported with it.
// Top-level keys that an example leaves out are those of a plan without a fault;
// operations are those of the engine and of the catalog that the compiler's
// tests use.
type Code string

// Codes of the lint pass.
const (
	// PlanSyntax: the file is not YAML or JSON as plans use it. Refused besides
	// what no reader takes are duplicate keys, tags, merge keys, directives, keys
	// that are not text, aliases that stand for too much, control characters,
	// files that are too large or too deep, empty expressions, and a comment right
	// behind an expression without quotes.
	//
	// Example:
	//
	//	description: pays an invoice
	//	description: pays one invoice
	PlanSyntax Code = "plan/syntax"

	// PlanSchema: a field is unknown or missing, or its value is of the wrong type
	// or not one of those that it may have.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: a, template: engine/pass, timout_ms: 1000}
	PlanSchema Code = "plan/schema"

	// PlanDuplicateID: two nodes have the same id, or two documents of one file
	// the same name and version.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: a, template: engine/pass}
	//	  - {id: a, template: engine/pass}
	PlanDuplicateID Code = "plan/duplicate-id"

	// PlanUnknownNode: an edge, a precheck or a verify names a node that the plan
	// does not have.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: fetch, template: engine/pass}
	//	edges:
	//	  - fecth -> $output
	PlanUnknownNode Code = "plan/unknown-node"

	// PlanUnknownPort: an edge or `with` names a port that is not in the node's
	// schema, or a reserved port where it may not stand.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: count, template: text/count}
	//	edges:
	//	  - $input.$ -> count.txt
	PlanUnknownPort Code = "plan/unknown-port"

	// PlanPortConflict: two values are certain to arrive at one port, a value for the
	// whole input stands beside others, or the port takes an idempotency key, which a
	// run gives. Alternatives are edges with `required: false`.
	//
	// Example:
	//
	//	input_schema: {type: object, properties: {a: {type: string}, b: {type: string}}, required: [a, b]}
	//	nodes:
	//	  - {id: count, template: text/count}
	//	edges:
	//	  - $input.a -> count.text
	//	  - $input.b -> count.text
	PlanPortConflict Code = "plan/port-conflict"

	// PlanCycle: edges lead in a circle where no loop is allowed, or in one that
	// is not a natural loop: one header, one latch, conditional back edges, none
	// inside another.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: a, template: engine/pass}
	//	  - {id: b, template: engine/pass}
	//	edges:
	//	  - a -> b
	//	  - b -> a
	PlanCycle Code = "plan/cycle"

	// PlanUnreachable: no outcome of the conditions and failures of a run makes
	// the node run.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: a, template: engine/pass}
	//	  - {id: b, template: engine/pass}
	//	edges:
	//	  - {from_node: a, from_port: $, to_node: b, to_port: $, edge_type: conditional, when: otherwise, required: true}
	//	  - {from_node: a, from_port: $, to_node: b, to_port: $start, edge_type: conditional, when: "has(value.x)", required: true}
	PlanUnreachable Code = "plan/unreachable"

	// PlanErrorEdge: an edge of a failure leaves a port that does not stand for
	// one, or one of type error a port that does not fail.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: a, template: engine/pass}
	//	  - {id: b, template: engine/pass}
	//	edges:
	//	  - {from_node: a, from_port: $error, to_node: b, to_port: $, edge_type: data, required: true}
	PlanErrorEdge Code = "plan/error-edge"

	// PlanCompensation: an edge from $compensate does not say how to undo: it
	// leaves a node without an effect, has no transform, or leads to a node that
	// has other edges.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: a, template: engine/pass}
	//	  - {id: undo, template: engine/pass}
	//	edges:
	//	  - {from_node: a, from_port: $compensate, to_node: undo, to_port: $, edge_type: error, required: true, transform: {reason: undone}}
	PlanCompensation Code = "plan/compensation"

	// PlanBarrier: nodes that share a barrier cannot be approved together: one
	// runs only after another, or their rules contradict each other.
	//
	// Example:
	//
	//	allow: [pure, committing]
	//	nodes:
	//	  - {id: a, template: files/write_file, with: {path: a, text: a}, commit_policy: {barrier: both, approval: {groups: [{role: cfo, min: 1}]}}}
	//	  - {id: b, template: files/write_file, with: {path: b, text: b}, commit_policy: {barrier: both}}
	//	edges:
	//	  - $input -> a
	//	  - a -> b
	PlanBarrier Code = "plan/barrier"

	// PlanLimits: something is larger than it may be: the plan, a schema, a list,
	// a number of milliseconds.
	//
	// Example:
	//
	//	limits: {max_parallel: 0}
	PlanLimits Code = "plan/limits"

	// PlanNotSupported: the plan is right, and this version of the engine cannot
	// run it.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: a, template: pinned/get}
	PlanNotSupported Code = "plan/not-supported"
)

// Codes of the types pass.
const (
	// TypeSchema: a schema of the plan is not a JSON Schema that can be used.
	//
	// Example:
	//
	//	output_schema: {type: strin}
	TypeSchema Code = "type/schema"

	// TypeNotContained: a value that the source may give is refused by the target;
	// the witness is one.
	//
	// Example:
	//
	//	input_schema: {type: object, properties: {n: {type: integer}}, required: [n]}
	//	nodes:
	//	  - {id: count, template: text/count}
	//	edges:
	//	  - $input.n -> count.text
	TypeNotContained Code = "type/not-contained"

	// TypeUnknown: it is neither proved nor refuted that the target takes every
	// value of the source. `check: runtime` on the edge leaves it to the run.
	//
	// Example:
	//
	//	input_schema: {type: object, properties: {name: {type: string}}, required: [name]}
	//	nodes:
	//	  - id: a
	//	    template: engine/pass
	//	    input_schema: {type: object, properties: {name: {type: string, pattern: "^[^/]*$"}}, required: [name]}
	//	edges:
	//	  - {from_node: $input, from_port: name, to_node: a, to_port: name, edge_type: data, required: true, transform: "${value.replace('/', '-')}"}
	TypeUnknown Code = "type/unknown"

	// TypeMissingInput: a port that must have a value may end up without one.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: count, template: text/count}
	TypeMissingInput Code = "type/missing-input"

	// TypeExpr: an expression cannot be compiled, or names something that is not
	// there. As a warning: a text looks like an expression of another language.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: count, template: text/count, with: {text: "${input.}"}}
	TypeExpr Code = "type/expr"

	// TypeExprMayFail: an expression fails on some value that it can meet: an
	// optional field without has() or ?., an index without a bound, a division, an
	// overflow. As a warning: `check: runtime` on the edge leaves it to the run.
	//
	// Example:
	//
	//	input_schema: {type: object, properties: {text: {type: string}}}
	//	nodes:
	//	  - {id: count, template: text/count, with: {text: "${input.text}"}}
	TypeExprMayFail Code = "type/expr-may-fail"

	// TypePredicate: what decides whether an edge is taken is not a boolean. As a
	// warning: no value that the schemas allow makes it true, it names a kind of failure that
	// does not exist or that the edge does not bring, or `check: runtime` on the edge leaves
	// it to the run whether it is one.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: count, template: text/count, with: {text: some}}
	//	  - {id: b, template: engine/pass}
	//	edges:
	//	  - {from_node: count, from_port: words, to_node: b, to_port: $start, edge_type: conditional, required: false}
	TypePredicate Code = "type/predicate"
)

// Codes of the effects pass.
const (
	// EffectPolicy: a node with an effect has no commit policy, or its commit
	// policy is one that its effect cannot have.
	//
	// Example:
	//
	//	allow: [pure, committing]
	//	nodes:
	//	  - {id: write, template: files/write_file, with: {path: a, text: b}}
	//	edges:
	//	  - $input -> write
	EffectPolicy Code = "effect/commit-policy"

	// EffectNotAllowed: the plan's `allow` does not have the effect class of a
	// node.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: write, template: files/write_file, with: {path: a, text: b}, commit_policy: {}}
	//	edges:
	//	  - $input -> write
	EffectNotAllowed Code = "effect/not-allowed"

	// EffectAgent: the plan names no agent, so no run of it may do what needs one: cause an
	// effect, cost something, or ask people to review a value.
	//
	// Example:
	//
	//	name: agentless
	//	allow: [pure, committing]
	//	nodes:
	//	  - {id: write, template: files/write_file, with: {path: a, text: b}, commit_policy: {approval: {groups: [{role: editor, min: 1}]}}}
	//	edges:
	//	  - $input -> write
	EffectAgent Code = "effect/no-agent"

	// EffectProbCommits: an operation whose answer differs from call to call has
	// an effect that lasts.
	//
	// Example:
	//
	//	allow: [pure, committing]
	//	nodes:
	//	  - {id: write, template: files/write_file, mode: prob, with: {path: a, text: b}, commit_policy: {}}
	//	edges:
	//	  - $input -> write
	EffectProbCommits Code = "effect/prob-commits"

	// EffectTainted: a value or a decision that nobody vouches for (a model's, a
	// tool's, an error's) reaches an effect that no human approves.
	//
	// Example:
	//
	//	allow: [pure, committing]
	//	nodes:
	//	  - {id: draft, template: text/draft, with: {prompt: a letter}}
	//	  - {id: write, template: engine/pass, effect_class: committing, commit_policy: {}}
	//	edges:
	//	  - draft.$ -> write.$
	EffectTainted Code = "effect/tainted-commit"

	// EffectEgress: an operation that reaches the open world gets a value that
	// nobody vouches for, and so could carry it out.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: draft, template: text/draft, with: {prompt: a letter}}
	//	  - {id: search, template: files/search}
	//	edges:
	//	  - draft.text -> search.pattern
	EffectEgress Code = "effect/egress"

	// EffectUngated: nothing has to happen before a node with an effect; an edge
	// was probably forgotten.
	//
	// Example:
	//
	//	allow: [pure, committing]
	//	nodes:
	//	  - {id: write, template: files/write_file, with: {path: a, text: b}, commit_policy: {}}
	EffectUngated Code = "effect/ungated"

	// EffectPrechecks: an irreversible effect has no precheck, or a precheck is
	// not one: it has an effect itself, or comes after.
	//
	// Example:
	//
	//	allow: [pure, irreversible]
	//	nodes:
	//	  - {id: mail, template: engine/pass, effect_class: irreversible, commit_policy: {rollback: {none: sent mail stays sent}}}
	//	edges:
	//	  - $input -> mail
	EffectPrechecks Code = "effect/prechecks"

	// EffectRollback: an irreversible effect neither says how to find out whether
	// it happened (`verify`) nor why that cannot be (`rollback: {none: reason}`).
	//
	// Example:
	//
	//	allow: [pure, irreversible]
	//	nodes:
	//	  - {id: check, template: engine/pass}
	//	  - {id: mail, template: engine/pass, effect_class: irreversible, commit_policy: {prechecks: [check]}}
	EffectRollback Code = "effect/rollback"

	// EffectRetry: an effect that cannot be repeated is retried on kinds of
	// failure after which it may have happened.
	//
	// Example:
	//
	//	allow: [pure, committing]
	//	nodes:
	//	  - {id: mail, template: engine/pass, effect_class: committing, commit_policy: {}, retry_policy: {max_retries: 2, on: [timeout]}}
	//	edges:
	//	  - $input -> mail
	EffectRetry Code = "effect/unsafe-retry"

	// EffectOperator: the operator's policy forbids the node.
	//
	// Example:
	//
	//	allow: [pure, irreversible]
	//	nodes:
	//	  - {id: check, template: engine/pass}
	//	  - {id: write, template: files/write_file, effect_class: irreversible, with: {path: a, text: b}, commit_policy: {prechecks: [check], rollback: {none: sent mail}}}
	EffectOperator Code = "effect/policy"

	// EffectRefused: as the operator's policy stands, each call of an operation with
	// an effect will be refused at run time: no rule is about it, or nothing is known
	// of its risk and nobody may lift that.
	//
	// Example:
	//
	//	allow: [pure, committing]
	//	nodes:
	//	  - {id: add, template: files/append_file, with: {path: a, text: b}, commit_policy: {}}
	//	edges:
	//	  - $input -> add
	EffectRefused Code = "effect/refused"
)

// Codes of the trust pass.
const (
	// TrustProvider: the catalog does not have the provider.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: a, template: engin/pass}
	TrustProvider Code = "trust/unknown-provider"

	// TrustOperation: the provider does not have the operation in the catalog, or
	// the catalog does not have the adapter that an edge names.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: a, template: engine/pas}
	TrustOperation Code = "trust/unknown-operation"

	// TrustBlocked: the node or the catalog blocks the operation.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: a, template: engine/pass, trust_requirement: block}
	TrustBlocked Code = "trust/blocked"

	// TrustInsufficient: the node asks for less review than the catalog demands.
	//
	// Example:
	//
	//	nodes:
	//	  - {id: a, template: files/search, with: {pattern: a}, trust_requirement: allow_auto}
	TrustInsufficient Code = "trust/insufficient"

	// TrustDrift: the operation is not the one that the plan was written for: its
	// fingerprint in the catalog is not the one that the node pins.
	//
	// Example:
	//
	//	nodes:
	//	  - id: a
	//	    template: pinned/get
	//	    fingerprint: "sha256:1111111111111111111111111111111111111111111111111111111111111111"
	TrustDrift Code = "trust/drift"

	// TrustWeaker: the node promises less, or asks for less, than the contract of
	// the operation in the catalog.
	//
	// Example:
	//
	//	nodes:
	//	  - id: count
	//	    template: text/count
	//	    with: {text: some words}
	//	    input_schema: {type: object, properties: {text: {type: [string, integer]}}, required: [text]}
	TrustWeaker Code = "trust/weaker-contract"
)

// Codes of causal models.
const (
	// ModelUnknown: a causal model names a variable, a category, a parent or a KPI
	// that it does not have.
	//
	// Example:
	//
	//	variables:
	//	  length: {value: 0, range: [0, 100000]}
	//	  size: {parents: [lenght], linear: {intercept: 12, weights: {lenght: 1}}}
	ModelUnknown Code = "model/unknown-name"

	// ModelCycle: variables of a causal model depend on each other in a circle.
	//
	// Example:
	//
	//	variables:
	//	  length: {value: 0, range: [0, 100000]}
	//	  load: {parents: [size], linear: {weights: {size: 1}}}
	//	  size: {parents: [length, load], linear: {weights: {length: 1, load: 1}}}
	ModelCycle Code = "model/cycle"

	// ModelInvalid: a causal model does not say, or says twice or in contradiction,
	// how a variable comes about, when it is valid, or what must not happen.
	//
	// Example:
	//
	//	variables:
	//	  length: {value: 0, range: [0, 100000]}
	//	  size: {parents: [length], noise: {normal: {sd: 20}}}
	ModelInvalid Code = "model/invalid"
)
