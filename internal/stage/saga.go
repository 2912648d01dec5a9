package stage

// SagaCatalog has a tool that writes lines, one that erases them, and one that looks.
const SagaCatalog = `
apiVersion: chimera/v1
kind: Catalog
templates:
  - {provider_type: skill, provider_name: book, operation: write, mode: deter, effect_class: committing, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {page: {type: integer}}, required: [page]},
     trust_requirement: allow_auto, status: allow_auto, trusted_output: true}
  - {provider_type: skill, provider_name: book, operation: erase, mode: deter, effect_class: committing, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {line: {type: string}, page: {type: integer}}, required: [line]}, output_schema: {type: object},
     trust_requirement: allow_auto, status: allow_auto}
  - {provider_type: skill, provider_name: book, operation: look, mode: deter, effect_class: pure, timeout_ms: 60000, retry_policy: {max_retries: 0},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {there: {type: boolean}}, required: [there]},
     trust_requirement: allow_auto, status: allow_auto, trusted_output: true}
`

// SagaPolicy lets short lines be written and erased.
const SagaPolicy = `
apiVersion: chimera/v1
kind: PolicyBundle
version: "1"
unmodelled: [book/write, book/erase]
rules:
  - {id: any, type: hard, operations: [book/write, book/erase], require: 'action.inputs.line.size() < 20'}
`

// Pages is the tool: what it writes is a line with its operation first.
const Pages = `in=$(cat)
line=$(printf '%s' "$in" | sed -n 's/.*"line":"\([^"]*\)".*/\1/p')
case $1 in
write) echo "write $line" >> "$LINES_FILE"
	case $line in
	*tears*) echo '{"kind":"tool_error","message":"the page is torn"}'; exit 1 ;;
	*hangs*) kill -9 $$ ;;
	esac
	echo '{"page":7}' ;;
erase) case $line in
	*ink*) echo '{"kind":"tool_error","message":"it does not go away"}'; exit 1 ;;
	*wax*) echo '{}'; exit ;;
	esac
	echo "erase $in" >> "$LINES_FILE"; echo '{}' ;;
look) if [ "$(grep -c "write $line\$" "$LINES_FILE")" -gt "$(grep -c "erase .*\"$line\"" "$LINES_FILE")" ]; then echo '{"there":true}'; else echo '{"there":false}'; fi ;;
esac`
