package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/catalog"
	"chimera.ai/engine/catalog/live"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/internal/excerpt"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/plan"
)

func toolListCommand(p *Program, fs *flag.FlagSet) action {
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	return func(ctx context.Context, operands []string) error {
		o, err := p.offers(ctx, *catalogFile, operands, true)
		if err != nil {
			return err
		}
		if len(o.failed) < o.asked || o.asked != 1 {
			if err := p.sayOffers(o.all, o); err != nil {
				return err
			}
		}
		return p.unheard(o.failed, o.asked)
	}
}

func toolCheckCommand(p *Program, fs *flag.FlagSet) action {
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	return func(ctx context.Context, operands []string) error {
		o, err := p.offers(ctx, *catalogFile, operands, false)
		if err != nil {
			return err
		}
		// What an operation reads besides is not the catalog's.
		known := slices.DeleteFunc(o.all, func(o live.Offer) bool {
			return o.State == live.Unknown || o.Resource != "" && o.State == live.Unpinned
		})
		if len(o.failed) < o.asked || o.asked != 1 {
			if err := p.sayOffers(known, o); err != nil {
				return err
			}
		}
		unheard := p.unheard(o.failed, o.asked)
		stale := slices.DeleteFunc(known, func(o live.Offer) bool { return !o.Stale() })
		if len(stale) == 0 {
			return unheard
		}
		first := stale[0]
		if i := slices.IndexFunc(stale, func(o live.Offer) bool { return o.State != live.Missing }); i >= 0 {
			first = stale[i]
		}
		no := negative("the catalog is stale: %s not what the servers offer", plural(len(stale), "operation")+" "+agree(len(stale), "is", "are"))
		if first.State == live.Effect { // it is not a change of what was imported
			return no.withHint("%s asks what to make of it.", p.command("tools", "import", foreign(first.Server)))
		}
		return no.withHint("%s shows what has changed, and %s asks what to make of it.", p.command("tools", "diff", foreign(first.Server+"/"+first.Tool)), p.command("tools", "import", foreign(first.Server)))
	}
}

func toolShowCommand(p *Program, fs *flag.FlagSet) action {
	asPlan := fs.Bool("plan", false, "print a plan that calls the tool, as the catalog has it")
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call, for --plan")
	return func(ctx context.Context, operands []string) error {
		server, tool, ok := strings.Cut(operands[0], "/")
		if !ok && *asPlan {
			return misuse("--plan is about a tool, which is named as SERVER/TOOL, not %q", foreign(operands[0]))
		}
		if !ok {
			return p.showServer(ctx, *catalogFile, server)
		}
		if *asPlan {
			env, err := p.environment(ctx, *catalogFile, "")
			if err != nil {
				return err
			}
			if env.findings.HasErrors() {
				return &failure{code: exitUsage, message: "the catalog or the policy is not valid", diagnostics: env.findings, sources: env.sources}
			}
			t := env.templateOf(operands[0])
			if t == nil {
				return negative("the catalog has no tool %s", foreign(operands[0])).withHint("%s writes it there.", p.command("tools", "import", server))
			}
			return p.planOf(env, t)
		}
		if c, err := p.settings(); err != nil {
			return err
		} else if _, err := serversNamed(&c, []string{server}); err != nil {
			return err
		}
		tools, err := p.listed(ctx, server)
		var names []string
		for _, t := range tools {
			if t.Name == tool {
				return p.showTool(server, t)
			}
			names = append(names, foreign(server+"/"+t.Name))
		}
		if t := p.resourceOperation(ctx, *catalogFile, operands[0]); t != nil {
			return p.showResource(t)
		}
		if err != nil {
			return err
		}
		return negative("the server %s has no tool %s", foreign(server), foreign(tool)).meant("", operands[0], names, "chimera tools list "+server+" lists them.")
	}
}

// resourceOperation finds an operation on resources in the catalog, or returns nil. A catalog that cannot be read has
// none: what a server declares is shown without it.
func (p *Program) resourceOperation(ctx context.Context, catalogFile, name string) *catalog.Template {
	env, err := p.environment(ctx, catalogFile, "")
	if err != nil || env.findings.HasErrors() {
		return nil
	}
	if t := env.templateOf(name); t != nil && t.Resource != nil {
		return t
	}
	return nil
}

// showResource prints an operation on resources, which no server declares, as the catalog has it.
func (p *Program) showResource(t *catalog.Template) error {
	said, err := t.Said()
	if err != nil {
		return negative("%s: %s", foreign(t.Name()), err)
	}
	if p.json() {
		return p.document(struct {
			Server      string          `json:"server"`
			Operation   string          `json:"operation"`
			Fingerprint string          `json:"fingerprint,omitempty"`
			Status      plan.Trust      `json:"status"`
			Facts       json.RawMessage `json:"facts"`
		}{t.Provider, t.Operation, t.Fingerprint, t.Status, said})
	}
	x := importedTool{Name: t.Operation, Resource: t.Resource}
	p.printf("%s\n  an operation on resources, which the catalog has: %s\n  status: %s\n", foreign(t.Name()), foreign(x.reads()), t.Status)
	if t.Fingerprint != "" {
		p.printf("  fingerprint of the resource: %s\n", t.Fingerprint)
	}
	return p.indented(said)
}

