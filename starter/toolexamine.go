package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/catalog/live"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/config"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/intake"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
)

// where is where a server is, what --here says of that, and the digest of what the server tells models.
type where struct {
	server, endpoint, said, instructions string
	// anew reports whether a tool that has not changed is proposed anew; nil is no.
	anew func(*catalog.Template) bool
}

// hold holds a tool, of which the catalog has a template, against where its server is and what that
// tells models. It reports whether something of that has changed, or is to be pinned.
func (x *importedTool) hold(at where, was *catalog.Template) bool {
	look := func(what string) { x.look, x.Warnings = true, append(x.Warnings, what) }
	told := was.Instructions != at.instructions
	if told {
		look("what its server tells models has changed since it was imported")
	}
	n := len(was.Endpoints)
	if x.moved = n > 0 && !slices.Contains(was.Endpoints, at.endpoint); x.moved {
		look("its server is not where the catalog pins it")
	}
	return told || x.moved || n == 0 && (at.said == hereYes || at.said == hereOnly) || n > 1 && at.said == hereOnly
}

// examine holds a tool against the catalog, and looks for what people should see.
func examine(at where, t mcp.Tool, have map[string]catalog.Template, others map[string]bool) *importedTool {
	x := &importedTool{Name: t.Name, State: toolNew, Warnings: []string{}, definition: t.Raw, instructions: at.instructions}
	leave := func(why string) *importedTool {
		x.State, x.Warnings = toolLeftOut, append(x.Warnings, why)
		return x
	}
	operation := catalog.OperationName(at.server, t.Name)
	if others[operation] {
		x.State = toolElsewhere
		return x
	}
	print, err := fingerprint.Tool(t.Raw)
	if err != nil {
		return leave(err.Error())
	}
	x.Fingerprint = print.Digest
	if was, ok := have[operation]; ok {
		x.Effect, x.Status = was.Effect, was.Status
		changed := was.Fingerprint != print.Digest
		if changed {
			x.look, x.flagged, x.Warnings = true, true, append(x.Warnings, "it has changed since it was imported")
		}
		contradicted := was.Effect == plan.Pure && live.Acts(t.Raw)
		if contradicted {
			x.look, x.flagged, x.Warnings = true, true, append(x.Warnings, live.Contradicted)
		}
		held := x.hold(at, &was)
		x.changed, x.heeded = changed, changed || contradicted
		x.anew = !held && !x.heeded && at.anew != nil && at.anew(&was)
		if !held && !x.heeded && !x.anew {
			x.State = toolSame
			return x
		}
		x.State, x.was = toolChanged, &was
		x.same = !x.heeded && !x.anew && was.Instructions == at.instructions
		if x.settled = x.same && !x.moved; x.settled {
			return x
		}
	}
	if catalog.TaskOnly(t.Raw) {
		return leave(catalog.NoTasks)
	}
	// What the compiler does not take is not asked about.
	probe := catalog.Entry{Operation: operation, Definition: t.Raw, Status: plan.Block, Facts: json.RawMessage(`{"provider_type":"mcp","mode":"deter","effect_class":"irreversible"}`)}
	text, err := catalog.Write([]catalog.Entry{probe})
	if err != nil {
		return leave(err.Error())
	}
	if _, ds := compiler.ParseCatalog(compiler.Source{Name: toolsFile, Text: text}); ds.HasErrors() {
		if why := unusable(t.Raw); why != "" {
			return leave(why)
		}
		return leave(strings.TrimSuffix(ds[0].Summary+". "+ds[0].Detail, ". "))
	}
	flags, err := intake.Flags(t.Raw)
	if err != nil {
		return leave(err.Error())
	}
	for _, f := range flags {
		x.warn(f)
	}
	return x
}

// unusable says which schema of a tool cannot be used and why: which bound it exceeds, and where. It is "" if both
// can be.
func unusable(definition json.RawMessage) string {
	v, err := schemas.Decode(definition)
	if err != nil {
		return err.Error()
	}
	all, _ := v.(map[string]any)
	for _, name := range []string{"inputSchema", "outputSchema"} {
		if all[name] == nil {
			continue
		}
		raw, err := json.Marshal(all[name])
		if err == nil {
			_, err = schemas.Compile(raw)
		}
		if err == nil {
			continue
		}
		if inner := errors.Unwrap(err); inner != nil { // without the operation
			err = inner
		}
		return fmt.Sprintf("its %s is not a usable JSON Schema: %s", name, err)
	}
	return ""
}

func (x *importedTool) warn(f intake.Flag) {
	if x.same { // it was looked at
		return
	}
	x.look, x.flagged = true, true
	warning := fmt.Sprintf("%s: %s", strings.TrimSuffix(f.Reason, "."), f.Text)
	if f.Path != "" {
		warning = f.Path + ": " + warning
	}
	x.Warnings = append(x.Warnings, warning)
}

