package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	flag "github.com/spf13/pflag"
	"golang.org/x/term"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/catalog/live"
	"chimera.ai/engine/compiler"
	"chimera.ai/engine/config"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/host"
	"chimera.ai/engine/intake"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
)

// toolsFile is the catalog of imported tools, beside chimera.yaml, unless that names another.
const toolsFile = "tools.yaml"

// intakeOptions are the flags of tools import.
type intakeOptions struct {
	from, out string
	// manifest is the file of the server's manifest, or "", and published what it says.
	manifest  string
	published *verified
	// only are patterns of tools' names; all tools if there is none.
	only []string
	// resources are patterns of the URIs that are to be read.
	resources []string
	// hints: the server's annotations are believed.
	hints bool
	// here: where the server is counts, too, or does not; nil if nothing is said.
	here *bool
	// yes accepts what asks for no look, and accept names what was looked at.
	yes    bool
	accept []string
}

func toolImportCommand(p *Program, fs *flag.FlagSet) action {
	var o intakeOptions
	fs.StringVar(&o.from, "from", "", "`FILE` of another MCP host, or a server.json, its address, or the NAME[@VERSION] of a server in mcp_registry, whose servers are added to chimera.yaml first")
	fs.StringSliceVar(&o.only, "only", nil, "import the tools that match a `PATTERN`, such as 'read_*'; may be repeated")
	fs.StringSliceVar(&o.resources, "resources", nil, "import the resources whose URIs match a `PATTERN`, such as 'wiki://pages/*', as pure operations; may be repeated")
	fs.BoolVar(&o.hints, "hints", false, "believe what the server's annotations say of its tools")
	fs.BoolVar(&o.yes, "yes", false, "accept, without asking, what is proposed for tools that need no look")
	fs.StringSliceVar(&o.accept, "accept", nil, "accept the `TOOL` although it needs a look; may be repeated")
	here := fs.Bool("here", false, "pin where the server is, too: its program and files, or its address and keys; by default on a terminal only")
	fs.StringVar(&o.manifest, "manifest", "", "`FILE` with the manifest of the one server, whose publisher says what its tools do")
	fs.StringVar(&o.out, "out", "", "catalog `FILE` to write, for others to review; nothing is asked")
	return func(ctx context.Context, operands []string) error {
		if fs.Changed("here") {
			o.here = here
		}
		for _, pattern := range o.only {
			if _, err := path.Match(pattern, ""); err != nil {
				return misuse("--only: %s is not a pattern", foreign(pattern))
			}
		}
		for _, pattern := range o.resources {
			if err := plan.CheckPattern(pattern); err != nil {
				return misuse("--resources: %s is not a pattern of URIs: %s", foreign(pattern), err)
			}
		}
		ask, err := p.asker(&o)
		if err != nil {
			return err
		}
		if o.from != "" {
			added, err := p.adopt(ctx, ask, o.from, operands)
			if err != nil {
				return err
			}
			operands = added
		} else if len(operands) == 0 {
			return misuse("name a server of the configuration, or give --from FILE")
		}
		return p.importTools(ctx, ask, &o, operands)
	}
}

// asker asks on the terminal, unless the flags say what to do.
func (p *Program) asker(o *intakeOptions) (*asker, error) {
	a := &asker{p: p, in: bufio.NewReader(p.Stdin), ask: !o.yes && o.out == ""}
	if in, ok := p.Stdin.(*os.File); a.ask && (!ok || !term.IsTerminal(int(in.Fd()))) {
		return nil, misuse("there is no terminal on which to ask").
			withHint("Give --yes to accept what needs no look, or --out FILE to write what is proposed, for others to review.")
	}
	return a, nil
}

// intakeAnswer is the JSON answer about one server.
type intakeAnswer struct {
	Server string `json:"server"`
	// Fingerprint is that of what the server offers.
	Fingerprint string          `json:"server_fingerprint"`
	File        string          `json:"file"`
	Tools       []*importedTool `json:"tools"`

	// initialize is how the server introduced itself.
	initialize json.RawMessage
}

