package host_test

// findCatalog has a tool that writes lines, and one that finds them.
const findCatalog = actingCatalog + `
  - {provider_type: skill, provider_name: book, operation: find, mode: deter, effect_class: pure, timeout_ms: 10000, retry_policy: {max_retries: 1},
     input_schema: {type: object, properties: {line: {type: string}}, required: [line]}, output_schema: {type: object, properties: {found: {type: boolean}}, required: [found]},
     trust_requirement: allow_auto, status: allow_auto}
`
