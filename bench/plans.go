package main

import (
	"fmt"
	"strings"
)

// Timeouts that make an engine/pass node a local or an ordinary activity.
const (
	local    = 900
	ordinary = 5000
)

const version = "1.0.0"

const head = `apiVersion: chimera/v1
kind: Plan
name: bench
version: ` + version + `
agent: bench
input_schema: {type: object, required: [x], properties: {x: {type: string}}}
output_schema: {type: object, properties: {x: {type: string}}}
limits: {max_parallel: 32}
nodes:
`

func node(b *strings.Builder, i, timeout int) {
	fmt.Fprintf(b, "  - {id: n%d, provider_type: skill, provider_name: engine, operation: pass, mode: deter, effect_class: pure, "+
		"input_schema: {type: object, required: [x], properties: {x: {type: string}}}, output_schema: {type: object, required: [x], properties: {x: {type: string}}}, "+
		"timeout_ms: %d, retry_policy: {max_retries: 0}, trust_requirement: allow_auto}\n", i, timeout)
}

// chain is a plan of n nodes in sequence.
func chain(n, timeout int) string {
	var b strings.Builder
	b.WriteString(head)
	for i := range n {
		node(&b, i, timeout)
	}
	return edges(&b, n)
}

// edges ends a plan of n nodes in sequence.
func edges(b *strings.Builder, n int) string {
	b.WriteString("edges:\n  - $input.x -> n0.x\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(b, "  - n%d.x -> n%d.x\n", i-1, i)
	}
	fmt.Fprintf(b, "  - n%d.x -> $output.x\n", n-1)
	return b.String()
}

// programs is a plan of n calls of an executable in sequence, which begins with head.
func programs(head string, n int) string {
	var b strings.Builder
	b.WriteString(head)
	for i := range n {
		fmt.Fprintf(&b, "  - {id: n%d, template: bench/stdin, retry_policy: {max_retries: 0}}\n", i)
	}
	return edges(&b, n)
}

// fan is a plan of n nodes side by side.
func fan(n, timeout int) string {
	var b strings.Builder
	b.WriteString(head)
	for i := range n {
		node(&b, i, timeout)
	}
	b.WriteString("edges:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - $input.x -> n%d.x\n  - n%d -> $output\n", i, i)
	}
	b.WriteString("  - $input.x -> $output.x\n")
	return b.String()
}