// showTool prints a definition with its fingerprint, and that of each part.
func (p *Program) showTool(server string, t mcp.Tool) error {
	print, err := fingerprint.Tool(t.Raw)
	if err != nil {
		return negative("the tool %s/%s cannot be pinned: %s", foreign(server), foreign(t.Name), err)
	}
	if p.json() {
		return p.document(struct {
			Server      string                      `json:"server"`
			Tool        string                      `json:"tool"`
			Fingerprint string                      `json:"fingerprint"`
			Parts       map[fingerprint.Part]string `json:"parts"`
			Definition  json.RawMessage             `json:"definition"`
		}{server, t.Name, print.Digest, print.Parts, t.Raw})
	}
	p.printf("%s/%s\n  fingerprint: %s\n", foreign(server), foreign(t.Name), print.Digest)
	for _, part := range fingerprint.Parts() {
		p.printf("  %s: %s\n", part, print.Parts[part])
	}
	return p.indented(t.Raw)
}

// offers are what servers offer, held against the catalog.
type offers struct {
	all []live.Offer
	// failed has why some did not answer, of those that were asked, and unlisted why others, which have
	// tools, did not list their resources.
	failed, unlisted map[string]error
	asked            int
}

// offers holds what servers offer against the catalog, all resources included if all is set. Without a
// name it asks the servers of which the catalog has something or, if all is set, each of the
// configuration.
func (p *Program) offers(ctx context.Context, catalogFile string, servers []string, all bool) (*offers, error) {
	env, err := p.environment(ctx, catalogFile, "")
	if err != nil {
		return nil, err
	}
	if env.findings.HasErrors() {
		return nil, &failure{code: exitUsage, message: "the catalog or the policy is not valid", diagnostics: env.findings, sources: env.sources}
	}
	if len(servers) == 0 {
		if servers, err = p.configured(); err != nil {
			return nil, err
		}
		if !all {
			servers = slices.DeleteFunc(servers, func(name string) bool { return !live.Has(env.catalog.Templates, name) })
		}
		if len(servers) == 0 {
			p.say("the catalog has nothing of the MCP servers of the configuration")
		}
	}
	offered, failed, err := askEach(ctx, p, servers, func(ctx context.Context, pool askedPool, name string) (s live.Server, err error) {
		if s, err = live.Ask(ctx, pool.Pool, name, env.catalog.Templates); err != nil {
			return s, err
		}
		if all || readsResources(env.catalog, name) {
			if err := pool.resources(ctx, name, &s); err != nil {
				return s, err
			}
		}
		return s, pool.clean(name, &s)
	})
	if err != nil {
		return nil, err
	}
	o := &offers{live.Compare(env.catalog.Templates, offered), failed, map[string]error{}, len(offered) + len(failed)}
	for name, s := range offered {
		if s.Unlisted != nil {
			o.unlisted[name] = s.Unlisted
		}
	}
	return o, nil
}

// readsResources reports whether a catalog has an operation that reads resources of a server.
func readsResources(c *catalog.Catalog, server string) bool {
	return slices.ContainsFunc(c.Templates, func(t catalog.Template) bool {
		return t.Provider == server && t.Resource != nil && t.Resource.As != ""
	})
}

// listed lists the tools of a server of the configuration.
func (p *Program) listed(ctx context.Context, server string) ([]mcp.Tool, error) {
	return askOne(ctx, p, server, func(ctx context.Context, pool askedPool, name string) ([]mcp.Tool, error) {
		tools, err := pool.Tools(ctx, name)
		if err != nil {
			return nil, err
		}
		return tools, pool.clean(name, &live.Server{Tools: tools})
	})
}

// sayOffers prints tools, each with what the catalog says of it. The document also has the servers that
// did not answer, and those that did not list their resources.
func (p *Program) sayOffers(all []live.Offer, o *offers) error {
	for _, s := range silence(o.unlisted) {
		p.say("%s: its resources could not be listed: %s", foreign(s.Server), s.Error)
	}
	if p.json() {
		if all == nil {
			all = []live.Offer{}
		}
		return p.document(struct {
			Tools    []live.Offer `json:"tools"`
			Failed   []silent     `json:"failed"`
			Unlisted []silent     `json:"unlisted"`
		}{all, silence(o.failed), silence(o.unlisted)})
	}
	for _, o := range all {
		line := fmt.Sprintf("%-18s %s/%s", o.State, foreign(o.Server), foreign(o.Tool))
		if o.Resource != "" {
			line = fmt.Sprintf("%-18s %s %s", o.State, strings.TrimSuffix(foreign(o.Server+"/"+o.Tool), "/"), shownURI(o.Resource))
		}
		if o.Fingerprint != "" {
			line += " " + o.Fingerprint
		}
		if o.Problem != "" {
			problem := foreign(o.Problem)
			if o.Template { // it may have all of the template
				problem = excerpt.Clip(problem, maxShownURI)
			}
			line += ": " + problem
		}
		p.printf("%s\n", line)
	}
	return nil
}
