package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/internal/fields"
	"chimera.ai/engine/plan"
)

// policyFor is the least policy by which people may approve the calls of an operation.
func policyFor(t *catalog.Template) string {
	operations := fmt.Sprintf("operations: [%s]", fields.Quoted(t.Name()))
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s\nkind: PolicyBundle\nversion: \"1\"\n", fields.APIVersion)
	if t.Effect == plan.Irreversible {
		fmt.Fprintf(&b, "allow: [{effects: [irreversible], agents: [%s], %s}]\n", draftAgent, operations)
	}
	if t.Effect.Acts() {
		fmt.Fprintf(&b, "unmodelled: [%s] # no model says how risky its calls are\n", fields.Quoted(t.Name()))
	}
	if t.Reviewed() || t.Effect == plan.Irreversible {
		b.WriteString("approval:\n")
		if t.Reviewed() {
			fmt.Fprintf(&b, "  review: [{role: %s, min: 1}]\n", draftRole)
		}
		b.WriteString("  may_sign: [requester, author, owner] # for trying it alone: you may approve what you start\n")
	}
	if t.Effect.Acts() {
		fmt.Fprintf(&b, "rules: # at least one is about each effect; say in it what must hold of action.inputs\n")
		fmt.Fprintf(&b, "  - {id: %s, type: hard, %s, require: \"true\"}\n", planName(t.Operation), operations)
	}
	return b.String()
}

// commitOf is the commit policy of the node that calls an operation, which the catalog may have
// begun, after one that looks. Without one it names operations that might look.
func commitOf(t, look *catalog.Template, might []string) string {
	if !t.Effect.Commits() {
		return ""
	}
	var lines []string
	if t.Effect == plan.Irreversible {
		switch {
		case look != nil:
			lines = append(lines, "prechecks: [look]")
		case len(might) > 0:
			lines = append(lines, "prechecks: [] # name a node that looks before the call, such as one of "+strings.Join(might, ", "))
		default:
			lines = append(lines, "prechecks: [] # name a node that looks before the call; no operation of the server does")
		}
		if !t.Reviewed() {
			lines = append(lines, fmt.Sprintf("approval: {groups: [{role: %s, min: 1}]}", draftRole))
		}
		if t.Commit == nil || t.Commit.Waived == "" && t.Commit.Verify == nil {
			lines = append(lines, "rollback: {none: the catalog says that it is irreversible} # or verify: how to find out whether it happened")
		}
	}
	switch {
	case len(lines) > 0:
		return "    commit_policy:\n      " + strings.Join(lines, "\n      ") + "\n"
	case t.Commit == nil:
		return "    commit_policy: {}\n"
	}
	return ""
}

// verbs begin the names of operations that look, the most telling first.
var verbs = []string{"get", "stat", "describe", "show", "read", "find", "search", "list"}

// maxLookers bounds the operations that are tried.
const maxLookers = 8

// lookers are the operations of the same server that are called without asking anybody, and change nothing:
// those that need only what a call of t gets, the most telling first, and the quoted names of the others.
func lookers(all *catalog.Catalog, t *catalog.Template) (fit []*catalog.Template, others []string) {
	given, _ := portsOf(t.InputSchema)
	var rest []*catalog.Template
	for i := range all.Templates {
		c := &all.Templates[i]
		if c.ProviderType != t.ProviderType || c.Provider != t.Provider || c.Effect != plan.Pure || c.Mode != plan.Deter || c.Reviewed() || c.State() != plan.AllowAuto || c.Resource != nil {
			continue
		}
		ports, _ := portsOf(c.InputSchema)
		if len(ports) == 0 || slices.ContainsFunc(ports, func(port string) bool { return !slices.Contains(given, port) }) {
			rest = append(rest, c)
		} else {
			fit = append(fit, c)
		}
	}
	rank := func(c *catalog.Template) int {
		if i := slices.IndexFunc(verbs, func(v string) bool { return strings.HasPrefix(strings.ToLower(c.Operation), v) }); i >= 0 {
			return i
		}
		return len(verbs)
	}
	telling := func(a, b *catalog.Template) int {
		return cmp.Or(rank(a)-rank(b), len(a.Operation)-len(b.Operation), cmp.Compare(a.Operation, b.Operation))
	}
	slices.SortFunc(fit, telling)
	slices.SortFunc(rest, telling)
	for _, c := range rest[:min(len(rest), 3)] {
		others = append(others, fields.Quoted(c.Name()))
	}
	return fit[:min(len(fit), maxLookers)], others
}
