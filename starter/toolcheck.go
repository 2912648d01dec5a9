package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	flag "github.com/spf13/pflag"

	"chimera.ai/engine/catalog/live"
	"chimera.ai/engine/config"
	"chimera.ai/engine/contract"
	"chimera.ai/engine/fingerprint"
	"chimera.ai/engine/host"
	"chimera.ai/engine/mcp"
	"chimera.ai/engine/redact"
)

func toolListCommand(p *Program, fs *flag.FlagSet) action {
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	return func(ctx context.Context, operands []string) error {
		all, err := p.offers(ctx, *catalogFile, operands, true)
		if err != nil {
			return err
		}
		return p.sayOffers(all)
	}
}

func toolCheckCommand(p *Program, fs *flag.FlagSet) action {
	catalogFile := fs.String("catalog", "", "`FILE` with the operations that plans may call")
	return func(ctx context.Context, operands []string) error {
		all, err := p.offers(ctx, *catalogFile, operands, false)
		if err != nil {
			return err
		}
		known := slices.DeleteFunc(all, func(o live.Offer) bool { return o.State == live.Unknown || o.Resource != "" })
		if err := p.sayOffers(known); err != nil {
			return err
		}
		stale := 0
		for i := range known {
			if known[i].Stale() {
				stale++
			}
		}
		if stale > 0 {
			return negative("the catalog is stale: %s not what the servers offer", plural(stale, "operation")+" "+agree(stale, "is", "are")).
				withHint("Look at what has changed with chimera tools show, and decide; then correct the catalog.")
		}
		return nil
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
		tools, err := p.listed(ctx, []string{server})
		if err != nil {
			return err
		}
		var names []string
		for _, t := range tools[server] {
			if t.Name == tool {
				return p.showTool(server, t)
			}
			names = append(names, foreign(server+"/"+t.Name))
		}
		return negative("the server %s has no tool %s", foreign(server), foreign(tool)).meant("", operands[0], names, "chimera tools list "+server+" lists them.")
	}
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

// offers holds what servers offer against the catalog, all resources included if that is asked for; all
// servers of the configuration if none is named.
func (p *Program) offers(ctx context.Context, catalogFile string, servers []string, resources bool) ([]live.Offer, error) {
	env, err := p.environment(ctx, catalogFile, "")
	if err != nil {
		return nil, err
	}
	if env.findings.HasErrors() {
		return nil, &failure{code: exitUsage, message: "the catalog or the policy is not valid", diagnostics: env.findings, sources: env.sources}
	}
	offered := map[string]live.Server{}
	err = p.asked(servers, func(pool askedPool, name string) error {
		s, err := live.Ask(ctx, pool.Pool, name, env.catalog.Templates)
		if err != nil {
			return err
		}
		if resources && s.Resources == nil {
			if s.Resources, err = pool.resources(ctx, name, s.Introduction); err != nil {
				return err
			}
		}
		offered[name] = s
		return pool.clean(name, s)
	})
	if err != nil {
		return nil, err
	}
	return live.Compare(env.catalog.Templates, offered), nil
}

// listed lists the tools of servers of the configuration; of all of them if none is named.
func (p *Program) listed(ctx context.Context, names []string) (map[string][]mcp.Tool, error) {
	out := map[string][]mcp.Tool{}
	err := p.asked(names, func(pool askedPool, name string) (err error) {
		if out[name], err = pool.Tools(ctx, name); err != nil {
			return err
		}
		return pool.clean(name, live.Server{Tools: out[name]})
	})
	return out, err
}

// introduced asks a server what it says of itself, and what it offers. unlisted is why its resources
// are not among that.
func (p *Program) introduced(ctx context.Context, server string) (s live.Server, unlisted, err error) {
	err = p.asked([]string{server}, func(pool askedPool, name string) (err error) {
		if s, err = live.Ask(ctx, pool.Pool, name, nil); err != nil {
			return err
		}
		if s.Resources, unlisted = pool.resources(ctx, name, s.Introduction); unlisted != nil {
			unlisted = errors.New(pool.issued.Text(unlisted.Error()))
		}
		return pool.clean(name, s)
	})
	return s, unlisted, err
}

// askedPool is a pool of servers, with the tokens that these were sent.
type askedPool struct {
	*mcp.Pool
	issued *redact.Secrets
}

// clean fails if a server repeats a token in what it declares, which is printed, or written to files.
func (a askedPool) clean(server string, s live.Server) error {
	where := ""
	if said := s.Introduction.Raw; !bytes.Equal(a.issued.JSON(said), said) {
		where = "what it says of itself"
	}
	for _, t := range s.Tools {
		if !bytes.Equal(a.issued.JSON(t.Raw), t.Raw) {
			where = "the definition of a tool"
		}
	}
	for _, r := range s.Resources {
		for _, text := range []string{r.URI, r.Name, r.MIMEType, r.Description} {
			if a.issued.Text(text) != text {
				where = "what it says of a resource"
			}
		}
	}
	if where == "" {
		return nil
	}
	return negative("the server %s repeats a token that it was sent, in %s", foreign(server), where)
}

// asked starts servers of the configuration, or all of them if none is named, and asks each.
func (p *Program) asked(names []string, ask func(pool askedPool, name string) error) error {
	servers, err := p.servers(names)
	if err != nil {
		return err
	}
	issued := redact.New(nil)
	pool := askedPool{mcp.NewPool(servers, mcp.Options{Logger: slog.New(slog.DiscardHandler), Issued: issued.Add}), issued}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		err = errors.Join(err, ask(pool, name))
	}
	if closed := pool.Close(); err == nil && closed != nil {
		err = closed
	}
	if known := (*contract.Error)(nil); errors.As(err, &known) {
		return unanswered("%s", foreign(issued.Text(strings.ReplaceAll(err.Error(), "\n", "; "))))
	}
	return err
}

// servers are those of the configuration that are named, or all of them, with their secrets.
func (p *Program) servers(names []string) (map[string]mcp.Server, error) {
	c, err := p.settings()
	if err != nil {
		return nil, err
	}
	known := slices.Sorted(maps.Keys(c.MCPServers))
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, misuse("the configuration has no MCP server %s", foreign(name)).meant("", name, known, "Servers stand in mcpServers.")
		}
	}
	if len(known) == 0 {
		return nil, misuse("the configuration has no MCP server").withHint("Servers stand in mcpServers of chimera.yaml.")
	}
	if len(names) > 0 {
		maps.DeleteFunc(c.MCPServers, func(name string, _ config.Server) bool { return !slices.Contains(names, name) })
	}
	c.Skills = nil
	if c, err = c.Resolve(string(host.RoleTools), string(host.RoleEffects)); err != nil {
		return nil, misuse("%s", err)
	}
	return host.Servers(c), nil
}

// sayOffers prints tools, each with what the catalog says of it.
func (p *Program) sayOffers(all []live.Offer) error {
	if p.json() {
		if all == nil {
			all = []live.Offer{}
		}
		return p.document(struct {
			Tools []live.Offer `json:"tools"`
		}{all})
	}
	for _, o := range all {
		line := fmt.Sprintf("%-18s %s/%s", o.State, foreign(o.Server), foreign(o.Tool))
		if o.Resource != "" {
			line = fmt.Sprintf("%-18s %s %s", o.State, strings.TrimSuffix(foreign(o.Server+"/"+o.Tool), "/"), foreign(o.Resource))
		}
		if o.Fingerprint != "" {
			line += " " + o.Fingerprint
		}
		if o.Problem != "" {
			line += ": " + foreign(o.Problem)
		}
		p.printf("%s\n", line)
	}
	return nil
}