// annotated reports whether the server says anything of what a tool does.
func annotated(definition json.RawMessage) bool {
	proposal, err := intake.Propose(definition, true)
	return err == nil && !proposal.Guess
}

// propose sets what is proposed: what the operator has said of the tool before it changed, made as strict as what
// the server says of it now, believed or not; or else by what the server says, if that is believed, or where it says
// nothing, by name and description, which is a guess.
func (x *importedTool) propose(hints bool) (err error) {
	if x.proposal = ofResources; x.Resource == nil {
		x.proposal, err = intake.Propose(x.definition, hints || !annotated(x.definition))
	}
	if x.was != nil && !x.anew {
		x.proposal = intake.Proposal{Effect: x.was.Effect, Status: x.was.Status, OpenWorld: x.was.OpenWorld, Reason: "That is what the catalog says of it so far."}
		if x.heeded && err == nil {
			return x.heed()
		}
	}
	return err
}

// heed makes what the catalog says as strict as what the server says.
func (x *importedTool) heed() error {
	said, err := intake.Propose(x.definition, true)
	if err != nil || said.Guess {
		return err
	}
	was := x.proposal
	x.proposal = intake.Stricter(was, said)
	if x.proposal.Reason = was.Reason; x.raised() {
		x.proposal.Reason = fmt.Sprintf("The catalog says so far: %s, %s. %s", was.Effect, was.Status, said.Reason)
	}
	return nil
}

// raised reports whether what is proposed of a tool is stricter than what the catalog says.
func (x *importedTool) raised() bool {
	return x.was != nil && (x.proposal.Effect != x.was.Effect || x.proposal.Status != x.was.Status)
}

// unsaid reports whether a template says no more of a tool than what is written of one of which nobody
// has said anything.
func unsaid(t *catalog.Template) bool {
	return t.Effect == plan.Irreversible && t.Status == plan.ManualReview && t.OpenWorld
}

// asBefore reports whether what is proposed anew is what the catalog has.
func (x *importedTool) asBefore() bool {
	if !x.anew || x.proposal.Effect != x.was.Effect || x.proposal.Status != x.was.Status {
		return false
	}
	x.State, x.was = toolSame, nil
	return true
}

// set decides on a tool.
func (x *importedTool) set(effect plan.EffectClass, status plan.Trust) {
	x.Effect, x.Status = effect, status
}

// leaveOut leaves a tool out, or as it was.
func (x *importedTool) leaveOut() {
	x.State = toolLeftOut
	if x.was != nil && x.Resource == nil && (x.changed || x.was.Instructions != x.instructions) {
		x.Warnings = append(x.Warnings, "the catalog keeps what it had, which the server no longer offers")
	}
}

// entry is what the file has of a tool; the configuration has defaults of its server.
func (x *importedTool) entry(server string, d config.ServerDefaults) (catalog.Entry, error) {
	t := catalog.Template{
		ProviderType: plan.MCP, Provider: server, Operation: x.Name, Mode: plan.Deter, Effect: x.Effect, OpenWorld: x.proposal.OpenWorld,
		TimeoutMS: d.Timeout.Milliseconds(), Definition: x.definition, Resource: x.Resource, Retry: plan.Retry{MaxAttempts: 1, InitialMS: catalog.DefaultInitialMS, MultiplierMilli: catalog.DefaultMultiplierMilli, MaxMS: catalog.DefaultMaxMS},
	}
	t.Instructions = x.instructions
	if x.endpoint != "" {
		t.Endpoints = []string{x.endpoint}
	}
	if t.Trust = x.Status; t.Trust == plan.Block {
		t.Trust = plan.ManualReview
	}
	if x.was != nil { // what the operator said holds for the new tool, too
		kept := *x.was
		kept.Definition, kept.Resource, kept.Effect, kept.Instructions = x.definition, x.Resource, x.Effect, x.instructions
		if x.Status != x.was.Status && (x.Status != plan.Block || x.raised()) {
			kept.Trust = t.Trust
		}
		if x.Effect != plan.Pure {
			kept.Retry.MaxAttempts = 1
		}
		if kept.OpenWorld = x.proposal.OpenWorld; x.anew {
			if x.Effect == plan.Pure && kept.Retry.MaxAttempts == 1 {
				kept.Retry.MaxAttempts = 1 + d.Retries
			}
		}
		if x.only {
			kept.Endpoints = []string{x.endpoint}
		} else if x.endpoint != "" && !slices.Contains(kept.Endpoints, x.endpoint) {
			kept.Endpoints = slices.Sorted(slices.Values(append(slices.Clone(kept.Endpoints), x.endpoint)))
		}
		t = kept
	} else if x.Effect == plan.Pure {
		t.Retry.MaxAttempts = 1 + d.Retries
	}
	said, err := t.Said()
	e := catalog.Entry{Operation: t.Name(), Definition: x.definition, Status: x.Status, Facts: said, Comment: x.comment}
	if x.Resource != nil {
		e.Fingerprint = x.Fingerprint
	}
	return e, err
}
