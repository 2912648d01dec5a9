package adversary

import "strings"

// toolCatalog has the operations of the tool.
const toolCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: skill, provider_name: book, operation: write, mode: deter, effect_class: committing, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {page: {type: integer}}, required: [page]},
     trust_requirement: allow_auto, status: allow_auto, trusted_output: true}
  - {provider_type: skill, provider_name: book, operation: erase, mode: deter, effect_class: committing, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},
     trust_requirement: allow_auto, status: allow_auto}
  - {provider_type: skill, provider_name: book, operation: look, mode: deter, effect_class: pure, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {there: {type: boolean}}, required: [there]},
     trust_requirement: allow_auto, status: allow_auto, trusted_output: true}
`

const toolPolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
thresholds: {max_auto_launch_risk: 0.1}
models: [page.yaml]
unmodelled: [book/erase, files/write_file, bank/pay, vault/pay]
approval: {outcome: [{role: operator, min: 2}]}
rules:
  - {id: short, type: hard, operations: [book/write, book/erase, bank/pay, vault/pay], require: 'action.inputs.line.size() < 20'}
  - {id: small, type: hard, operations: [files/write_file], require: 'action.inputs.text.size() < 20'}
`

// pageModel foretells on which page a line is written.
const pageModel = `
apiVersion: chimera/v1
kind: CausalModel
name: page
operations: [book/write]
variables:
  length: {value: 0, range: [0, 40]}
  page: {parents: [length], linear: {intercept: 5, weights: {length: 0.1}}, noise: {normal: {sd: 1}}}
bind: {length: "size(args.line)"}
kpis: {page: {max: 20}}
observe: {page: "output.page"}
`

// tool writes lines, and dies once it has written one that says so.
const tool = `in=$(cat)
case $1 in
write) echo "write $in" >> "$LINES_FILE"; case $in in *dies*) kill -9 $$ ;; esac; echo '{"page":7}' ;;
erase) echo "erase $in" >> "$LINES_FILE"; echo '{}' ;;
look) echo '{"there":true}' ;;
esac`

const schemasOfPlans = `agent: tester, currency: USD, allow: [pure, committing],
  input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object},`

const actsPlan = `{apiVersion: chimera/v1, kind: Plan, name: acts, version: "1", ` + schemasOfPlans + `
  nodes: [{id: write, template: book/write, cost_estimate: 1.50, commit_policy: {rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> write.line]}`

const asksPlan = `{apiVersion: chimera/v1, kind: Plan, name: asks, version: "1", ` + schemasOfPlans + `
  nodes: [
    {id: write, template: book/write, cost_estimate: 2.50, commit_policy: {prechecks: [look], approval: {groups: [{role: editor, min: 1}, {role: finance, min: 1}]}, rollback: {none: "what is written stays"}}},
    {id: look, template: book/look}],
  edges: [$input.line -> write.line, $input.line -> look.line]}`

const undoesPlan = `{apiVersion: chimera/v1, kind: Plan, name: undoes, version: "1", ` + schemasOfPlans + `
  nodes: [
    {id: write, template: book/write, cost_estimate: 1.00, commit_policy: {}},
    {id: back, template: book/erase, cost_estimate: 0.50, commit_policy: {rollback: {none: "gone"}}},
    {id: last, template: engine/fail, with: {message: "it ends here"}}],
  edges: [$input.line -> write.line, write -> last,
    {from_node: write, from_port: $compensate, to_node: back, to_port: line, edge_type: error, required: true, transform: "${args.line}"}]}`

const notesPlan = `{apiVersion: chimera/v1, kind: Plan, name: notes, version: "1", ` + schemasOfPlans + `
  nodes: [{id: write, template: book/write, cost_estimate: 1.00, commit_policy: {rollback: {none: "what is written stays"}}}],
  edges: [$input.line -> write.line]}`

// toolPlans are the plans that call an MCP server, by its name.
func toolPlans() map[string]string {
	all := map[string]string{}
	for _, server := range []string{bank, vault} {
		all[server] = `{apiVersion: chimera/v1, kind: Plan, name: ` + server + `, version: "1", ` + schemasOfPlans + `
  nodes: [{id: pay, template: ` + server + `/pay, cost_estimate: 0.10, commit_policy: {rollback: {none: "it is paid"}}}],
  edges: [$input.line -> pay.line]}`
	}
	all[files] = `{apiVersion: chimera/v1, kind: Plan, name: files, version: "1", ` + strings.Replace(schemasOfPlans, "line: {type: string}", "line: {type: string, minLength: 1, maxLength: 255}", 1) + `
  nodes: [{id: write, template: files/write_file, cost_estimate: 0.10, commit_policy: {rollback: {none: "it is written"}}}],
  edges: [$input.line -> write.path, $input.line -> write.text]}`
	for _, server := range []string{desk, till} {
		all[server] = `{apiVersion: chimera/v1, kind: Plan, name: ` + server + `, version: "1", ` + schemasOfPlans + `
  nodes: [{id: look, template: ` + server + `/look}],
  edges: [$input.line -> look.line]}`
	}
	return all
}
