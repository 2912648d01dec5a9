package main

import (
	"context"
	"slices"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/trust"
)

// toolParts are the sub-commands of chimera tools.
func toolParts() []command {
	return []command{
		{name: "import", summary: "import the tools of an MCP server"},
		{name: "list", operands: "[SERVER…]", most: -1, prepare: toolListCommand,
			summary: "list what MCP servers offer, with fingerprints, and what the catalog says of it"},
		{name: "show", operands: "SERVER/TOOL", least: 1, most: 1, prepare: toolShowCommand,
			summary: "show a tool as its server declares it, with its fingerprint"},
		{name: "diff", summary: "show what has changed of a tool"},
		{name: "trust", operands: "[OPERATION…]", most: -1, prepare: toolTrustCommand,
			summary: "state what the catalog says of operations, or of all on which effects depend, by a statement of the admins"},
		{name: "verify", summary: "verify the manifest of a server"},
		{name: "check", operands: "[SERVER…]", most: -1, prepare: toolCheckCommand,
			summary: "hold the catalog against what MCP servers offer"},
		{name: "conform", operands: "SERVER", least: 1, most: 1, prepare: toolConformCommand,
			summary: "run the conformance suite on an MCP server"},
	}
}

func toolTrustCommand(p *Program, fs *flag.FlagSet) action {
	keys := keysFlag(fs)
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	status := fs.String("status", "", "trust `STATE`: allow_auto, manual_review or block; without it, the catalog's")
	out := fs.String("out", "", "`FILE` for the statement, where other admins are to sign it")
	return func(ctx context.Context, operands []string) error {
		states := []string{string(plan.AllowAuto), string(plan.ManualReview), string(plan.Block)}
		if *status != "" && !slices.Contains(states, *status) {
			return misuse("--status is %s, %s or %s, not %q", states[0], states[1], states[2], *status).meant("--status ", *status, states, "")
		}
		env, err := p.environment(*catalogFile, "")
		if err != nil {
			return err
		}
		if env.findings.HasErrors() {
			return &failure{code: exitUsage, message: "the catalog or the policy is not valid", diagnostics: env.findings, sources: env.sources}
		}
		acts, err := toolActs(env.catalog, operands, *status)
		if err != nil {
			return err
		}
		return p.propose(ctx, acts, *keys, *out)
	}
}

// toolActs are the acts that state what a catalog says of operations, or of all on which
// effects depend.
func toolActs(operations *catalog.Catalog, named []string, status string) (trust.Acts, error) {
	var acts trust.Acts
	var known []string
	found := map[string]bool{}
	for i := range operations.Templates {
		t := &operations.Templates[i]
		known = append(known, t.Name())
		if len(named) > 0 && !slices.Contains(named, t.Name()) || len(named) == 0 && !t.Stated() {
			continue
		}
		found[t.Name()] = true
		facts, err := t.Facts()
		if err != nil {
			return nil, negative("%s", err)
		}
		act := &trust.TrustTool{ToolID: t.ToolID(), Fingerprint: t.Fingerprint, Status: string(t.State()), Facts: facts}
		if status != "" {
			act.Status = status
		}
		acts = append(acts, act)
	}
	for _, name := range named {
		if !found[name] {
			err := negative("the catalog has no operation %s", printable(name))
			if near := syntax.Nearest(name, known); near != "" {
				err = err.withHint("Did you mean %s?", near)
			}
			return nil, err
		}
	}
	if len(acts) == 0 {
		return nil, negative("the catalog has no operation on which effects depend: there is nothing to state")
	}
	if len(acts) > trust.MaxActs {
		return nil, negative("%s, and a statement has at most %d: name some of them", plural(len(acts), "operation"), trust.MaxActs)
	}
	return acts, nil
}
