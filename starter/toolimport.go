package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"

	flag "github.com/spf13/pflag"
	"golang.org/x/term"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/catalog/live"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/intake"
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
	// here is what --here says, or "", and pin what --pin does.
	here, pin string
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
	pin := fs.Bool("pin", false, "pin the files among the arguments of a server, such as its script, by what they hold now (mcpServers.SERVER.pin); false asks nothing; by default a terminal asks")
	fs.StringVar(&o.manifest, "manifest", "", "`FILE` with the manifest of the one server, whose publisher says what its tools do")
	fs.StringVar(&o.out, "out", "", "catalog `FILE` to write, for others to review; nothing is asked")
	return func(ctx context.Context, operands []string) error {
		if fs.Changed("pin") {
			o.pin = strconv.FormatBool(*pin)
		}
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

	// said is how the server introduced itself, and where it is.
	said *serverSaid
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
	// changed: its definition has; heeded: what the server says of it now counts, for that reason or as it
	// contradicts the catalog.
	changed, heeded bool
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
	if pinned, err := p.pinFiles(ask, o, &c, had.base, servers); err != nil {
		return err
	} else if pinned {
		if c, err = p.settings(); err != nil {
			return err
		}
	}
	offered, unanswering, err := p.introspect(ctx, servers)
	if err != nil {
		return err
	}
	if err := p.without(ctx, o, &c, unanswering, len(offered)); err != nil {
		return err
	}
	if err := o.check(offered, had.base, len(unanswering) == 0); err != nil {
		return err
	}
	known := knownNames(&c, had.base, had.others)
	var answers []intakeAnswer
	for i, name := range servers {
		is, ok := offered[name]
		if !ok || slices.Contains(servers[:i], name) {
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

// intake asks what to say of the tools of one server. known are names of other servers and their
// tools; those of this one are added.
func (p *Program) intake(ask *asker, o *intakeOptions, server string, is introduced, had *hadBefore, known map[string][]string) (intakeAnswer, error) {
	answer := intakeAnswer{Server: server, Fingerprint: is.print, Tools: []*importedTool{}}
	tools, said := is.Tools, is.Introduction
	var err error
	if answer.said, err = is.said(); err != nil {
		return answer, negative("the server %s: %s", foreign(server), err)
	}
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
		return unsaid(was) && o.named(server, &importedTool{Name: was.Operation})
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
	resources := resourceIntake{where: at, listed: is.Resources, templates: is.Templates, wanted: o.resources, offer: ask.ask || o.out != ""}
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
	if len(tools)+len(answer.Tools)+len(left) == 0 {
		p.say("%s: it has no tools", foreign(server))
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
	if err := ask.place(server, is, o.here, open, had.another(server, is)); err != nil {
		return answer, err
	}
	return answer, ask.decide(o, server, open, hints)
}

// introspect asks servers what they offer, twice: their tools must be equal. failed has why nothing is
// known of the others.
func (p *Program) introspect(ctx context.Context, servers []string) (offered map[string]introduced, failed map[string]error, err error) {
	if offered, failed, err = askEach(ctx, p, servers, introduce); err != nil {
		return nil, nil, err
	}
	again, gone, err := askEach(ctx, p, slices.Collect(maps.Keys(offered)), introduce)
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(failed, gone)
	for _, name := range slices.Sorted(maps.Keys(again)) {
		first, is := offered[name], again[name]
		if is.Unlisted != nil {
			p.say("%s: its resources are left out: %s", foreign(name), is.Unlisted)
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
	for name := range offered {
		if ctx.Err() != nil {
			failed[name] = unanswered("it has answered, and the import was interrupted")
		}
		if failed[name] != nil {
			delete(offered, name)
		}
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
