package main

import (
	"context"
	"errors"
	"slices"
	"time"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/internal/syntax"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/store"
	"chimera.ai/engine/trust"
)

// toolParts are the sub-commands of chimera tools.
func toolParts() []command {
	return []command{
		{name: "import", operands: "[SERVER…]", most: -1, prepare: toolImportCommand,
			summary: "import the tools of MCP servers: see what they offer, decide, and write it to a catalog"},
		{name: "list", operands: "[SERVER…]", most: -1, prepare: toolListCommand,
			summary: "list what MCP servers offer, with fingerprints, and what the catalog says of it"},
		{name: "show", operands: "SERVER[/TOOL]", least: 1, most: 1, prepare: toolShowCommand,
			summary: "show a tool as its server declares it, or what the server says of itself, now and when it was imported, with fingerprints"},
		{name: "diff", operands: "SERVER[/TOOL]", least: 1, most: 1, prepare: toolDiffCommand,
			summary: "show what has changed of a tool, or of what a server says of itself, since it was imported"},
		{name: "export", operands: "[SERVER…]", most: -1, prepare: toolExportCommand,
			summary: "write a catalog of the tools that are registered, as the admins have stated them, with their statements"},
		{name: "trust", operands: "[OPERATION…]", most: -1, prepare: toolTrustCommand,
			summary: "state what the catalog says of operations, or of all on which effects depend, by a statement of the admins"},
		{name: "verify", operands: "SERVER|FILE", least: 1, most: 1, prepare: toolVerifyCommand, completes: files,
			summary: "verify the manifest of a server, and hold the running server and the catalog against it"},
		{name: "manifest", operands: "SERVER", least: 1, most: 1, prepare: toolManifestCommand,
			summary: "make the manifest of a server, signed by its publisher"},
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
	file := fs.StringP("file", "f", "", "catalog `FILE` that tools import has written: all of its tools are registered and stated")
	return func(ctx context.Context, operands []string) error {
		if *file != "" {
			if *catalogFile != "" {
				return misuse("--file and --catalog name two catalogs")
			}
			*catalogFile = *file
		}
		states := []string{string(plan.AllowAuto), string(plan.ManualReview), string(plan.Block)}
		if *status != "" && !slices.Contains(states, *status) {
			return misuse("--status is %s, %s or %s, not %q", states[0], states[1], states[2], *status).meant("--status ", *status, states, "")
		}
		env, err := p.unheld(ctx, *catalogFile, "")
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
		if *file != "" {
			var last trust.State
			if acts, last, err = p.register(ctx, env.catalog, acts); err != nil {
				return err
			}
			if len(acts) == 0 {
				p.say("the admins have stated all of that already")
				return p.answerEach(statement{Statement: last.N, Digest: last.Head, Applied: true, SignedBy: []string{}, Acts: trust.Acts{}}, nil)
			}
		}
		parts := registry.Parts(acts)
		switch {
		case *out != "" && len(acts) > trust.MaxActs:
			return negative("%s, and a statement has at most %d: name some of them", plural(len(acts), "operation"), trust.MaxActs)
		case *out == "" && len(parts) > 1:
			return p.applyEach(ctx, parts, *keys)
		}
		a, err := p.proposed(ctx, actsOf(acts), *keys, *out)
		if err != nil {
			return err
		}
		return p.answerEach(a, []statement{a})
	}
}

// answerEach prints the answer about statements: in JSON it is that about the last one that the admins have
// made, with all that this call made in `statements`.
func (p *Program) answerEach(last statement, made []statement) error {
	if p.json() {
		return p.document(struct {
			statement
			Statements []statement `json:"statements"`
		}{last, append([]statement{}, made...)})
	}
	if len(made) == 0 {
		return p.answer(last)
	}
	for _, a := range made {
		if err := p.answer(a); err != nil {
			return err
		}
	}
	return nil
}

func actsOf(tools []*trust.TrustTool) (acts trust.Acts) {
	for _, a := range tools {
		acts = append(acts, a)
	}
	return acts
}

// applyEach puts statements into effect, each signed with the keys that refs name, or with dev mode's.
func (p *Program) applyEach(ctx context.Context, parts []trust.Acts, refs []string) error {
	over, root, err := p.authority(ctx)
	if err != nil {
		return err
	}
	var keys []*trust.Key
	for _, ref := range refs {
		key, err := p.secretKey(ctx, ref)
		if err != nil {
			return err
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 && root.dev != nil {
		keys = append(keys, root.dev.Key)
	}
	if len(keys) == 0 {
		return misuse("nobody signs: give --key; the operations take %s", plural(len(parts), "statement"))
	}
	bounded, cancel := context.WithTimeout(ctx, time.Duration(len(parts))*callTimeout)
	defer cancel()
	made, err := over.ApplyEach(bounded, parts, keys...)
	if err != nil {
		if len(made) > 0 {
			p.say("%s of %d: again, the rest is stated", plural(len(made), "statement")+" "+agree(len(made), "counts", "count"), len(parts))
		}
		return unapplied(err)
	}
	all := make([]statement, len(made))
	for i, s := range made {
		all[i] = stated(s, "")
	}
	return p.answerEach(all[len(all)-1], all)
}

// register stores the definitions of the tools that acts are about, each under its fingerprint. It
// returns the acts that the admins have not stated yet, and what they have.
func (p *Program) register(ctx context.Context, operations *catalog.Catalog, acts []*trust.TrustTool) (open []*trust.TrustTool, s trust.State, err error) {
	over, _, err := p.authority(ctx)
	if err != nil {
		return nil, s, err
	}
	if s, err = over.State(ctx); err != nil {
		return nil, s, untrusted(err)
	}
	definitions := map[string]*catalog.Template{}
	for i := range operations.Templates {
		definitions[operations.Templates[i].ToolID()] = &operations.Templates[i]
	}
	providers := map[string]bool{}
	var imported []*catalog.Template
	for _, a := range acts {
		t := definitions[a.ToolID]
		if t != nil {
			providers[t.Provider] = true
		}
		if t != nil && t.Definition != nil {
			imported = append(imported, t)
		}
		if !registry.Said(s, a) {
			open = append(open, a)
		}
	}
	err = registry.Register(ctx, over.Ledger, s, imported...)
	if errors.Is(err, ledger.ErrDenied) {
		return nil, s, denied(err, "to register tools", store.Roles.Applier)
	}
	if err != nil {
		return nil, s, storeError(err)
	}
	for _, one := range operations.Servers {
		if !providers[one.Name] {
			continue
		}
		err := registry.RegisterServer(ctx, over.Ledger, one)
		if errors.Is(err, ledger.ErrDenied) {
			return nil, s, denied(err, "to register tools", store.Roles.Applier)
		}
		if err != nil {
			return nil, s, storeError(err)
		}
	}
	return open, s, nil
}

// toolActs are the acts that state what a catalog says of operations: of those that are named, or of
// all that are not a part of this program.
func toolActs(operations *catalog.Catalog, named []string, status string) ([]*trust.TrustTool, error) {
	var acts []*trust.TrustTool
	var known []string
	found := map[string]bool{}
	for i := range operations.Templates {
		t := &operations.Templates[i]
		known = append(known, t.Name())
		if len(named) > 0 && !slices.Contains(named, t.Name()) || len(named) == 0 && !t.Stated() {
			continue
		}
		found[t.Name()] = true
		act, err := registry.Act(t)
		if err != nil {
			return nil, negative("%s", err)
		}
		if status != "" {
			act.Status = status
		}
		acts = append(acts, act)
	}
	for _, name := range named {
		if !found[name] {
			err := negative("the catalog has no operation %s", foreign(name))
			if near := syntax.Nearest(name, known); near != "" {
				err = err.withHint("Did you mean %s?", near)
			}
			return nil, err
		}
	}
	if len(acts) == 0 {
		return nil, negative("the catalog has no operation on which effects depend: there is nothing to state")
	}
	return acts, nil
}