// importedTool is a tool of a server, and what became of it.
type importedTool struct {
	Name        string           `json:"name"`
	Fingerprint string           `json:"fingerprint,omitempty"`
	Effect      plan.EffectClass `json:"effect_class,omitempty"`
	Status      plan.Trust       `json:"status,omitempty"`
	// Resource says which resources it reads or lists; nil for a tool.
	Resource *plan.Resource `json:"resource,omitempty"`
	// State is new, changed, unchanged, elsewhere or left out.
	State    string   `json:"state"`
	Warnings []string `json:"warnings"`
	// Plans are published ones that a change affects, as name@version.
	Plans []string `json:"plans,omitempty"`

	definition json.RawMessage
	// instructions is the digest of what the server tells models, and endpoint that of where it is,
	// or "" if that does not count.
	instructions, endpoint string
	proposal               intake.Proposal
	// published: the proposal is the word of the server's publisher.
	published bool
	// look: somebody must look at the tool by itself.
	look bool
	// was is the template that the file has, or nil.
	was *catalog.Template
	// comment stands in the file.
	comment string
}

// What becomes of a tool.
const (
	toolNew       = "new"
	toolChanged   = "changed"
	toolSame      = "unchanged"
	toolElsewhere = "elsewhere"
	toolLeftOut   = "left out"
)

// importTools asks what to say of the tools of servers, and writes it to a catalog.
func (p *Program) importTools(ctx context.Context, ask *asker, o *intakeOptions, servers []string) error {
	c, err := p.settings()
	if err != nil {
		return err
	}
	file := cmp.Or(o.out, c.ToolsFile, filepath.Join(filepath.Dir(c.File), toolsFile))
	have, others, err := p.imported(&c, file)
	if err != nil {
		return err
	}
	if o.manifest != "" {
		if len(servers) != 1 {
			return misuse("--manifest is of one server: name it")
		}
		if _, there := c.MCPServers[servers[0]]; !there {
			return misuse("the configuration has no MCP server %s", foreign(servers[0])).meant("", servers[0], slices.Sorted(maps.Keys(c.MCPServers)), "Servers stand in mcpServers.")
		}
		if o.published, err = p.readManifest(ctx, &c, o.manifest, servers[0]); err != nil {
			return err
		}
	}
	known := knownNames(&c, have, others)
	var answers []intakeAnswer
	failed := false
	for _, name := range servers {
		answer, err := p.intake(ctx, ask, o, name, have, others, known)
		if err != nil {
			var f *failure
			if len(servers) == 1 || !errors.As(err, &f) || ctx.Err() != nil {
				return err
			}
			p.say("%s: nothing is imported: %s", foreign(name), f.Error())
			failed = true
			continue
		}
		answer.File = fromHere(file)
		answers = append(answers, answer)
	}
	if err := p.writeTools(&c, file, have, answers, o.out == ""); err != nil {
		return err
	}
	p.findAffected(ctx, answers)
	if o.published != nil {
		if err := p.nameManifest(&c, o.published, o.out == ""); err != nil {
			return err
		}
	}
	if err := p.sayImported(answers, file); err != nil {
		return err
	}
	if failed {
		return unanswered("some servers could not be asked")
	}
	return nil
}

// imported reads the tools that a catalog file has, and the operations that stand elsewhere.
func (p *Program) imported(c *config.Config, file string) (have map[string]catalog.Template, others map[string]bool, err error) {
	have, others = map[string]catalog.Template{}, map[string]bool{}
	read := func(names ...string) (*catalog.Catalog, error) {
		all, texts, ds, err := host.LoadCatalog(names...)
		if err == nil && ds.HasErrors() {
			err = &failure{code: exitUsage, message: "the catalog is not valid", diagnostics: ds, sources: texts}
		}
		return all, err
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		all, err := read(file)
		if err != nil {
			return nil, nil, asUse(err)
		}
		if len(all.Adapters) > 0 {
			return nil, nil, misuse("%s has adapters, and is not a file of imported tools alone", file)
		}
		for _, t := range all.Templates {
			if t.Definition == nil && t.Resource == nil {
				return nil, nil, misuse("%s has %s without its definition, and is not a file of imported tools alone", file, foreign(t.Name())).
					withHint("Name another file with --out, or with tools in chimera.yaml.")
			}
			have[t.Name()] = t
		}
	}
	var rest []string
	for _, name := range []string{c.CatalogFile, c.ToolsFile} {
		if name != "" && name != file {
			if _, err := os.Stat(name); name == c.ToolsFile && errors.Is(err, fs.ErrNotExist) {
				continue
			}
			rest = append(rest, name)
		}
	}
	all, err := read(rest...)
	if err != nil {
		return nil, nil, asUse(err)
	}
	if all != nil {
		for i := range all.Templates {
			others[all.Templates[i].Name()] = true
		}
	}
	return have, others, nil
}

