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
	"strconv"
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
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
	"chimera.ai/engine/schemas"
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
	// here is what --here says, or "".
	here string
	// added are the servers that were added to the configuration first.
	added []string
	// yes accepts what asks for no look, and accept names what was looked at: names, and patterns of
	// names that do not count for what was flagged.
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
	fs.StringSliceVar(&o.accept, "accept", nil, "accept the `TOOL` although it needs a look, or take a guess about it; a pattern, such as 'read_*', leaves out what has changed or was flagged; may be repeated")
	fs.StringVar(&o.here, "here", hereUnsaid, "`WHERE` tools are called: without a value where the server is now, too; only there, with only; false pins nothing; by default it is pinned on a terminal only")
	fs.Lookup("here").NoOptDefVal = hereYes
	fs.StringVar(&o.manifest, "manifest", "", "`FILE` with the manifest of the one server, whose publisher says what its tools do")
	fs.StringVar(&o.out, "out", "", "catalog `FILE` to write, for others to review; nothing is asked")
	return func(ctx context.Context, operands []string) error {
		if said, err := strconv.ParseBool(o.here); err == nil {
			o.here = strconv.FormatBool(said)
		} else if fs.Changed("here") && o.here != hereOnly {
			return misuse("--here is %s, %s or %s, not %q", hereYes, hereNo, hereOnly, o.here)
		}
		for name, patterns := range map[string][]string{"only": o.only, "accept": o.accept} {
			for _, pattern := range patterns {
				if _, err := path.Match(pattern, ""); err != nil {
					return misuse("--%s: %s is not a pattern", name, foreign(pattern))
				}
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
			if o.added, operands, err = p.adopt(ctx, ask, o.from, operands); err != nil {
				return err
			}
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
	// instructions is the digest of what the server tells models, and endpoint that of where it is, if
	// that is to be pinned, or "". Only: it alone is.
	instructions, endpoint string
	only                   bool
	// same: the catalog has it, and what the server tells models, as they are; moved: it pins other places
	// than where the server is.
	same, moved bool
	// anew: it is proposed as if the catalog had said nothing; settled: nothing is left to decide.
	anew, settled bool
	proposal      intake.Proposal
	// published: the proposal is the word of the server's publisher.
	published bool
	// look: somebody must look at the tool by itself, and name it by itself if it was flagged.
	look, flagged bool
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
	had, err := p.imported(&c, file)
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
	offered, unanswering, err := p.introspect(ctx, servers)
	if err != nil {
		return err
	}
	if err := p.without(o, &c, unanswering, len(offered)); err != nil {
		return err
	}
	if err := o.check(offered, had.base, len(unanswering) == 0); err != nil {
		return err
	}
	known := knownNames(&c, had.base, had.others)
	var answers []intakeAnswer
	for _, name := range slices.Compact(slices.Clone(servers)) {
		is, ok := offered[name]
		if !ok {
			continue
		}
		answer, err := p.intake(ask, o, name, is, had, known)
		if err != nil {
			var f *failure
			if len(servers) == 1 || !errors.As(err, &f) || ctx.Err() != nil {
				return err
			}
			p.say("%s: nothing is imported: %s", foreign(name), f.Error())
			unanswering[name] = f
			continue
		}
		answer.File = fromHere(file)
		answers = append(answers, answer)
	}
	if err := p.writeTools(&c, file, had.have, answers, o.out == ""); err != nil {
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
	if len(unanswering) > 0 {
		return unanswered("some servers could not be asked")
	}
	if ask.ask {
		return nil
	}
	return p.leftOut(answers)
}

// without says of which servers nothing is imported, and fails if there are no others.
func (p *Program) without(o *intakeOptions, c *config.Config, failed map[string]error, others int) error {
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		if slices.Contains(o.added, name) {
			p.say("%s stays in %s, and nothing of it is imported: %s tries again", foreign(name), cmp.Or(c.File, config.DefaultFile), p.command("tools", "import", name))
		}
		if others > 0 || len(failed) > 1 {
			p.say("%s: nothing is imported: %s", foreign(name), failed[name])
			if f := (*failure)(nil); errors.As(failed[name], &f) && f.hint != "" {
				p.say("  %s", f.hint)
			}
			continue
		}
		return failed[name]
	}
	if len(failed) > 0 && others == 0 {
		return unanswered("no server could be asked")
	}
	return nil
}

// leftOut is the failure if something was left out that nobody was asked about, or nil.
func (p *Program) leftOut(answers []intakeAnswer) error {
	n := 0
	hint := ""
	for _, a := range answers {
		for _, x := range a.Tools {
			if x.State != toolLeftOut {
				continue
			}
			n++
			switch name := foreign(catalog.OperationName(a.Server, x.Name)); {
			case hint != "":
			case x.was != nil && x.Resource == nil:
				hint = p.command("tools", "diff", name) + " shows what has changed."
			case x.look:
				hint = p.command("tools", "show", name) + " shows it."
			}
		}
	}
	if n == 0 {
		return nil
	}
	return negative("%s left out", plural(n, "tool")+" "+agree(n, "is", "are")).withHint("%s", hint)
}

// check fails if a pattern of --only matches nothing that servers offer, or --accept names nothing. all
// reports whether all servers that were named are known.
func (o *intakeOptions) check(offered map[string]introduced, base map[string]catalog.Template, all bool) error {
	if !all {
		return nil
	}
	var names, operations []string
	for _, server := range slices.Sorted(maps.Keys(offered)) {
		var of []string
		for _, t := range offered[server].Tools {
			of = append(of, t.Name)
		}
		if len(offered[server].Resources) > 0 || len(o.resources) > 0 {
			of = append(of, readResource, readJSONResource, listResources)
		}
		for _, t := range base {
			if t.Provider == server && t.Resource != nil {
				of = append(of, t.Operation)
			}
		}
		for _, name := range of {
			names, operations = append(names, name), append(operations, catalog.OperationName(server, name))
		}
	}
	servers := strings.Join(slices.Sorted(maps.Keys(offered)), ", ")
	matches := func(pattern string, of []string) bool {
		return slices.ContainsFunc(of, func(name string) bool {
			ok, err := path.Match(pattern, name)
			return err == nil && ok || pattern == name
		})
	}
	hint := "chimera tools list lists them."
	for _, pattern := range o.only {
		if !matches(pattern, names) {
			return negative("no tool of %s matches --only %s", foreign(servers), foreign(pattern)).meant("--only ", pattern, names, hint)
		}
	}
	for _, name := range o.accept {
		if !matches(name, names) && !matches(name, operations) {
			return misuse("--accept: %s has no tool %s", foreign(servers), foreign(name)).meant("--accept ", name, append(names, operations...), hint)
		}
	}
	return nil
}

// named reports whether --accept names a tool of a server. A pattern does not name what was flagged.
func (o *intakeOptions) named(server string, x *importedTool) bool {
	for _, name := range []string{x.Name, catalog.OperationName(server, x.Name)} {
		if slices.Contains(o.accept, name) {
			return true
		}
		if !x.flagged && slices.ContainsFunc(o.accept, func(pattern string) bool { ok, err := path.Match(pattern, name); return err == nil && ok }) {
			return true
		}
	}
	return false
}

// hadBefore is what catalogs have before an import.
type hadBefore struct {
	// have are the tools that the file has which is written, and base those that the imported ones are
	// held against: these and the others of the configuration's file of tools.
	have, base map[string]catalog.Template
	// others are the operations that stand elsewhere.
	others map[string]bool
	// servers are what servers said of themselves.
	servers []catalog.Server
}

// imported reads the tools that a catalog file has, and the operations that stand elsewhere.
func (p *Program) imported(c *config.Config, file string) (*hadBefore, error) {
	had := &hadBefore{have: map[string]catalog.Template{}, base: map[string]catalog.Template{}, others: map[string]bool{}}
	read := func(names ...string) (*catalog.Catalog, error) {
		all, texts, ds, err := host.LoadCatalog(names...)
		if err == nil && ds.HasErrors() {
			err = &failure{code: exitUsage, message: "the catalog is not valid", diagnostics: ds, sources: texts}
		}
		return all, err
	}
	there := func(file string) bool {
		_, err := os.Stat(file)
		return !errors.Is(err, fs.ErrNotExist)
	}
	if there(file) {
		all, err := read(file)
		if err != nil {
			return nil, asUse(err)
		}
		if len(all.Adapters) > 0 {
			return nil, misuse("%s has adapters, and is not a file of imported tools alone", file)
		}
		for _, t := range all.Templates {
			if t.Definition == nil && t.Resource == nil {
				return nil, misuse("%s has %s without its definition, and is not a file of imported tools alone", file, foreign(t.Name())).
					withHint("Name another file with --out, or with tools in chimera.yaml.")
			}
			had.have[t.Name()] = t
		}
		had.servers = all.Servers
	}
	maps.Copy(had.base, had.have)
	for _, name := range []string{c.CatalogFile, c.ToolsFile} {
		if name == "" || name == file || name == c.ToolsFile && !there(name) {
			continue
		}
		all, err := read(name)
		if err != nil {
			return nil, asUse(err)
		}
		for _, t := range all.Templates {
			_, known := had.base[t.Name()]
			switch {
			case name == c.ToolsFile && known:
			case name == c.ToolsFile && (t.Definition != nil || t.Resource != nil):
				had.base[t.Name()] = t
			default:
				had.others[t.Name()] = true
			}
		}
		if name == c.ToolsFile {
			had.servers = append(had.servers, all.Servers...)
		}
	}
	return had, nil
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
func (p *Program) intake(ask *asker, o *intakeOptions, server string, is introduced, had *hadBefore, known map[string][]string) (intakeAnswer, error) {
	answer := intakeAnswer{Server: server, Fingerprint: is.print, Tools: []*importedTool{}, initialize: is.Introduction.Raw}
	tools, said := is.Tools, is.Introduction
	if o.published != nil {
		if err := p.offered(o.published, tools); err != nil {
			return answer, err
		}
	}
	instructions, err := fingerprint.Instructions(said.Instructions)
	if err != nil {
		return answer, negative("the server %s: %s", foreign(server), err)
	}
	at := where{server: server, endpoint: said.Endpoint, said: o.here, instructions: instructions, anew: func(was *catalog.Template) bool {
		return !ask.ask && unsaid(was) && o.named(server, &importedTool{Name: was.Operation})
	}}
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
			add(examine(at, t, had.base, had.others))
		}
	}
	resources := resourceIntake{where: at, listed: is.Resources, wanted: o.resources, offer: ask.ask || o.out != ""}
	readable, left := resources.operations(names, had.base, had.others)
	for _, x := range readable {
		if o.takes(x.Name) {
			add(x)
		}
	}
	p.sayLeft(server, left)
	if ask.ask && !hints && slices.ContainsFunc(open, func(x *importedTool) bool { return annotated(x.definition) }) {
		if hints, err = ask.confirm(false, "The server %s says of its tools what they do. Do you believe it? [y/N]", foreign(server)); err != nil {
			return answer, err
		}
	}
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
	open = slices.DeleteFunc(open, (*importedTool).asBefore)
	if err := ask.place(server, is, o.here, open, had.another(server, said.Raw)); err != nil {
		return answer, err
	}
	return answer, ask.decide(o, server, open, hints)
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

// takes reports whether an operation of a name is imported.
func (o *intakeOptions) takes(name string) bool {
	return len(o.only) == 0 || slices.ContainsFunc(o.only, func(pattern string) bool { ok, err := path.Match(pattern, name); return err == nil && ok })
}

// another says how a server introduces itself otherwise than when it was imported, or "".
func (h *hadBefore) another(server string, is json.RawMessage) string {
	i := slices.IndexFunc(h.servers, func(s catalog.Server) bool { return s.Name == server })
	if i < 0 {
		return ""
	}
	if old, now := selfName(h.servers[i].Initialize), selfName(is); old != now {
		return fmt.Sprintf("It called itself %s, and calls itself %s now.", old, now)
	}
	return ""
}

// selfName is the name and the version by which a server introduces itself.
func selfName(initialize json.RawMessage) string {
	v, err := schemas.Decode(initialize)
	if err != nil {
		return ""
	}
	said, _ := v.(map[string]any)
	info, _ := said["serverInfo"].(map[string]any)
	name, _ := info["name"].(string)
	version, _ := info["version"].(string)
	return excerpt.Clip(strings.TrimSpace(name+" "+version), maxSelfName)
}

// maxSelfName bounds a server's name and version as they are shown, in bytes.
const maxSelfName = 200

// introspect asks servers what they offer, twice: their tools must be equal. failed has why nothing is
// known of the others.
func (p *Program) introspect(ctx context.Context, servers []string) (offered map[string]introduced, failed map[string]error, err error) {
	if offered, failed, err = askEach(p, servers, introduce(ctx)); err != nil {
		return nil, nil, err
	}
	again, gone, err := askEach(p, slices.Collect(maps.Keys(offered)), introduce(ctx))
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(failed, gone)
	for _, name := range slices.Sorted(maps.Keys(again)) {
		first, is := offered[name], again[name]
		if first.unlisted != nil {
			p.say("%s: its resources are left out: %s", foreign(name), foreign(first.unlisted.Error()))
		}
		was, err := serverPrint(first.Server)
		if err == nil {
			is.print, err = serverPrint(is.Server)
		}
		switch {
		case err != nil:
			failed[name] = negative("the tools of %s: %s", foreign(name), err)
		case was != is.print:
			failed[name] = negative("the server %s offers other tools each time it is asked", foreign(name))
		default:
			offered[name] = is
		}
	}
	for name := range failed {
		delete(offered, name)
	}
	return offered, failed, nil
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
		held := x.hold(at, &was)
		x.anew = !held && !changed && at.anew != nil && at.anew(&was)
		switch {
		case held, changed, x.anew:
		case was.Effect == plan.Pure && live.Acts(t.Raw):
			return leave(live.Contradicted)
		default:
			x.State = toolSame
			return x
		}
		x.State, x.was = toolChanged, &was
		x.same = !changed && !x.anew && was.Instructions == at.instructions
		if x.settled = x.same && !x.moved; x.settled {
			return x
		}
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

// propose sets what is proposed: what the operator has said of the tool before it changed, or else
// by what the server says, if that is believed, or where it says nothing, by name and description,
// which is a guess.
func (x *importedTool) propose(hints bool) (err error) {
	if x.proposal = ofResources; x.Resource == nil {
		x.proposal, err = intake.Propose(x.definition, hints || !annotated(x.definition))
	}
	if x.was != nil && !x.anew {
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
	if x.was != nil && x.Resource == nil && !x.same {
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
		if x.Status != x.was.Status && x.Status != plan.Block {
			kept.Trust = t.Trust
		}
		if x.anew {
			kept.OpenWorld = x.proposal.OpenWorld
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
					if n > 1 {
						line += foreign(" (" + strings.Join(x.Warnings[:n-1], "; ") + ")")
					}
				}
			case toolElsewhere:
				line += ": the catalog of the configuration has it"
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
