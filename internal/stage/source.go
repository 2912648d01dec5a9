package stage

import (
	"encoding/json"
	"fmt"
	"strings"

	"chimera.ai/engine/plan"
	"chimera.ai/engine/skills"
)

// Anything is the schema of what skills of tests take and return.
const Anything = `{"type":"object"}`

// Skill makes a Go skill of provider test.
func Skill(operation string, run skills.Func) skills.Skill {
	return skills.Skill{
		Provider: "test", Operation: operation, Mode: plan.Deter, Description: "A skill of a test.",
		InputSchema: json.RawMessage(Anything), OutputSchema: json.RawMessage(Anything), Run: run,
	}
}

// Source writes a plan: nodes are "id operation timeout_ms extra…", edges the
// short form or a YAML flow mapping.
func Source(head string, nodes, edges []string) string {
	var b strings.Builder
	b.WriteString("apiVersion: chimera/v1\nkind: Plan\nname: test\nversion: 1.0.0\nagent: tester\n")
	required := ""
	if strings.Contains(strings.Join(edges, ""), "$input.x") || strings.Contains(strings.Join(edges, ""), "from_node: $input, from_port: x") {
		required = "required: [x], "
	}
	b.WriteString("input_schema: {type: object, " + required + "properties: {x: {}, n: {type: integer}}}\n")
	b.WriteString("output_schema: {type: object, properties: {x: {}, y: {}, a: {}, b: {}, big: {}, both: {}, error: {}}}\n")
	b.WriteString(head)
	b.WriteString("nodes:\n")
	for _, n := range nodes {
		f := strings.SplitN(n, " ", 4)
		for len(f) < 4 {
			f = append(f, "")
		}
		provider, operation, _ := strings.Cut(f[1], "/")
		extra := f[3]
		if !strings.Contains(extra, "retry_policy") {
			extra = "retry_policy: {max_retries: 0}" + comma(extra) + extra
		}
		if !strings.Contains(extra, "input_schema") {
			extra += ", input_schema: {type: object, properties: {x: {}, y: {}, error: {}}}"
		}
		if !strings.Contains(extra, "output_schema") {
			extra += ", output_schema: {type: object, required: [x], properties: {x: {}, y: {}}}"
		}
		fmt.Fprintf(&b, "  - {id: %s, provider_type: skill, provider_name: %s, operation: %s, mode: deter, effect_class: pure, timeout_ms: %s, trust_requirement: allow_auto, %s}\n",
			f[0], provider, operation, f[2], extra)
	}
	b.WriteString("edges:\n")
	for _, e := range edges {
		b.WriteString("  - " + e + "\n")
	}
	return b.String()
}

// Failing and Sleeping are the schemas of nodes that call engine/fail and engine/sleep.
const (
	Failing  = "input_schema: {type: object, required: [message], properties: {message: {type: string, minLength: 1, maxLength: 100}}, additionalProperties: false}, output_schema: {not: {}}"
	Sleeping = "input_schema: {type: object, required: [ms], properties: {ms: {type: integer, minimum: 0, maximum: 1000}}, additionalProperties: false}, output_schema: {type: object, required: [slept_ms], properties: {slept_ms: {type: integer}}}"
)

// Given says what x of the plan's input is.
func Given(source, schema string) string {
	return strings.Replace(source, "properties: {x: {}, n:", "properties: {x: "+schema+", n:", 1)
}

func comma(s string) string {
	if s == "" {
		return ""
	}
	return ", "
}