// knownNames are the servers of the configuration and the providers of operations, each with the
// names of its operations.
func knownNames(c *config.Config, have map[string]catalog.Template, others map[string]bool) map[string][]string {
	known := map[string][]string{}
	for name := range c.MCPServers {
		known[name] = nil
	}
	for _, operation := range slices.Concat(slices.Sorted(maps.Keys(have)), slices.Sorted(maps.Keys(others))) {
		provider, name, _ := strings.Cut(operation, "/")
		known[provider] = append(known[provider], name)
	}
	return known
}

// asUse is the failure of a file that cannot be read, unless the error is a failure already.
func asUse(err error) error {
	if f := (*failure)(nil); errors.As(err, &f) {
		return err
	}
	return misuse("%s", err)
}

// intake asks what to say of the tools of one server. known are names of other servers and their
// tools; those of this one are added.
func (p *Program) intake(ctx context.Context, ask *asker, o *intakeOptions, server string, have map[string]catalog.Template, others map[string]bool, known map[string][]string) (intakeAnswer, error) {
	answer := intakeAnswer{Server: server, Tools: []*importedTool{}}
	offered, print, err := p.introspect(ctx, server)
	if err != nil {
		return answer, err
	}
	tools, said := offered.Tools, offered.Introduction
	answer.Fingerprint, answer.initialize = print, offered.Introduction.Raw
	if o.published != nil {
		if err := p.offered(o.published, tools); err != nil {
			return answer, err
		}
	}
	instructions, err := fingerprint.Instructions(said.Instructions)
	if err != nil {
		return answer, negative("the server %s: %s", foreign(server), err)
	}
	endpoint := ""
	if o.here != nil && *o.here {
		endpoint = said.Endpoint
	}
	hints := o.hints
	var names []string
	var open []*importedTool
	add := func(x *importedTool) {
		answer.Tools = append(answer.Tools, x)
		if x.State == toolNew || x.State == toolChanged {
			open = append(open, x)
		}
	}
	for _, t := range tools {
		names = append(names, t.Name)
		if o.takes(t.Name) {
			add(examine(server, t, have, others, instructions, endpoint))
		}
	}
	resources := resourceIntake{server: server, listed: offered.Resources, wanted: o.resources, offer: ask.ask || o.out != "", instructions: instructions, endpoint: endpoint}
	readable, left := resources.operations(names, have, others)
	for _, x := range readable {
		if o.takes(x.Name) {
			add(x)
		}
	}
	p.sayLeft(server, left)
	if ask.ask && !hints && slices.ContainsFunc(open, func(x *importedTool) bool { return annotated(x.definition) }) {
		if hints, err = ask.yes("The server %s says of its tools what they do. Do you believe it? [y/N]", foreign(server)); err != nil {
			return answer, err
		}
	}
	ask.place(server, said.Endpoint, o.here, open)
	for _, f := range slices.Concat(intake.FlagNames(names), intake.FlagKnown(server, names, known)) {
		for _, x := range open {
			if f.Path == "" || f.Path == fmt.Sprintf("/%d", slices.Index(names, x.Name)) {
				x.warn(f)
			}
		}
	}
	known[server] = append(known[server], names...)
	for _, x := range open {
		if err := x.propose(hints); err != nil {
			return answer, negative("the tool %s/%s: %s", foreign(server), foreign(x.Name), err)
		}
		if o.published != nil && x.Resource == nil {
			x.publish(o.published)
		}
	}
	return answer, ask.decide(o, server, open, hints)
}

// takes reports whether an operation of a name is imported.
func (o *intakeOptions) takes(name string) bool {
	return len(o.only) == 0 || slices.ContainsFunc(o.only, func(pattern string) bool { ok, err := path.Match(pattern, name); return err == nil && ok })
}

// introspect asks a server what it offers, twice: its tools must be equal. It returns that with the
// fingerprint of what it says of itself and its tools.
func (p *Program) introspect(ctx context.Context, server string) (offered live.Server, print string, err error) {
	for again := range 2 {
		var unlisted error
		if offered, unlisted, err = p.introduced(ctx, server); err != nil {
			return offered, "", err
		}
		if again == 0 && unlisted != nil {
			p.say("%s: its resources are left out: %s", foreign(server), foreign(unlisted.Error()))
		}
		digest, err := serverPrint(offered)
		if err != nil {
			return offered, "", negative("the tools of %s: %s", foreign(server), err)
		}
		if again > 0 && print != digest {
			return offered, "", negative("the server %s offers other tools each time it is asked", foreign(server))
		}
		print = digest
	}
	return offered, print, nil
}

