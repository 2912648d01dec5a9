package main

import (
	"context"
	"slices"
	"strings"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/authority"
	"chimera.ai/engine/catalog"
	"chimera.ai/engine/catalog/live"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/ledger"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/registry"
	"chimera.ai/engine/trust"
)

func toolExportCommand(p *Program, fs *flag.FlagSet) action {
	out := fs.String("out", "", "`FILE` for the catalog; without it, standard output")
	return func(ctx context.Context, operands []string) error {
		over, _, err := p.authority(ctx)
		if err != nil {
			return err
		}
		statements, err := over.Ledger.Authority(ctx)
		if err != nil {
			return storeError(err)
		}
		envelopes := make([][]byte, len(statements))
		for i, raw := range statements {
			envelopes[i] = raw
		}
		s, err := trust.Chain(over.Bootstrap, envelopes)
		if err != nil {
			return untrusted(err)
		}
		entries, err := registry.Entries(ctx, over.Ledger, s, operands...)
		if err != nil {
			return untrusted(err)
		}
		if len(entries) == 0 && len(operands) > 0 {
			return p.unstated(ctx, over, s, operands)
		}
		if len(entries) == 0 {
			return negative("no tool is registered and stated").withHint("Register what tools import has written with %s.", p.command("tools", "trust", "-f", "FILE"))
		}
		if len(statements) > catalog.MaxStatements {
			return negative("the admins have made %d statements, and a catalog carries at most %d", len(statements), catalog.MaxStatements)
		}
		text, err := catalog.Write(entries, statements...)
		if err != nil {
			return negative("%s", err)
		}
		servers, err := registry.Servers(ctx, over.Ledger, operands...)
		if err != nil {
			return storeError(err)
		}
		if text, err = catalog.UpdateServers(text, serversOf(servers, entries)); err != nil {
			return negative("%s", err)
		}
		if len(text) > maxSource {
			return negative("the catalog and the statements have %d bytes together, and a catalog at most %d", len(text), maxSource)
		}
		if *out == "" && !p.json() {
			p.printf("%s", text)
			return nil
		}
		if *out != "" {
			if err := replaceFile(*out, text); err != nil {
				return misuse("%s", err)
			}
		}
		if p.json() {
			names := []string{}
			for _, e := range entries {
				names = append(names, e.Operation)
			}
			return p.document(struct {
				File  string   `json:"file,omitempty"`
				Tools []string `json:"tools"`
				// Statements is the number of the last, which was issued at AsOf.
				Statements int         `json:"statements"`
				AsOf       ledger.Time `json:"as_of"`
			}{*out, names, s.N, s.Issued})
		}
		p.say("%s in %s, with %s of the admins, as of %s", plural(len(entries), "tool"), *out, plural(s.N, "statement"), s.Issued)
		return nil
	}
}

// unstated is the failure of an export of servers of which nothing is stated.
func (p *Program) unstated(ctx context.Context, over *authority.Authority, s trust.State, servers []string) error {
	all, err := registry.Entries(ctx, over.Ledger, s)
	if err != nil {
		return untrusted(err)
	}
	var known []string
	for _, e := range all {
		server, _, _ := strings.Cut(e.Operation, "/")
		known = append(known, server)
	}
	known = slices.Compact(known)
	hint := "Register what tools import has written with " + p.command("tools", "trust", "-f", "FILE") + "."
	if len(known) > 0 {
		hint = "There are tools of " + foreign(strings.Join(known, ", ")) + "."
	}
	return negative("no tool of %s is registered and stated", foreign(strings.Join(servers, ", "))).meant("", servers[0], known, hint)
}

// serversOf are the servers of which something is exported.
func serversOf(servers []catalog.Server, entries []catalog.Entry) []catalog.Server {
	return slices.DeleteFunc(servers, func(s catalog.Server) bool {
		return !slices.ContainsFunc(entries, func(e catalog.Entry) bool { return strings.HasPrefix(e.Operation, s.Name+"/") })
	})
}

func toolDiffCommand(p *Program, fs *flag.FlagSet) action {
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	return func(ctx context.Context, operands []string) error {
		server, tool, ok := strings.Cut(operands[0], "/")
		if !ok {
			return p.diffServer(ctx, *catalogFile, server)
		}
		env, err := p.environment(ctx, *catalogFile, "")
		if err != nil {
			return err
		}
		if env.findings.HasErrors() {
			return &failure{code: exitUsage, message: "the catalog or the policy is not valid", diagnostics: env.findings, sources: env.sources}
		}
		c, err := p.settings()
		if err != nil {
			return err
		}
		if _, err := serversNamed(&c, []string{server}); err != nil {
			return err
		}
		t := env.templateOf(operands[0])
		if t == nil || t.Definition == nil && t.Resource == nil {
			var known []string
			for i := range env.catalog.Templates {
				if t := &env.catalog.Templates[i]; t.Definition != nil || t.Resource != nil {
					known = append(known, t.Name())
				}
			}
			return negative("the catalog has no definition of %s with which to compare", foreign(operands[0])).
				meant("", operands[0], known, p.command("tools", "import", server)+" writes one.")
		}
		is, err := askOne(ctx, p, server, func(ctx context.Context, pool askedPool, name string) (is introduced, err error) {
			if is.Server, err = live.Ask(ctx, pool.Pool, name, env.catalog.Templates); err != nil {
				return is, err
			}
			if is.place, err = pool.server.Endpoint(); err != nil {
				return is, negative("the server %s: %s", foreign(name), foreign(err.Error()))
			}
			return is, pool.clean(name, &is.Server)
		})
		if err != nil {
			return err
		}
		if t.Resource != nil && is.Unlisted != nil {
			return unanswered("the resources of %s could not be listed: %s", foreign(server), is.Unlisted)
		}
		if t.Resource == nil && !slices.ContainsFunc(is.Tools, func(x mcp.Tool) bool { return x.Name == tool }) {
			return negative("the server %s no longer has the tool %s", foreign(server), foreign(tool))
		}
		changes, err := is.Changes(t)
		if err != nil {
			return negative("the tool %s: %s", foreign(operands[0]), err)
		}
		was := p.snapshot(ctx, env, server)
		if was != nil {
			recall(changes, was, t.Instructions)
		}
		var place map[string]any // if that is what differs
		var moved []string
		if slices.ContainsFunc(changes, func(c fingerprint.Change) bool { return c.Part == live.EndpointPart }) {
			place, moved = is.place, movedFrom(was, t.Endpoints, is.place)
		}
		if p.json() {
			if changes == nil {
				changes = []fingerprint.Change{}
			}
			if err := p.document(struct {
				Tool    string               `json:"tool"`
				Changes []fingerprint.Change `json:"changes"`
				// Place is where the server is, if the catalog pins other places, and Moved how that differs from
				// where it was, in words, if that is known.
				Place map[string]any `json:"place,omitempty"`
				Moved []string       `json:"moved,omitempty"`
			}{operands[0], changes, place, moved}); err != nil {
				return err
			}
		} else {
			p.changed(changes)
			if place != nil {
				p.printf("the server is now: %s\n", foreign(whereabouts(place)))
				if p.sayMoved(moved); moved == nil {
					p.say("where it was is not known")
				}
			}
		}
		if len(changes) > 0 {
			return negative("%s is not what was imported", foreign(operands[0])).
				withHint("%s asks what to make of it.", p.command("tools", "import", server, "--only", tool))
		}
		return nil
	}
}