// serverPrint is the fingerprint of a server with all its tools, also with those that have none.
func serverPrint(s live.Server) (string, error) {
	var prints []fingerprint.Print
	for _, t := range s.Tools {
		one, err := fingerprint.Tool(t.Raw)
		if err != nil { // it is left out, and must be the same, too
			one = fingerprint.Print{Tool: t.Name, Digest: "none: " + string(t.Raw)}
		}
		prints = append(prints, one)
	}
	return fingerprint.Server(s.Introduction.Endpoint, s.Introduction.Introduction, prints)
}

// examine holds a tool against the catalog, and looks for what people should see.
func examine(server string, t mcp.Tool, have map[string]catalog.Template, others map[string]bool, instructions, endpoint string) *importedTool {
	x := &importedTool{Name: t.Name, State: toolNew, Warnings: []string{}, definition: t.Raw, instructions: instructions, endpoint: endpoint}
	leave := func(why string) *importedTool {
		x.State, x.Warnings = toolLeftOut, append(x.Warnings, why)
		return x
	}
	operation := catalog.OperationName(server, t.Name)
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
		if was.Fingerprint == print.Digest && was.Instructions == instructions && (endpoint == "" || slices.Contains(was.Endpoints, endpoint)) {
			x.State = toolSame
			return x
		}
		x.State, x.was, x.look = toolChanged, &was, true
		what := "it has changed since it was imported"
		if was.Fingerprint == print.Digest {
			what = "what its server tells models, or where that is, has changed since it was imported"
		}
		x.Warnings = append(x.Warnings, what)
	}
	// What the compiler does not take is not asked about.
	probe := catalog.Entry{Operation: operation, Definition: t.Raw, Status: plan.Block, Facts: json.RawMessage(`{"provider_type":"mcp","mode":"deter","effect_class":"irreversible"}`)}
	text, err := catalog.Write([]catalog.Entry{probe})
	if err != nil {
		return leave(err.Error())
	}
	if _, ds := compiler.ParseCatalog(compiler.Source{Name: toolsFile, Text: text}); ds.HasErrors() {
		return leave(ds[0].Summary)
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

func (x *importedTool) warn(f intake.Flag) {
	x.look = true
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

// propose sets what is proposed: what the operator has said of the tool before it changed, or else
// by what the server says, if that is believed, or where it says nothing, by name and description,
// which is a guess.
func (x *importedTool) propose(hints bool) (err error) {
	if x.proposal = ofResources; x.Resource == nil {
		x.proposal, err = intake.Propose(x.definition, hints || !annotated(x.definition))
	}
	if x.was != nil {
		x.proposal.Effect, x.proposal.Status, x.proposal.OpenWorld, x.proposal.Guess = x.was.Effect, x.was.Status, x.was.OpenWorld, false
		x.proposal.Reason = "That is what the catalog says of it so far."
	}
	return err
}

// set decides on a tool.
func (x *importedTool) set(effect plan.EffectClass, status plan.Trust) {
	x.Effect, x.Status = effect, status
}

// leaveOut leaves a tool out, or as it was.
func (x *importedTool) leaveOut() {
	x.State = toolLeftOut
	if x.was != nil && x.Resource == nil {
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
		if x.Status != x.was.Status {
			kept.Trust = t.Trust
		}
		if x.endpoint != "" && !slices.Contains(kept.Endpoints, x.endpoint) {
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

// sayImported prints what became of the tools.
func (p *Program) sayImported(answers []intakeAnswer, file string) error {
	if p.json() {
		if len(answers) == 1 {
			return p.document(answers[0])
		}
		return p.document(answers)
	}
	for _, a := range answers {
		imported := 0
		for _, x := range a.Tools {
			line := fmt.Sprintf("%-10s %s/%s", x.State, foreign(a.Server), foreign(x.Name))
			switch x.State {
			case toolNew, toolChanged:
				imported++
				line += fmt.Sprintf(" %s %s", x.Effect, x.Status)
			case toolLeftOut:
				if n := len(x.Warnings); n > 0 {
					line += ": " + foreign(x.Warnings[n-1])
				}
			}
			p.printf("%s\n", line)
			p.sayAffected(a.Server, x)
		}
		if imported > 0 {
			p.say("%s of %s in %s", plural(imported, "tool"), foreign(a.Server), fromHere(file))
		}
	}
	return nil
}
